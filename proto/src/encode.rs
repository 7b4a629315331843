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
/// What the tag of a field and its length take at most.
const HEAD: usize = 2 * Varint::MAX;

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
        self.0.reserve(HEAD + word.len());
        match (tag(field, SIZED), word.len() as u64) {
            // Most are short, and of a field with a low number.
            (tag @ ..0x80, length @ ..0x80) => self.0.extend_from_slice(&[tag as u8, length as u8]),
            (tag, length) => {
                self.varint(tag);
                self.varint(length);
            }
        }
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
        self.varint(tag(field, VARINT));
        self.varint(value);
    }

    fn text(&mut self, field: u32, text: &str) {
        self.encoded(field, text.as_bytes());
    }

    /// Writes a message whose length is only known afterwards. Most are shorter than 128 bytes, and one byte says so; for
    /// a longer one room is made.
    fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.varint(tag(field, SIZED));
        let start = self.0.len();
        self.0.push(0);
        write(self);
        let length = (self.0.len() - start - 1) as u64;
        if length < 0x80 {
            self.0[start] = length as u8;
        } else {
            self.0.splice(start..=start, Varint::new(length).as_bytes().iter().copied());
        }
    }

    fn unknown(&mut self, unknown: &Unknown) {
        if !unknown.is_empty() {
            let mut out = CodedOutputStream::vec(&mut self.0);
            out.write_unknown_fields(&unknown.0).and_then(|()| out.flush()).expect("memory takes what is written");
        }
    }

    #[inline]
    fn varint(&mut self, value: u64) {
        // Most are one byte.
        if value < 0x80 {
            self.0.push(value as u8);
        } else {
            self.long_varint(value);
        }
    }

    fn long_varint(&mut self, value: u64) {
        self.0.extend_from_slice(Varint::new(value).as_bytes());
    }
}

fn tag(field: u32, kind: u32) -> u64 {
    (field << 3 | kind).into()
}

/// A number as the wire has it: seven bits in each byte, the lowest first; the eighth says that there are more.
struct Varint {
    bytes: [u8; Self::MAX],
    length: usize,
}

impl Varint {
    const MAX: usize = 10;

    fn new(value: u64) -> Self {
        let (mut bytes, mut length, mut rest) = ([0; Self::MAX], 0, value);
        while rest >= 0x80 {
            bytes[length] = (rest & 0x7f) as u8 | 0x80;
            length += 1;
            rest >>= 7;
        }
        bytes[length] = rest as u8;
        Self { bytes, length: length + 1 }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
