//! The packed form of changes. The writer fills its buffer from the end, so the last change stands
//! first.
//!
//! A change is its length, then the number of the field, the kinds of the [`Value`]s before and
//! after, the key, and the values that are present. Keys and values are prefixed by their lengths.
//! Lengths, field numbers and kinds are varints. Messages are encoded as in protobuf.

use nri_proto::decode::Reader;
use nri_proto::encode::{Encode, Writer};
use nri_proto::{
    Device, DeviceRule, Field, Hooks, IoPriority, MemoryPolicy, Mount, Namespace, NetDevice, Rlimit, Scheduler,
    Seccomp, api,
};
use protobuf::Message;

use super::Changed;
use super::Value;

/// A type that can be the value of a change.
pub(crate) trait Pack {
    /// Writes the value, and returns its [`Value`] kind.
    fn pack(&self, out: &mut Writer) -> u8;
}

/// Packs one more change.
pub(crate) fn pack<T: Pack + ?Sized>(field: Field, key: &str, before: Option<&T>, after: Option<&T>, out: &mut Writer) {
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

/// Unpacks the changes, in the order in which they were made.
pub(crate) fn unpack(bytes: &[u8]) -> impl Iterator<Item = Changed> {
    let records: Vec<_> = records(bytes).map(|(record, _)| record).collect();
    records.into_iter().rev().map(|record| read_change(Reader::new(record)))
}

/// Returns the number of changes.
pub(crate) fn count(bytes: &[u8]) -> usize {
    records(bytes).count()
}

/// Returns an upper bound of the number of strings and messages of less than 32 bytes in the values
/// that are lists or messages.
pub(crate) fn count_parts(bytes: &[u8]) -> usize {
    records(bytes).map(|(record, _)| parts_of_change(record)).sum()
}

/// The tag of `LinuxSyscall.args`.
const SYSCALL_ARGS: u8 = 4 << 3 | 2;

/// A part of less than 32 bytes is preceded by its length, which is a byte below 32. Text has
/// hardly any such bytes. The tag of the arguments of a system call counts, too: they are the only
/// messages in a message in a list, and take more memory than bytes also when they are longer. The
/// value itself counts as two.
fn parts_of_change(record: &[u8]) -> usize {
    let mut input = Reader::new(record);
    let mut header = || Some((input.varint()?, input.varint()?, input.varint()?, input.sized()?));
    let Some((_, before, after, _)) = header() else { return 0 };
    let kinds = [before, after].into_iter().filter_map(|kind| u8::try_from(kind).ok());
    let values = kinds.filter(|&kind| kind != kind::NOTHING).map(|kind| (kind, input.sized().unwrap_or_default()));
    let parts = values.map(|(kind, value)| match kind {
        kind::TEXT | kind::SIGNED | kind::UNSIGNED | kind::FLAG => 0,
        _ => 2 + value.iter().filter(|&&byte| byte < 32 || byte == SYSCALL_ARGS).count(),
    });
    parts.sum()
}

/// Cuts packed changes into an earlier and a later half.
pub(crate) fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    let n_later = count(bytes) / 2;
    let (later, earlier) = bytes.split_at(records(bytes).take(n_later).map(|(_, length)| length).sum());
    (earlier, later)
}

/// Returns each change, with the number of bytes that it takes including its length. The last
/// change comes first.
fn records(bytes: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    let mut input = Reader::new(bytes);
    std::iter::from_fn(move || {
        let before = input.length();
        let record = input.sized()?;
        Some((record, before - input.length()))
    })
}

/// Reads a packed change. The bytes were written by this module, so unreadable parts become empty.
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

/// The kinds of values that are not protobuf messages.
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

/// The kinds of values that are messages, packed in their protobuf encoding.
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
                // The lists of a clone have no spare capacity.
                $($kind => $word::from(api::$message::parse_from_bytes(bytes).ok()?).clone().into(),)+
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
        kind::TEXTS => Value::Texts(list(std::iter::from_fn(|| parts.sized()).map(text))),
        kind::DEVICE_RULES => {
            let parts = std::iter::from_fn(|| parts.sized());
            let rules = parts.filter_map(|part| api::LinuxDeviceCgroup::parse_from_bytes(part).ok());
            Value::DeviceRules(list(rules.map(DeviceRule::from)))
        }
        kind::TEXT => Value::Text(text(bytes)),
        kind::SIGNED => Value::Signed(i64::from_le_bytes(bytes.try_into().ok()?)),
        kind::UNSIGNED => Value::Unsigned(u64::from_le_bytes(bytes.try_into().ok()?)),
        kind::FLAG => Value::Flag(bytes == [1]),
        kind => read_word(kind, bytes)?,
    })
}

/// Collects a list without spare capacity.
fn list<T>(entries: impl Iterator<Item = T>) -> Vec<T> {
    let mut list: Vec<T> = entries.collect();
    list.shrink_to_fit();
    list
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
