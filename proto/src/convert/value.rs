//! Conversions of the types of fields: scalars, wrappers, lists, maps and unknown fields.

use std::collections::{BTreeMap, HashMap};

use protobuf::{Enum, EnumOrUnknown, MessageField, SpecialFields};

use super::{NoteUnknown, Translate};
use crate::model::{Args, ChangeList, ChangeMap, Owner, TakeUnknown, Unknown, Unread};
use crate::schema::api;

/// Implements the conversions of scalars, which are equal on both sides.
macro_rules! scalars {
    ($($scalar:ty),+) => {
        $(impl Translate<$scalar> for $scalar {
            fn translate(self) -> $scalar {
                self
            }
        }

        impl NoteUnknown for $scalar {}

        impl TakeUnknown for $scalar {
            fn take_unknown_into(&mut self, _found: &mut Vec<Unread>) {}
        })+
    };
}

scalars!(bool, i32, i64, u32, u64, String);

/// Implements the conversions of wrapper messages. A wrapper becomes its value; a missing one
/// becomes `None`.
macro_rules! wrappers {
    ($($wrapper:ident of $value:ty),+ $(,)?) => {
        $(impl Translate<$value> for api::$wrapper {
            fn translate(self) -> $value {
                let api::$wrapper { value, special_fields: _ } = self;
                value
            }
        }

        impl NoteUnknown for api::$wrapper {
            fn note(&self, unknown: &mut Unknown) {
                let fields = self.special_fields.unknown_fields();
                if fields.iter().next().is_some() {
                    unknown.add_wrapped(stringify!($wrapper), fields);
                }
            }
        }

        impl Translate<api::$wrapper> for $value {
            fn translate(self) -> api::$wrapper {
                api::$wrapper { value: self, special_fields: SpecialFields::new() }
            }
        })+
    };
}

wrappers! {
    OptionalBool of bool,
    OptionalFileMode of u32,
    OptionalInt of i64,
    OptionalInt64 of i64,
    OptionalRepeatedString of Vec<String>,
    OptionalString of String,
    OptionalUInt32 of u32,
    OptionalUInt64 of u64,
}

impl<M: Translate<W>, W> Translate<Option<W>> for MessageField<M> {
    fn translate(self) -> Option<W> {
        self.into_option().map(M::translate)
    }
}

impl<W: Translate<M>, M> Translate<MessageField<M>> for Option<W> {
    fn translate(self) -> MessageField<M> {
        MessageField::from_option(self.map(W::translate))
    }
}

impl<A: Translate<B>, B> Translate<Vec<B>> for Vec<A> {
    fn translate(self) -> Vec<B> {
        self.into_iter().map(A::translate).collect()
    }
}

impl<M: Translate<W>, W> Translate<BTreeMap<String, W>> for HashMap<String, M> {
    fn translate(self) -> BTreeMap<String, W> {
        self.into_iter().map(|(key, value)| (key, value.translate())).collect()
    }
}

impl<W: Translate<M>, M> Translate<HashMap<String, M>> for BTreeMap<String, W> {
    fn translate(self) -> HashMap<String, M> {
        self.into_iter().map(|(key, value)| (key, value.translate())).collect()
    }
}

impl Translate<Unknown> for SpecialFields {
    fn translate(mut self) -> Unknown {
        Unknown::new(std::mem::take(self.mut_unknown_fields()))
    }
}

impl Translate<SpecialFields> for Unknown {
    fn translate(self) -> SpecialFields {
        let mut special_fields = SpecialFields::new();
        *special_fields.mut_unknown_fields() = self.into_fields();
        special_fields
    }
}

impl<E: Enum> NoteUnknown for EnumOrUnknown<E> {}

impl<M: NoteUnknown> NoteUnknown for MessageField<M> {
    fn note(&self, unknown: &mut Unknown) {
        self.iter().for_each(|message| message.note(unknown));
    }
}

impl<M: NoteUnknown> NoteUnknown for Vec<M> {
    fn note(&self, unknown: &mut Unknown) {
        self.iter().for_each(|value| value.note(unknown));
    }
}

impl<K, M: NoteUnknown> NoteUnknown for HashMap<K, M> {
    fn note(&self, unknown: &mut Unknown) {
        self.values().for_each(|value| value.note(unknown));
    }
}

impl<T: TakeUnknown> TakeUnknown for Option<T> {
    fn take_unknown_into(&mut self, found: &mut Vec<Unread>) {
        self.iter_mut().for_each(|value| value.take_unknown_into(found));
    }
}

impl<T: TakeUnknown> TakeUnknown for Vec<T> {
    fn take_unknown_into(&mut self, found: &mut Vec<Unread>) {
        self.iter_mut().for_each(|value| value.take_unknown_into(found));
    }
}

impl<K, T: TakeUnknown> TakeUnknown for BTreeMap<K, T> {
    fn take_unknown_into(&mut self, found: &mut Vec<Unread>) {
        self.values_mut().for_each(|value| value.take_unknown_into(found));
    }
}

impl<T: TakeUnknown> TakeUnknown for ChangeList<T> {
    fn take_unknown_into(&mut self, found: &mut Vec<Unread>) {
        self.values_mut().for_each(|value| value.take_unknown_into(found));
    }
}

impl<T: TakeUnknown> TakeUnknown for ChangeMap<T> {
    fn take_unknown_into(&mut self, found: &mut Vec<Unread>) {
        self.values_mut().for_each(|value| value.take_unknown_into(found));
    }
}

impl TakeUnknown for Args {
    fn take_unknown_into(&mut self, _found: &mut Vec<Unread>) {}
}

impl TakeUnknown for Owner {
    fn take_unknown_into(&mut self, _found: &mut Vec<Unread>) {}
}
