//! The packed form of changes. The writer fills its buffer from the end, so the last change stands
//! first.
//!
//! A change is its length, then the number of the field, the kinds of the [`Value`]s before and
//! after, the key, and the values that are present. Keys and values are prefixed by their lengths.
//! Lengths, field numbers and kinds are varints. Messages are encoded as in protobuf.

use nri_proto::decode::{Reader, SIZED};
use nri_proto::encode::{Encode, Writer};
use nri_proto::shape::{FieldShape, Shape};
use nri_proto::{
    Device, DeviceRule, Field, Hook, Hooks, IoPriority, MemoryPolicy, Mount, Namespace, NetDevice, Rlimit, Scheduler,
    Seccomp, Syscall, SyscallArg, api,
};
use protobuf::Message;
use smallvec::SmallVec;

use super::Changed;
use super::Value;

/// A type that can be the value of a change.
pub(super) trait Pack {
    /// Writes the value, and returns its [`Value`] kind.
    fn pack(&self, out: &mut Writer) -> u8;
}

/// Packs one more change.
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

/// Unpacks the changes, in the order in which they were made.
pub(crate) fn unpack(bytes: &[u8]) -> impl Iterator<Item = Changed> {
    records_in_order(bytes).map(|(record, _)| read_change(Reader::new(record)))
}

/// A consecutive part of several packed changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut<'a> {
    pub(crate) n_changes: usize,
    pub(crate) bytes: &'a [u8],
    pub(crate) weight: usize,
}

/// Cuts packed changes into parts of at most `room` weight, in order. A change that weighs more is
/// a part of its own.
///
/// A change is weighed by its length in bytes and by its [growth].
pub(crate) fn cut(bytes: &[u8], room: usize, weigh: impl Fn(usize, usize) -> usize) -> SmallVec<[Cut<'_>; 1]> {
    // Usually all changes fit into one part.
    let mut whole = Cut { n_changes: 0, bytes, weight: 0 };
    for (record, length) in records(bytes) {
        whole.n_changes += 1;
        whole.weight += weigh(length, growth(record));
    }
    if whole.weight <= room {
        return std::iter::once(whole).filter(|whole| whole.n_changes > 0).collect();
    }
    let (mut cuts, mut end) = (SmallVec::new(), bytes.len());
    let (mut n_changes, mut start, mut weight) = (0, end, 0);
    for (record, length) in records_in_order(bytes) {
        let more = weigh(length, growth(record));
        if n_changes > 0 && weight + more > room {
            cuts.push(Cut { n_changes, bytes: &bytes[start..end], weight });
            (n_changes, end, weight) = (0, start, 0);
        }
        (n_changes, start, weight) = (n_changes + 1, start - length, weight + more);
    }
    if n_changes > 0 {
        cuts.push(Cut { n_changes, bytes: &bytes[start..end], weight });
    }
    cuts
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

/// Returns the same pairs as [`records`], in the order in which the changes were made.
fn records_in_order(bytes: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    records(bytes).collect::<Vec<_>>().into_iter().rev()
}

/// The approximate overhead of one allocation, in bytes.
const OVERHEAD: usize = 16;
/// The largest size of a string beyond its bytes, for a list with this one string.
const TEXT: usize = size_of::<String>() + 2 * OVERHEAD;
/// The largest size of a message in a list. Hooks are the largest.
const WORD: usize = size_of::<Hook>() + OVERHEAD;
/// The largest size of a message that is a value. Seccomp policies are the largest.
const VALUE: usize = size_of::<Seccomp>() + OVERHEAD;

const _: () = {
    let hook = size_of::<Hook>();
    assert!(size_of::<DeviceRule>() <= hook && size_of::<Syscall>() <= hook && size_of::<SyscallArg>() <= hook);
    let seccomp = size_of::<Seccomp>();
    assert!(size_of::<Hooks>() <= seccomp && size_of::<Mount>() <= seccomp && size_of::<Device>() <= seccomp);
    assert!(size_of::<Scheduler>() <= seccomp && size_of::<MemoryPolicy>() <= seccomp);
    assert!(size_of::<Namespace>() <= seccomp && size_of::<Rlimit>() <= seccomp);
};

/// Returns an upper bound of the heap memory that the values of a packed change take when they are
/// unpacked, beyond their packed length. An empty string takes at least one packed byte, an empty
/// hook two.
fn growth(record: &[u8]) -> usize {
    let mut input = Reader::new(record);
    let mut header = || Some((input.varint()?, input.varint()?, input.varint()?, input.sized()?));
    let Some((_, before, after, _)) = header() else { return 0 };
    [before, after].into_iter().map(|kind| growth_of_value(kind, &mut input)).sum()
}

fn growth_of_value(kind: u64, input: &mut Reader<'_>) -> usize {
    let kind = u8::try_from(kind).unwrap_or(kind::NOTHING);
    if kind == kind::NOTHING {
        return 0;
    }
    let mut parts = Reader::new(input.sized().unwrap_or_default());
    match kind {
        kind::TEXTS => TEXT * std::iter::from_fn(|| parts.sized()).count(),
        kind::DEVICE_RULES => (WORD + 2 * TEXT) * std::iter::from_fn(|| parts.sized()).count(),
        kind::TEXT | kind::SIGNED | kind::UNSIGNED | kind::FLAG => 0,
        word => VALUE + shape_of(word).map_or(0, |shape| growth_of_fields(shape, parts)),
    }
}

/// Returns the growth of the fields in an encoded message. Each field is counted as often as it
/// occurs, as an entry of a list.
fn growth_of_fields(shape: Shape, mut word: Reader<'_>) -> usize {
    let mut growth = 0;
    while let Some((number, kind)) = word.next_field() {
        growth += match shape.field(number.into()) {
            _ if kind != SIZED => word.varint().map_or(0, |_| TEXT),
            Some(FieldShape::Message(shape) | FieldShape::Messages(shape)) => {
                WORD + word.message().map_or(0, |inner| growth_of_fields(shape, inner))
            }
            Some(FieldShape::Map(_) | FieldShape::Numbers) | None => word.sized().map_or(0, |_| TEXT),
        };
    }
    growth
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

        /// Returns the shape of the messages of a kind.
        fn shape_of(kind: u8) -> Option<Shape> {
            Some(match kind {
                $($kind => const { Shape::of::<api::$message>() },)+
                _ => return None,
            })
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
