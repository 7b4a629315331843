//! Encodes words as the wire has them, without making messages of them first.
//!
//! A request to plugins is made of a pod and a container that others still look at. To encode it through
//! [`api`](crate::api) both would have to be copied, each of their strings with them: that was half of what a request
//! cost. What is here writes the same bytes from the words themselves, for those words that requests are made of.
//!
//! It is written from the back to the front: the length of a message stands before it, and is known only when all that is
//! in it has been written.
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

mod again;
#[cfg(test)]
mod tests;
mod value;

use bytes::{Buf, Bytes};
use protobuf::CodedOutputStream;

pub use self::again::{First, Marked, Part, Since};
use crate::model::Unknown;

/// The kind of a field that is one number.
const VARINT: u32 = 0;
/// The kind of a field that says how long it is: texts, messages, packed numbers.
const SIZED: u32 = 2;
/// How the first field of a message begins if it is a number.
const NUMBER: u8 = (1 << 3 | VARINT) as u8;

/// A word that can be encoded.
pub trait Encode {
    /// Writes its fields, the one with the highest number first.
    fn encode(&self, out: &mut Writer);
}

impl<W: Encode> Encode for Box<W> {
    fn encode(&self, out: &mut Writer) {
        W::encode(self, out);
    }
}

/// What one field of a word is made of.
pub(crate) trait EncodeField {
    /// Writes the field, unless it has the value that it has when nothing is written.
    fn write(&self, field: u32, out: &mut Writer);

    /// How many entries there are, of a list.
    fn n_entries(&self) -> usize {
        0
    }

    /// Writes those behind the first `n`, of a list.
    fn write_behind(&self, n: usize, field: u32, out: &mut Writer) {
        debug_assert_eq!(n, 0, "it is no list");
        self.write(field, out);
    }
}

/// Where the fields of a word go, the one with the highest number first.
pub(crate) trait FieldSink {
    fn unknown(&mut self, unknown: &Unknown);
    fn field(&mut self, number: u32, value: &impl EncodeField);
}

impl FieldSink for Writer {
    fn unknown(&mut self, unknown: &Unknown) {
        Self::unknown(self, unknown);
    }

    fn field(&mut self, number: u32, value: &impl EncodeField) {
        value.write(number, self);
    }
}

/// Where words are written to, each before those that were written earlier.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    /// Room, and behind it what was written.
    bytes: Vec<u8>,
    /// Where that begins.
    start: usize,
    /// Whether fields that nobody knows are left out.
    only_known: bool,
}

impl Writer {
    /// Begins with room for so many bytes. There may be more.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes], start: bytes, only_known: false }
    }

    /// The same, for who reads it with what we know today: fields that nobody knows are left out.
    #[must_use]
    pub fn of_known(bytes: usize) -> Self {
        Self { only_known: true, ..Self::with_capacity(bytes) }
    }

    /// Returns what was written. Room that was not needed is given back, if it is much.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        if self.length() < self.bytes.len() / 2 {
            return Bytes::copy_from_slice(self.written());
        }
        let mut bytes = Bytes::from(self.bytes);
        bytes.advance(self.start);
        bytes
    }

    /// What was written so far.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Writes a word as a field of the message that is being written.
    pub fn word(&mut self, field: u32, word: &impl Encode) {
        self.message(field, |out| word.encode(out));
    }

    /// Writes what is encoded already as a field.
    pub fn encoded(&mut self, field: u32, word: &[u8]) {
        let length = word.len();
        // Most are short, and of a field with a low number: then it is looked once how much room there is.
        if let (tag @ ..0x80, ..0x80) = (tag(field, SIZED), length)
            && let Some(start) = self.start.checked_sub(length + 2)
            && let Some((head, rest)) = self.bytes[start..self.start].split_first_chunk_mut()
        {
            *head = [tag as u8, length as u8];
            rest.copy_from_slice(word);
            self.start = start;
            return;
        }
        self.raw(word);
        self.head(field, length);
    }

    /// Writes a number as a field, unless it is zero.
    pub fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.number_or_zero(field, value);
        }
    }

    /// Writes a number also if it is zero.
    fn number_or_zero(&mut self, field: u32, value: u64) {
        match (tag(field, VARINT), value) {
            (tag @ ..0x80, value @ ..0x80) => self.raw(&[tag as u8, value as u8]),
            (tag @ ..0x80, value @ ..0x4000) => {
                let [low, high] = two_bytes(value);
                self.raw(&[tag as u8, low, high]);
            }
            (tag, value) => {
                self.varint(value);
                self.varint(tag);
            }
        }
    }

    /// Writes a number as a message with nothing else in it; with nothing at all if it is zero.
    fn wrapped_number(&mut self, field: u32, value: u64) {
        match (tag(field, SIZED), value) {
            (tag @ ..0x80, 0) => self.raw(&[tag as u8, 0]),
            (tag @ ..0x80, value @ ..0x80) => self.raw(&[tag as u8, 2, NUMBER, value as u8]),
            (tag @ ..0x80, value @ ..0x4000) => {
                let [low, high] = two_bytes(value);
                self.raw(&[tag as u8, 3, NUMBER, low, high]);
            }
            _ => self.message(field, |out| out.number(1, value)),
        }
    }

    fn text(&mut self, field: u32, text: &str) {
        self.encoded(field, text.as_bytes());
    }

    /// Writes as a field what `write` writes.
    pub fn message<T>(&mut self, field: u32, write: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.length();
        let written = write(self);
        self.head(field, self.length() - before);
        written
    }

    /// Writes what stands before a field that has been written.
    #[inline]
    fn head(&mut self, field: u32, length: usize) {
        match (tag(field, SIZED), length as u64) {
            // Most are short, and of a field with a low number.
            (tag @ ..0x80, length @ ..0x80) => self.raw(&[tag as u8, length as u8]),
            (tag @ ..0x80, length @ ..0x4000) => {
                let [low, high] = two_bytes(length);
                self.raw(&[tag as u8, low, high]);
            }
            (tag, length) => {
                self.varint(length);
                self.varint(tag);
            }
        }
    }

    #[inline]
    pub(crate) fn unknown(&mut self, unknown: &Unknown) {
        if !unknown.is_empty() && !self.only_known {
            self.some_unknown(unknown);
        }
    }

    #[cold]
    fn some_unknown(&mut self, unknown: &Unknown) {
        let mut bytes = Vec::new();
        let mut out = CodedOutputStream::vec(&mut bytes);
        out.write_unknown_fields(unknown.fields()).and_then(|()| out.flush()).expect("memory takes what is written");
        drop(out);
        self.raw(&bytes);
    }

    /// Writes bytes behind their length.
    pub fn sized(&mut self, bytes: &[u8]) {
        self.raw(bytes);
        self.varint(bytes.len() as u64);
    }

    /// Writes a number that is no field.
    #[inline]
    pub fn varint(&mut self, value: u64) {
        // Most are one byte.
        if value < 0x80 {
            self.raw(&[value as u8]);
        } else {
            self.long_varint(value);
        }
    }

    #[inline(never)]
    fn long_varint(&mut self, value: u64) {
        self.raw(Varint::new(value).as_bytes());
    }

    /// Writes bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        if bytes.len() > self.start {
            self.make_room(bytes.len());
        }
        let end = self.start;
        self.start -= bytes.len();
        self.bytes[self.start..end].copy_from_slice(bytes);
    }

    #[cold]
    fn make_room(&mut self, length: usize) {
        let more = self.bytes.len().max(length);
        drop(self.bytes.splice(..self.start, std::iter::repeat_n(0, self.start + more)));
        self.start += more;
    }

    /// How many bytes were written so far.
    #[must_use]
    pub fn length(&self) -> usize {
        self.bytes.len() - self.start
    }
}

fn tag(field: u32, kind: u32) -> u64 {
    (field << 3 | kind).into()
}

/// A number below 0x4000 as the wire has it, unless one byte is enough.
fn two_bytes(value: u64) -> [u8; 2] {
    [(value & 0x7f) as u8 | 0x80, (value >> 7) as u8]
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
