//! Reads the replies of plugins as the wire has them, without making messages of them first.
//!
//! It reads what is usual, and is as strict as can be about that: fields that we know, each in the form that writers
//! give it. Of all else it says so, and whoever asked goes the way of [`api`](crate::api), which knows what everything
//! means, and what is wrong with the rest. So there is one opinion about each byte: theirs.
//!
//! ```
//! use nri_proto::{Adjustment, CreateReply, EnvVar, api, decode};
//! use protobuf::Message;
//!
//! let mut adjustment = Adjustment::default();
//! adjustment.env.set(EnvVar::new("LEVEL", "debug"))?;
//! let reply = CreateReply::from(adjustment);
//! let bytes = api::CreateContainerResponse::from(reply.clone()).write_to_bytes()?;
//! assert_eq!(decode::usual::<CreateReply>(&bytes).as_deref(), Some(&reply));
//!
//! let unknown_to_us = [0x7a, 0x00];
//! assert_eq!(decode::usual::<CreateReply>(&unknown_to_us), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod reader;
#[cfg(test)]
mod tests;
mod value;

pub use self::reader::{Reader, SIZED};

/// A word that can be read. It is read where it stays: some are large.
pub trait Decode: Default {
    /// Reads all that is left, if there is nothing unusual about it.
    fn decode(&mut self, input: Reader<'_>) -> Option<()>;
}

/// What one field of a word is made of.
pub(crate) trait DecodeField {
    /// Reads the field, which is of this kind.
    fn read(&mut self, kind: u8, input: &mut Reader<'_>) -> Option<()>;
}

/// Returns the word that is encoded in `bytes`, if there is nothing unusual about it.
pub fn usual<W: Decode>(bytes: &[u8]) -> Option<Box<W>> {
    let mut word = Box::<W>::default();
    word.decode(Reader::new(bytes))?;
    Some(word)
}
