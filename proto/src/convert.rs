//! Conversions between model types and the messages of [`api`](crate::api), in both directions.
//!
//! Most files are tables. [`message!`] maps the fields of a message to those of a model type, and
//! [`numbers!`] the values of an enum. Each line serves both directions, and both destructure their
//! argument completely. A field or value that is new in the protocol does not compile until it has
//! been mapped. The same tables say how the model types of requests and usual replies are encoded
//! and decoded without messages in between ([`encode`](crate::encode), [`decode`](crate::decode)).
//!
//! - One file per file of `model`, with its tables: `adjustment.rs`, `container.rs` and so on.
//! - `changes.rs`: changes, which the wire expresses by dashes in front of keys.
//! - `value.rs`: the types of fields, such as wrappers, lists and maps.
//! - `arbitrary.rs`: proptest strategies for model types. They are here and not in `model`, because
//!   they start from numbers and text of the wire.

mod adjustment;
#[cfg(any(test, feature = "proptest"))]
pub mod arbitrary;
mod changes;
mod container;
mod device;
mod failure_policy;
mod field;
mod hooks;
mod linux;
mod memory_policy;
mod mount;
mod owners;
mod pod;
mod proposal;
mod reply;
mod resources;
mod scheduler;
mod seccomp;
#[cfg(test)]
pub(crate) use tests::fill;
#[cfg(test)]
pub(crate) mod tests;
mod update;
mod value;

/// A conversion between a model type and its form on the wire, in either direction.
pub(crate) trait Translate<Other> {
    /// Converts the value without loss.
    fn translate(self) -> Other;
}

/// A part of a message that can contain unknown fields but becomes a value without a place for
/// them.
pub(crate) trait NoteUnknown {
    /// Records the unknown fields in the `Unknown` of the enclosing model type.
    ///
    /// The default does nothing. It is for parts that become model types, which have their own
    /// `Unknown`.
    fn note(&self, _unknown: &mut crate::model::Unknown) {}
}

/// Implements the conversions of a message. The fields are listed in the order of their numbers,
/// those with different names as `theirs as ours`. `encode` and `decode` behind the fields say that
/// the model type can also be encoded or decoded directly.
macro_rules! message {
    ($message:ident as $model:ident { $($fields:tt)* } $(, $codec:ident)*) => {
        crate::convert::each! { [conversions $($codec)*] $message as $model [] $($fields)* }
    };
}

/// Implements the direct decoding of a message that has only the listed fields.
macro_rules! decode_usual {
    ($message:ident as $model:ident { $($fields:tt)* }) => {
        crate::convert::each! { [decode] $message as $model [] $($fields)* }
    };
}

/// Calls macros with a message, its model type, and the pairs of names of their fields.
macro_rules! each {
    ($calls:tt $message:ident as $model:ident [$($pairs:tt)*] $theirs:ident as $ours:ident $(, $($rest:tt)*)?) => {
        crate::convert::each! { $calls $message as $model [$($pairs)* ($theirs $ours)] $($($rest)*)? }
    };
    ($calls:tt $message:ident as $model:ident [$($pairs:tt)*] $same:ident $(, $($rest:tt)*)?) => {
        crate::convert::each! { $calls $message as $model [$($pairs)* ($same $same)] $($($rest)*)? }
    };
    ([$($call:ident)*] $message:ident as $model:ident $pairs:tt) => {
        $(crate::convert::$call! { $message as $model $pairs })*
    };
}

/// Implements the conversions of a message, from the pairs of names of its fields.
macro_rules! conversions {
    ($message:ident as $model:ident [$(($theirs:ident $ours:ident))*]) => {
        impl From<api::$message> for $model {
            fn from(message: api::$message) -> Self {
                let api::$message { $($theirs: $ours,)* special_fields } = message;
                let mut unknown = special_fields.translate();
                $(crate::convert::NoteUnknown::note(&$ours, &mut unknown);)*
                Self { $($ours: $ours.translate(),)* unknown }
            }
        }

        impl crate::convert::NoteUnknown for api::$message {}

        impl From<$model> for api::$message {
            fn from(value: $model) -> Self {
                let $model { $($ours,)* unknown } = value;
                Self { $($theirs: $ours.translate(),)* special_fields: unknown.translate() }
            }
        }

        impl crate::model::TakeUnknown for $model {
            fn take_unknown_into(&mut self, found: &mut Vec<crate::model::Unread>) {
                let $model { $($ours,)* unknown } = self;
                $(crate::model::TakeUnknown::take_unknown_into($ours, found);)*
                unknown.take(stringify!($message), found);
            }
        }

        impl Translate<$model> for api::$message {
            fn translate(self) -> $model {
                self.into()
            }
        }

        impl Translate<api::$message> for $model {
            fn translate(self) -> api::$message {
                self.into()
            }
        }
    };
}

/// Implements the conversions of an enum, with `theirs as ours` for each value that has a name.
macro_rules! numbers {
    ($theirs:ty as $ours:ident { $($number:ident as $variant:ident),+ $(,)? }) => {
        impl crate::model::TakeUnknown for $ours {
            fn take_unknown_into(&mut self, _found: &mut Vec<crate::model::Unread>) {}
        }

        /// Formats the value as its name in `nri.proto`, or as its number if it has no name.
        impl std::fmt::Display for $ours {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($ours::$variant => f.write_str(stringify!($number)),)+
                    $ours::Unnamed(unnamed) => write!(f, "{}", unnamed.number()),
                }
            }
        }

        impl Translate<$ours> for EnumOrUnknown<$theirs> {
            fn translate(self) -> $ours {
                match self.enum_value() {
                    $(Ok(<$theirs>::$number) => $ours::$variant,)+
                    Err(number) => $ours::Unnamed(Unnamed::new(number)),
                }
            }
        }

        impl Translate<EnumOrUnknown<$theirs>> for $ours {
            fn translate(self) -> EnumOrUnknown<$theirs> {
                match self {
                    $($ours::$variant => <$theirs>::$number.into(),)+
                    $ours::Unnamed(unnamed) => EnumOrUnknown::from_i32(unnamed.number()),
                }
            }
        }

        impl crate::codec::encode::EncodeField for $ours {
            fn write(&self, field: u32, out: &mut crate::codec::encode::Writer) {
                let number: EnumOrUnknown<$theirs> = self.clone().translate();
                number.value().write(field, out);
            }
        }

        /// Encodes a list, which `nri.proto` declares as not packed.
        impl crate::codec::encode::EncodeField for Vec<$ours> {
            fn write(&self, field: u32, out: &mut crate::codec::encode::Writer) {
                for value in self.iter().rev() {
                    let number: EnumOrUnknown<$theirs> = value.clone().translate();
                    out.number_or_zero(field, i64::from(number.value()).cast_unsigned());
                }
            }
        }
    };
}

use crate::codec::{decode, encode};
use {conversions, decode_usual, each, message, numbers};
