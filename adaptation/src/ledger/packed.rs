//! Changes that are kept as bytes, until someone reads them.

use std::sync::Arc;

use nri_proto::decode::Reader;
use nri_proto::encode::{Encode, Writer};
use nri_proto::{DeviceRule, Field, api};
use protobuf::Message;

use super::{Change, Entry, Occasion, What};
use crate::merge::{Changed, Value};

/// What most changes have room in.
const ROOM: usize = 128;

/// What one reply changed in one container, or a part of that.
#[derive(Debug)]
pub(super) struct Packed {
    /// The number of the first one.
    pub(super) first: u64,
    pub(super) n_changes: usize,
    pub(super) occasion: Arc<Occasion>,
    pub(super) bytes: Box<[u8]>,
}

impl Packed {
    pub(super) fn new(first: u64, occasion: Arc<Occasion>, changes: &[Changed]) -> Self {
        let mut out = Writer::with_capacity(ROOM * changes.len());
        // They are written from the last to the first.
        changes.iter().rev().for_each(|change| out.word(1, change));
        Self { first, n_changes: changes.len(), occasion, bytes: out.written().into() }
    }

    pub(super) fn occasion(&self) -> &Occasion {
        &self.occasion
    }

    pub(super) fn n_changes(&self) -> u64 {
        self.n_changes as u64
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        let mut input = Reader::new(&self.bytes);
        let changes = std::iter::from_fn(move || {
            input.next_field()?;
            Some(read_change(input.message()?))
        });
        (self.first..).zip(changes).map(|(sequence, change)| {
            let (occasion, what) = (Arc::clone(&self.occasion), What::Changed(change));
            let mut entry = Entry { sequence, occasion, what, is_cut: false };
            entry.strip();
            entry
        })
    }
}

impl From<&Changed> for Change {
    fn from(changed: &Changed) -> Self {
        let Changed { container: _, field, key, before, after } = changed.clone();
        Self { field, key, before, after }
    }
}

/// The fields of a change.
mod number {
    pub(super) const FIELD: u32 = 1;
    pub(super) const KEY: u32 = 2;
    pub(super) const BEFORE: u32 = 3;
    pub(super) const AFTER: u32 = 4;
}

impl Encode for Changed {
    fn encode(&self, out: &mut Writer) {
        let Self { container: _, field, key, before, after } = self;
        after.iter().for_each(|after| out.word(number::AFTER, after));
        before.iter().for_each(|before| out.word(number::BEFORE, before));
        out.encoded(number::KEY, key.as_bytes());
        out.number(number::FIELD, i64::from(field.number()).cast_unsigned());
    }
}

/// What is read was written by ourselves; what cannot be is empty.
fn read_change(mut input: Reader<'_>) -> Change {
    let mut change = Change { field: Field::None, key: String::new(), before: None, after: None };
    while let Some((number, _)) = input.next_field() {
        match number.into() {
            number::FIELD => change.field = input.varint().and_then(field).unwrap_or_default(),
            number::KEY => change.key = input.text().unwrap_or_default(),
            number::BEFORE => change.before = input.message().and_then(read_value),
            number::AFTER => change.after = input.message().and_then(read_value),
            _ => break,
        }
    }
    change
}

fn field(number: u64) -> Option<Field> {
    i32::try_from(number.cast_signed()).ok().map(Field::of_number)
}

/// The fields of a value: which one it is, and all that it holds.
const KIND: u32 = 1;
const PART: u32 = 2;

/// The kinds that are no words of their own.
mod kind {
    pub(super) const TEXT: u64 = 1;
    pub(super) const TEXTS: u64 = 2;
    pub(super) const SIGNED: u64 = 3;
    pub(super) const UNSIGNED: u64 = 4;
    pub(super) const FLAG: u64 = 5;
    pub(super) const DEVICE_RULES: u64 = 6;
}

/// The kinds that are words, which are written as their messages are.
macro_rules! words {
    ($($kind:literal $word:ident as $message:ident),+ $(,)?) => {
        impl Encode for Value {
            fn encode(&self, out: &mut Writer) {
                let kind = match self {
                    Self::Text(text) => write(text.as_bytes(), kind::TEXT, out),
                    Self::Texts(texts) => {
                        texts.iter().rev().for_each(|text| out.encoded(PART, text.as_bytes()));
                        kind::TEXTS
                    }
                    Self::Signed(number) => write(&number.to_le_bytes(), kind::SIGNED, out),
                    Self::Unsigned(number) => write(&number.to_le_bytes(), kind::UNSIGNED, out),
                    Self::Flag(flag) => write(&[u8::from(*flag)], kind::FLAG, out),
                    Self::DeviceRules(rules) => {
                        rules.iter().rev().for_each(|rule| out.word(PART, rule));
                        kind::DEVICE_RULES
                    }
                    $(Self::$word(word) => {
                        out.word(PART, word);
                        $kind
                    })+
                };
                out.number(KIND, kind);
            }
        }

        fn read_word(kind: u64, part: &[u8]) -> Option<Value> {
            Some(match kind {
                $($kind => nri_proto::$word::from(api::$message::parse_from_bytes(part).ok()?).into(),)+
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

fn write(part: &[u8], kind: u64, out: &mut Writer) -> u64 {
    out.encoded(PART, part);
    kind
}

fn read_value(mut input: Reader<'_>) -> Option<Value> {
    input.next_field()?;
    let kind = input.varint()?;
    let parts = std::iter::from_fn(|| input.next_field().and_then(|_| input.sized()));
    let mut parts = parts.collect::<Vec<_>>().into_iter();
    Some(match kind {
        kind::TEXTS => Value::Texts(parts.map(text).collect()),
        kind::DEVICE_RULES => {
            let rules = parts.filter_map(|part| api::LinuxDeviceCgroup::parse_from_bytes(part).ok());
            Value::DeviceRules(rules.map(DeviceRule::from).collect())
        }
        kind::TEXT => Value::Text(text(parts.next()?)),
        kind::SIGNED => Value::Signed(i64::from_le_bytes(parts.next()?.try_into().ok()?)),
        kind::UNSIGNED => Value::Unsigned(u64::from_le_bytes(parts.next()?.try_into().ok()?)),
        kind::FLAG => Value::Flag(parts.next()? == [1]),
        kind => read_word(kind, parts.next()?)?,
    })
}

fn text(part: &[u8]) -> String {
    String::from_utf8_lossy(part).into_owned()
}
