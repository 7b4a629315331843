//! Encodes model types directly, without converting them to messages first.
//!
//! A request to plugins consists of a pod and a container that are shared with other tasks.
//! Encoding it through [`api`](crate::api) copies both with all their strings, which was half of
//! the cost of a request. This module writes the same bytes from the model types of which requests
//! consist.
//!
//! Encoding proceeds from the end to the beginning: the length of a message precedes its content,
//! and is only known after the content has been written.
//!
//! ```
//! use nri_proto::encode::Writer;
//! use nri_proto::{Pod, api};
//! use protobuf::Message;
//!
//! let pod = Pod { id: "4f1c".to_owned(), name: "web".to_owned(), ..Pod::default() };
//! let mut out = Writer::default();
//! out.model(1, &pod);
//! let request = api::RunPodSandboxRequest::parse_from_bytes(&out.into_bytes())?;
//! assert_eq!(Pod::from(request.pod.unwrap()), pod);
//! # Ok::<(), protobuf::Error>(())
//! ```

#[cfg(test)]
mod tests;
mod value;

use bytes::{Buf, Bytes};
use protobuf::CodedOutputStream;

use crate::model::Unknown;

/// The wire type of numbers.
const VARINT: u32 = 0;
/// The wire type of length-delimited fields: strings, messages and packed numbers.
const SIZED: u32 = 2;
/// The tag of field 1 if it is a number.
const NUMBER: u8 = (1 << 3 | VARINT) as u8;

/// A model type that can be encoded.
pub trait Encode {
    /// Writes the fields, from the highest field number to the lowest.
    fn encode(&self, out: &mut Writer);
}

/// Implements `Encode` for the model type of a message, from the pairs of names of its fields. The
/// numbers are those in `nri.proto`.
macro_rules! encode {
    ($message:ident as $model:ident [$(($theirs:ident $ours:ident))*]) => {
        impl crate::codec::encode::Encode for $model {
            fn encode(&self, out: &mut crate::codec::encode::Writer) {
                use crate::schema::field_numbers::$message as numbers;
                const IS_IN_ORDER: bool = matches!(numbers::ALL, [$(numbers::$theirs),*]);
                const _: () = assert!(IS_IN_ORDER, "the fields are not listed in the order of their numbers");
                let $model { $($ours,)* unknown } = self;
                out.unknown(unknown);
                crate::codec::encode::write_back!(out numbers $(($theirs $ours))*);
            }
        }
    };
}

/// Encodes fields from the last to the first.
macro_rules! write_back {
    ($out:ident $numbers:ident) => {};
    ($out:ident $numbers:ident ($theirs:ident $ours:ident) $($rest:tt)*) => {
        crate::codec::encode::write_back!($out $numbers $($rest)*);
        crate::codec::encode::EncodeField::write($ours, $numbers::$theirs, $out);
    };
}

pub(crate) use {encode, write_back};

impl<W: Encode> Encode for Box<W> {
    fn encode(&self, out: &mut Writer) {
        W::encode(self, out);
    }
}

/// The type of a field of a model type.
pub(crate) trait EncodeField {
    /// Writes the field, unless it has its default value.
    fn write(&self, field: u32, out: &mut Writer);
}

/// A buffer to which fields are prepended.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    /// Free space, followed by the written bytes.
    bytes: Vec<u8>,
    /// The index of the first written byte.
    start: usize,
    /// Whether unknown fields are left out.
    only_known: bool,
}

impl Writer {
    /// Creates a writer with space for this many bytes. It grows if necessary.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes], start: bytes, only_known: false }
    }

    /// Creates a writer that leaves out unknown fields, with space for this many bytes.
    #[must_use]
    pub fn of_known(bytes: usize) -> Self {
        Self { only_known: true, ..Self::with_capacity(bytes) }
    }

    /// Returns the written bytes. If less than half of the buffer was used, they are copied, and
    /// the buffer is freed.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        if self.length() < self.bytes.len() / 2 {
            return Bytes::copy_from_slice(self.written());
        }
        let mut bytes = Bytes::from(self.bytes);
        bytes.advance(self.start);
        bytes
    }

    /// Returns the bytes written so far.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Writes a model type as a field of the current message.
    pub fn model(&mut self, field: u32, value: &impl Encode) {
        self.message(field, |out| value.encode(out));
    }

    /// Writes an encoded message or string as a field.
    pub fn encoded(&mut self, field: u32, content: &[u8]) {
        let length = content.len();
        // Most content is short and most field numbers are low. Then the free space is checked
        // once.
        if let (tag @ ..0x80, ..0x80) = (tag(field, SIZED), length)
            && let Some(start) = self.start.checked_sub(length + 2)
            && let Some((head, rest)) = self.bytes[start..self.start].split_first_chunk_mut()
        {
            *head = [tag as u8, length as u8];
            rest.copy_from_slice(content);
            self.start = start;
            return;
        }
        self.raw(content);
        self.head(field, length);
    }

    /// Writes a number as a field, unless it is zero.
    pub fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.number_or_zero(field, value);
        }
    }

    /// Writes a number as a field, even if it is zero.
    pub(crate) fn number_or_zero(&mut self, field: u32, value: u64) {
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

    /// Writes a number in a wrapper message. The wrapper of zero is empty.
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

    /// Writes a message as a field. `write` writes the content of the message.
    pub fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let before = self.length();
        write(self);
        self.head(field, self.length() - before);
    }

    /// Writes the tag and the length of a field whose content has been written.
    #[inline]
    fn head(&mut self, field: u32, length: usize) {
        match (tag(field, SIZED), length as u64) {
            // Most content is short, and most field numbers are low.
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
            self.write_unknown(unknown);
        }
    }

    #[cold]
    fn write_unknown(&mut self, unknown: &Unknown) {
        let mut bytes = Vec::new();
        let mut out = CodedOutputStream::vec(&mut bytes);
        out.write_unknown_fields(unknown.fields()).and_then(|()| out.flush()).expect("writing to memory does not fail");
        drop(out);
        self.raw(&bytes);
    }

    /// Writes bytes and, before them, their length.
    pub fn sized(&mut self, bytes: &[u8]) {
        self.raw(bytes);
        self.varint(bytes.len() as u64);
    }

    /// Writes a number without a tag.
    #[inline]
    pub fn varint(&mut self, value: u64) {
        // Most numbers fit into one byte.
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

    /// Writes bytes unchanged.
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

    /// Returns the number of bytes written so far.
    #[must_use]
    pub fn length(&self) -> usize {
        self.bytes.len() - self.start
    }
}

fn tag(field: u32, kind: u32) -> u64 {
    (field << 3 | kind).into()
}

/// Encodes a number from 0x80 to 0x3fff as a varint.
fn two_bytes(value: u64) -> [u8; 2] {
    [(value & 0x7f) as u8 | 0x80, (value >> 7) as u8]
}

/// An encoded varint: seven bits per byte, the lowest first. The eighth bit marks all but the last
/// byte.
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
