//! Translates between words and the messages of [`api`](crate::api).
//!
//! The files below are tables: [`message!`] says which field is which, [`numbers!`] which number. Both directions are made
//! from the same line, and both take their argument apart completely, so that a field or number that is new in the
//! protocol does not compile until someone decides about it.

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

/// Becomes the same thing on the other side: a word from the wire, or a message from a value.
pub(crate) trait Translate<Other> {
    /// Translates without loss, and cannot fail.
    fn translate(self) -> Other;
}

/// What may hold fields that nobody knows, and becomes something that has no place for them.
pub(crate) trait NoteUnknown {
    /// Notes them in the word that it becomes a part of. What is a word itself has its own.
    fn note(&self, _unknown: &mut crate::model::Unknown) {}
}

/// Translates a message both ways: first the fields that have the same name on both sides, then `theirs as ours`.
macro_rules! message {
    ($message:ident as $model:ident { $($same:ident),* $(; $($theirs:ident as $ours:ident),+)? $(,)? }) => {
        impl From<api::$message> for $model {
            fn from(message: api::$message) -> Self {
                let api::$message { $($same,)* $($($theirs: $ours,)+)? special_fields } = message;
                let mut unknown = special_fields.translate();
                $(crate::convert::NoteUnknown::note(&$same, &mut unknown);)*
                $($(crate::convert::NoteUnknown::note(&$ours, &mut unknown);)+)?
                Self {
                    $($same: $same.translate(),)*
                    $($($ours: $ours.translate(),)+)?
                    unknown,
                }
            }
        }

        impl crate::convert::NoteUnknown for api::$message {}

        impl From<$model> for api::$message {
            fn from(value: $model) -> Self {
                let $model { $($same,)* $($($ours,)+)? unknown } = value;
                Self {
                    $($same: $same.translate(),)*
                    $($($theirs: $ours.translate(),)+)?
                    special_fields: unknown.translate(),
                }
            }
        }

        impl crate::model::TakeUnknown for $model {
            fn take_unknown_into(&mut self, found: &mut Vec<crate::model::Unread>) {
                let $model { $($same,)* $($($ours,)+)? unknown } = self;
                $(crate::model::TakeUnknown::take_unknown_into($same, found);)*
                $($(crate::model::TakeUnknown::take_unknown_into($ours, found);)+)?
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

/// Translates an enum both ways: `theirs as ours` for each number that has a name.
macro_rules! numbers {
    ($theirs:ty as $ours:ident { $($number:ident as $variant:ident),+ $(,)? }) => {
        impl crate::model::TakeUnknown for $ours {
            fn take_unknown_into(&mut self, _found: &mut Vec<crate::model::Unread>) {}
        }

        /// By upstream's name, or its number where it has none.
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
    };
}

use {message, numbers};
