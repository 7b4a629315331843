//! Decoding of the types of fields.

use std::collections::BTreeMap;

use super::reader::{Reader, SIZED, VARINT};
use super::{Decode, DecodeField};
use crate::model::{Args, ChangeList, ChangeMap, Keyed, marker};

/// Returns `None`, for an unusual encoding, unless the condition holds.
fn only_if(is_so: bool) -> Option<()> {
    is_so.then_some(())
}

/// Implements decoding of numbers, and of optional numbers, which are wrapper messages on the wire.
macro_rules! numbers {
    ($($kind:ty as $of:expr),+ $(,)?) => {
        $(impl DecodeField for $kind {
            fn read(&mut self, kind: u8, input: &mut Reader<'_>) -> Option<()> {
                only_if(kind == VARINT)?;
                *self = $of(input.varint()?)?;
                Some(())
            }
        }

        wrapper!($kind);)+
    };
}

/// Implements decoding of an optional value, which is a message with the value as field 1.
macro_rules! wrapper {
    ($kind:ty) => {
        impl DecodeField for Option<$kind> {
            fn read(&mut self, kind: u8, input: &mut Reader<'_>) -> Option<()> {
                only_if(kind == SIZED && self.is_none())?;
                let (mut wrapper, mut value) = (input.message()?, <$kind>::default());
                while let Some((number, kind)) = wrapper.next_field() {
                    only_if(number == 1)?;
                    value.read(kind, &mut wrapper)?;
                }
                *self = Some(value);
                Some(())
            }
        }
    };
}

numbers! {
    bool as |bits| match bits { 0 => Some(false), 1 => Some(true), _ => None },
    i64 as |bits: u64| Some(bits.cast_signed()),
    u32 as |bits| u32::try_from(bits).ok(),
    u64 as Some,
}

wrapper!(String);

impl DecodeField for String {
    fn read(&mut self, kind: u8, input: &mut Reader<'_>) -> Option<()> {
        only_if(kind == SIZED)?;
        *self = input.text()?;
        Some(())
    }
}

impl DecodeField for Vec<String> {
    fn read(&mut self, kind: u8, input: &mut Reader<'_>) -> Option<()> {
        only_if(kind == SIZED)?;
        self.push(input.text()?);
        Some(())
    }
}

/// A repeated message would have to be merged with the first one, so it is unusual.
impl<W: Decode> DecodeField for Option<W> {
    fn read(&mut self, kind: u8, input: &mut Reader<'_>) -> Option<()> {
        only_if(kind == SIZED && self.is_none())?;
        self.insert(W::default()).decode(input.message()?)
    }
}

impl<W: Decode> DecodeField for Vec<W> {
    fn read(&mut self, kind: u8, input: &mut Reader<'_>) -> Option<()> {
        only_if(kind == SIZED)?;
        self.push(read(input.message()?)?);
        Some(())
    }
}

/// A map is a list of entries, each a message with a key and a value. The last entry of a key wins.
impl DecodeField for BTreeMap<String, String> {
    fn read(&mut self, kind: u8, input: &mut Reader<'_>) -> Option<()> {
        only_if(kind == SIZED)?;
        let (key, value) = entry(input.message()?)?;
        self.insert(key, value);
        Some(())
    }
}

/// A key with a leading dash changes another entry, so it is unusual.
impl DecodeField for ChangeMap<String> {
    fn read(&mut self, kind: u8, input: &mut Reader<'_>) -> Option<()> {
        only_if(kind == SIZED)?;
        let (key, value) = entry(input.message()?)?;
        only_if(marker::check(&key).is_ok())?;
        self.insert_checked(key, value);
        Some(())
    }
}

/// A key with a leading dash changes another entry, so it is unusual.
impl<W: Decode + Keyed> DecodeField for ChangeList<W> {
    fn read(&mut self, kind: u8, input: &mut Reader<'_>) -> Option<()> {
        only_if(kind == SIZED)?;
        let item: W = read(input.message()?)?;
        only_if(marker::check(item.key()).is_ok())?;
        self.push_checked(item);
        Some(())
    }
}

/// An empty first argument changes the meaning of the others, so it is unusual.
impl DecodeField for Args {
    fn read(&mut self, kind: u8, input: &mut Reader<'_>) -> Option<()> {
        only_if(kind == SIZED)?;
        let argument = input.text()?;
        only_if(self.change().is_some() || !argument.is_empty())?;
        self.push_checked(argument);
        Some(())
    }
}

fn read<W: Decode>(input: Reader<'_>) -> Option<W> {
    let mut value = W::default();
    value.decode(input)?;
    Some(value)
}

fn entry(mut input: Reader<'_>) -> Option<(String, String)> {
    let (mut key, mut value) = (String::new(), String::new());
    while let Some((number, kind)) = input.next_field() {
        match number {
            1 => key.read(kind, &mut input)?,
            2 => value.read(kind, &mut input)?,
            _ => return None,
        }
    }
    Some((key, value))
}
