//! How changes are packed: each before those that were made earlier, so that the last one stands first.
//!
//! A change is its length, then the number of the field, what [`Value`]s were there before and after, the key, and those
//! that were there. Keys and values have their lengths in front of them. Numbers are as on the wire, and so are words.

use nri_proto::decode::Reader;
use nri_proto::encode::{Encode, Writer};
use nri_proto::{
    Device, DeviceRule, Field, Hooks, IoPriority, MemoryPolicy, Mount, Namespace, NetDevice, Rlimit, Scheduler,
    Seccomp, api,
};
use protobuf::Message;

use super::{Changed, Value};

/// What a change can be about.
pub(super) trait Pack {
    /// Writes what it holds, and returns which [`Value`] it is.
    fn pack(&self, out: &mut Writer) -> u8;
}

/// Packs one more.
pub(super) fn pack<T: Pack + ?Sized>(field: Field, key: &str, before: Option<&T>, after: Option<&T>, out: &mut Writer) {
    let end = out.length();
    let after = pack_value(after, out);
    let before = pack_value(before, out);
    out.sized(key.as_bytes());
    out.raw(&[before, after]);
    out.varint(i64::from(field.number()).cast_unsigned());
    out.varint((out.length() - end) as u64);
}

fn pack_value<T: Pack + ?Sized>(value: Option<&T>, out: &mut Writer) -> u8 {
    let Some(value) = value else { return kind::NOTHING };
    let end = out.length();
    let kind = value.pack(out);
    out.varint((out.length() - end) as u64);
    kind
}

/// Returns the changes in order.
pub(crate) fn unpack(bytes: &[u8]) -> impl Iterator<Item = Changed> {
    records(bytes).into_iter().rev().map(|(record, _)| read_change(record))
}

/// Cuts packed changes into parts of at most so many bytes, in order, each with how many there are. One that takes more
/// is a part of its own.
pub(crate) fn cut(bytes: &[u8], room: usize) -> Vec<(usize, &[u8])> {
    let (mut parts, mut end) = (Vec::new(), bytes.len());
    let (mut count, mut start) = (0, end);
    for (_, length) in records(bytes).into_iter().rev() {
        let begins = start - length;
        if count > 0 && end - begins > room {
            parts.push((count, &bytes[start..end]));
            (count, end) = (0, start);
        }
        (count, start) = (count + 1, begins);
    }
    if count > 0 {
        parts.push((count, &bytes[start..end]));
    }
    parts
}

/// Each change, and how many bytes it takes; the last one first.
fn records(bytes: &[u8]) -> Vec<(Reader<'_>, usize)> {
    let mut input = Reader::new(bytes);
    let next = || {
        let before = input.length();
        let record = input.message()?;
        Some((record, before - input.length()))
    };
    std::iter::from_fn(next).collect()
}

/// What is read was written by ourselves; what cannot be is empty.
fn read_change(mut input: Reader<'_>) -> Changed {
    let field = input.varint().and_then(|number| i32::try_from(number.cast_signed()).ok()).map(Field::of_number);
    let (before, after) = (input.varint().unwrap_or_default(), input.varint().unwrap_or_default());
    Changed {
        container: None,
        field: field.unwrap_or_default(),
        key: input.text().unwrap_or_default(),
        before: read_value(before, &mut input),
        after: read_value(after, &mut input),
    }
}

/// The kinds that are no words of their own.
mod kind {
    pub(super) const NOTHING: u8 = 0;
    pub(super) const TEXT: u8 = 1;
    pub(super) const TEXTS: u8 = 2;
    pub(super) const SIGNED: u8 = 3;
    pub(super) const UNSIGNED: u8 = 4;
    pub(super) const FLAG: u8 = 5;
    pub(super) const DEVICE_RULES: u8 = 6;
}

impl Pack for str {
    fn pack(&self, out: &mut Writer) -> u8 {
        out.raw(self.as_bytes());
        kind::TEXT
    }
}

impl Pack for String {
    fn pack(&self, out: &mut Writer) -> u8 {
        self.as_str().pack(out)
    }
}

impl Pack for [String] {
    fn pack(&self, out: &mut Writer) -> u8 {
        self.iter().rev().for_each(|text| out.sized(text.as_bytes()));
        kind::TEXTS
    }
}

impl Pack for i64 {
    fn pack(&self, out: &mut Writer) -> u8 {
        out.raw(&self.to_le_bytes());
        kind::SIGNED
    }
}

impl Pack for u64 {
    fn pack(&self, out: &mut Writer) -> u8 {
        out.raw(&self.to_le_bytes());
        kind::UNSIGNED
    }
}

impl Pack for bool {
    fn pack(&self, out: &mut Writer) -> u8 {
        out.raw(&[u8::from(*self)]);
        kind::FLAG
    }
}

impl Pack for [DeviceRule] {
    fn pack(&self, out: &mut Writer) -> u8 {
        for rule in self.iter().rev() {
            let end = out.length();
            rule.encode(out);
            out.varint((out.length() - end) as u64);
        }
        kind::DEVICE_RULES
    }
}

/// The kinds that are words, which are written as their messages are.
macro_rules! words {
    ($($kind:literal $word:ident as $message:ident),+ $(,)?) => {
        $(impl Pack for $word {
            fn pack(&self, out: &mut Writer) -> u8 {
                self.encode(out);
                $kind
            }
        })+

        impl Pack for Value {
            fn pack(&self, out: &mut Writer) -> u8 {
                match self {
                    Self::Text(text) => text.pack(out),
                    Self::Texts(texts) => texts.as_slice().pack(out),
                    Self::Signed(number) => number.pack(out),
                    Self::Unsigned(number) => number.pack(out),
                    Self::Flag(flag) => flag.pack(out),
                    Self::DeviceRules(rules) => rules.as_slice().pack(out),
                    $(Self::$word(word) => word.pack(out),)+
                }
            }
        }

        fn read_word(kind: u8, bytes: &[u8]) -> Option<Value> {
            Some(match kind {
                $($kind => $word::from(api::$message::parse_from_bytes(bytes).ok()?).into(),)+
                _ => return None,
            })
        }
    };
}

words! {
    7 Mount as Mount,
    8 Device as LinuxDevice,
    9 NetDevice as LinuxNetDevice,
    10 Namespace as LinuxNamespace,
    11 Hooks as Hooks,
    12 IoPriority as LinuxIOPriority,
    13 Seccomp as LinuxSeccomp,
    14 Scheduler as LinuxScheduler,
    15 MemoryPolicy as LinuxMemoryPolicy,
    16 Rlimit as POSIXRlimit,
}

fn read_value(kind: u64, input: &mut Reader<'_>) -> Option<Value> {
    let kind = u8::try_from(kind).ok().filter(|&kind| kind != kind::NOTHING)?;
    let bytes = input.sized()?;
    let mut parts = Reader::new(bytes);
    Some(match kind {
        kind::TEXTS => Value::Texts(std::iter::from_fn(|| parts.sized()).map(text).collect()),
        kind::DEVICE_RULES => {
            let parts = std::iter::from_fn(|| parts.sized());
            let rules = parts.filter_map(|part| api::LinuxDeviceCgroup::parse_from_bytes(part).ok());
            Value::DeviceRules(rules.map(DeviceRule::from).collect())
        }
        kind::TEXT => Value::Text(text(bytes)),
        kind::SIGNED => Value::Signed(i64::from_le_bytes(bytes.try_into().ok()?)),
        kind::UNSIGNED => Value::Unsigned(u64::from_le_bytes(bytes.try_into().ok()?)),
        kind::FLAG => Value::Flag(bytes == [1]),
        kind => read_word(kind, bytes)?,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
