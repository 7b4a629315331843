//! Encodes words as the wire has them, without making messages of them first.
//!
//! A request to plugins is made of a pod and a container that others still look at. To encode it through
//! [`api`](crate::api) both would have to be copied, each of their strings with them: that was half of what a request
//! cost. What is here writes the same bytes from the words themselves, for those words that requests are made of.
//!
//! ```
//! use nri_proto::encode::Writer;
//! use nri_proto::{Pod, api};
//! use protobuf::Message;
//!
//! let pod = Pod { id: "4f1c".to_owned(), name: "web".to_owned(), ..Pod::default() };
//! let mut out = Writer::default();
//! out.word(1, &pod);
//! let request = api::RunPodSandboxRequest::parse_from_bytes(&out.into_bytes())?;
//! assert_eq!(Pod::from(request.pod.unwrap()), pod);
//! # Ok::<(), protobuf::Error>(())
//! ```

mod tables;
#[cfg(test)]
mod tests;
mod value;

use protobuf::CodedOutputStream;

use crate::words::Unknown;

/// The kind of a field that is one number.
const VARINT: u32 = 0;
/// The kind of a field that says how long it is: texts, messages, packed numbers.
const SIZED: u32 = 2;

/// A word that can be encoded.
pub trait Encode {
    /// Writes its fields, in the order of their numbers.
    fn encode(&self, out: &mut Writer);
}

/// What one field of a word is made of.
pub(crate) trait Value {
    /// Writes the field, unless it has the value that it has when nothing is written.
    fn write(&self, field: u32, out: &mut Writer);
}

/// Where words are written to.
#[derive(Clone, Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Begins with room for so many bytes. There may be more.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Returns what was written. Room that was not needed is given back, if it is much.
    pub fn into_bytes(mut self) -> Vec<u8> {
        if self.0.len() < self.0.capacity() / 2 {
            self.0.shrink_to_fit();
        }
        self.0
    }

    /// Writes a word as a field of the message that is being written.
    pub fn word(&mut self, field: u32, word: &impl Encode) {
        self.message(field, |out| word.encode(out));
    }

    /// Writes what is encoded already as a field.
    pub fn encoded(&mut self, field: u32, word: &[u8]) {
        self.tag(field, SIZED);
        self.varint(word.len() as u64);
        self.0.extend_from_slice(word);
    }

    /// Writes a number as a field, unless it is zero.
    pub fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.each_number(field, value);
        }
    }

    /// Writes a number also if it is zero.
    fn each_number(&mut self, field: u32, value: u64) {
        self.tag(field, VARINT);
        self.varint(value);
    }

    fn text(&mut self, field: u32, text: &str) {
        self.encoded(field, text.as_bytes());
    }

    /// Writes a message whose length is only known afterwards. Most are shorter than 128 bytes, and one byte says so; for
    /// a longer one room is made.
    fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.tag(field, SIZED);
        let start = self.0.len();
        self.0.push(0);
        write(self);
        let mut length = Self::default();
        length.varint((self.0.len() - start - 1) as u64);
        match *length.0 {
            [byte] => self.0[start] = byte,
            _ => drop(self.0.splice(start..=start, length.0)),
        }
    }

    fn unknown(&mut self, unknown: &Unknown) {
        if !unknown.is_empty() {
            let mut out = CodedOutputStream::vec(&mut self.0);
            out.write_unknown_fields(&unknown.0).and_then(|()| out.flush()).expect("memory takes what is written");
        }
    }

    fn tag(&mut self, field: u32, kind: u32) {
        self.varint((field << 3 | kind).into());
    }

    /// Seven bits in each byte, the lowest first; the eighth says that there are more.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
