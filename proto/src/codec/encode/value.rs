//! Encoding of the types of fields.

use std::collections::BTreeMap;

use super::{Encode, EncodeField, Writer};

/// Implements encoding of numbers, and of optional numbers, which are wrapper messages on the wire.
/// An empty wrapper stands for zero, and a missing one for `None`.
macro_rules! numbers {
    ($($kind:ty),+) => {
        $(impl EncodeField for $kind {
            fn write(&self, field: u32, out: &mut Writer) {
                out.number(field, (*self).bits());
            }
        }

        impl EncodeField for Option<$kind> {
            fn write(&self, field: u32, out: &mut Writer) {
                if let Some(value) = self {
                    out.wrapped_number(field, (*value).bits());
                }
            }
        })+
    };
}

numbers!(bool, i32, i64, u32, u64);

/// A number as a varint. Negative numbers are extended to 64 bits.
trait VarintBits {
    fn bits(self) -> u64;
}

impl VarintBits for bool {
    fn bits(self) -> u64 {
        self.into()
    }
}

impl VarintBits for i32 {
    fn bits(self) -> u64 {
        i64::from(self).bits()
    }
}

impl VarintBits for i64 {
    fn bits(self) -> u64 {
        self.cast_unsigned()
    }
}

impl VarintBits for u32 {
    fn bits(self) -> u64 {
        self.into()
    }
}

impl VarintBits for u64 {
    fn bits(self) -> u64 {
        self
    }
}

/// A list of numbers is packed.
impl EncodeField for Vec<u32> {
    fn write(&self, field: u32, out: &mut Writer) {
        if !self.is_empty() {
            out.message(field, |out| self.iter().rev().for_each(|&number| out.varint(number.into())));
        }
    }
}

impl EncodeField for String {
    fn write(&self, field: u32, out: &mut Writer) {
        if !self.is_empty() {
            out.text(field, self);
        }
    }
}

impl EncodeField for Option<String> {
    fn write(&self, field: u32, out: &mut Writer) {
        if let Some(text) = self {
            out.message(field, |out| text.write(1, out));
        }
    }
}

impl EncodeField for Vec<String> {
    fn write(&self, field: u32, out: &mut Writer) {
        self.iter().rev().for_each(|text| out.text(field, text));
    }
}

impl EncodeField for Option<Vec<String>> {
    fn write(&self, field: u32, out: &mut Writer) {
        if let Some(texts) = self {
            out.message(field, |out| texts.write(1, out));
        }
    }
}

impl<W: Encode> EncodeField for Option<W> {
    fn write(&self, field: u32, out: &mut Writer) {
        if let Some(value) = self {
            out.model(field, value);
        }
    }
}

impl<W: Encode> EncodeField for Vec<W> {
    fn write(&self, field: u32, out: &mut Writer) {
        self.iter().rev().for_each(|value| out.model(field, value));
    }
}

/// A map is a list of entries, each a message with a key and a value.
impl EncodeField for BTreeMap<String, String> {
    fn write(&self, field: u32, out: &mut Writer) {
        for (key, value) in self.iter().rev() {
            out.message(field, |out| {
                out.text(2, value);
                out.text(1, key);
            });
        }
    }
}

impl<W: Encode> EncodeField for BTreeMap<String, W> {
    fn write(&self, field: u32, out: &mut Writer) {
        for (key, value) in self.iter().rev() {
            out.message(field, |out| {
                out.model(2, value);
                out.text(1, key);
            });
        }
    }
}
