//! Decodes the replies of plugins directly into model types, without messages in between.
//!
//! Only the usual encoding is decoded: known fields, each in the form that encoders write. For all
//! other input, valid or not, decoding returns `None`, and the caller decodes through
//! [`api`](crate::api) instead. How unusual input is interpreted is therefore decided in one place.
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

/// A model type that can be decoded. Decoding fills a value in place, because some types are large.
pub trait Decode: Default {
    /// Decodes the rest of `input`. Returns `None` if the encoding is unusual.
    fn decode(&mut self, input: Reader<'_>) -> Option<()>;
}

/// Implements `Decode` for the model type of a message, from the pairs of names of its fields. A
/// message with another field is decoded through [`api`](crate::api).
macro_rules! decode {
    ($message:ident as $model:ident [$(($theirs:ident $ours:ident))*]) => {
        impl crate::codec::decode::Decode for $model {
            fn decode(&mut self, mut input: crate::codec::decode::Reader<'_>) -> Option<()> {
                use crate::codec::decode::DecodeField;
                use crate::schema::field_numbers::$message as numbers;
                // `next_field` reads tags of one byte.
                $(const _: () = assert!(numbers::$theirs < 16);)*
                while let Some((number, kind)) = input.next_field() {
                    match u32::from(number) {
                        $(numbers::$theirs => DecodeField::read(&mut self.$ours, kind, &mut input)?,)*
                        _ => return None,
                    }
                }
                Some(())
            }
        }
    };
}

pub(crate) use decode;

/// The type of a field of a model type.
pub(crate) trait DecodeField {
    /// Decodes the field, which has this wire type.
    fn read(&mut self, kind: u8, input: &mut Reader<'_>) -> Option<()>;
}

/// Decodes a model type. Returns `None` if the encoding is unusual, or invalid.
pub fn usual<W: Decode>(bytes: &[u8]) -> Option<Box<W>> {
    let mut value = Box::<W>::default();
    value.decode(Reader::new(bytes))?;
    Some(value)
}
