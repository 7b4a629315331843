//! Fills messages according to their descriptors, so that no field is forgotten.

use std::sync::LazyLock;

use protobuf::reflect::{
    EnumDescriptor, FileDescriptor, MessageDescriptor, ReflectValueBox, RuntimeFieldType, RuntimeType,
};
use protobuf::{Message, MessageDyn, UnknownFields};

use crate::schema::descriptor;

/// Returns a message in which each field is set, to different values where possible.
pub(crate) fn full<M: Message>() -> M {
    make(&mut Full { last: 0, unknown: true })
}

/// Like [`full`], but without unknown fields.
pub(crate) fn full_of_known<M: Message>() -> M {
    make(&mut Full { last: 0, unknown: false })
}

/// Returns a message that is determined by `bytes`. Fewer and smaller bytes make a simpler message.
pub(crate) fn random<M: Message>(bytes: Vec<u8>) -> M {
    make(&mut Random(bytes.into_iter()))
}

/// Like [`random`], but with few different strings, which often begin with the marker of a removal.
pub(super) fn dashed<M: Message>(bytes: Vec<u8>) -> M {
    make(&mut Dashed(Random(bytes.into_iter())))
}

/// Chooses the content of a message.
trait Choices {
    /// Chooses whether an optional part is present.
    fn present(&mut self) -> bool;
    /// Chooses the number of entries.
    fn count(&mut self) -> usize;
    fn number(&mut self) -> u64;
    fn variant(&mut self, of: &EnumDescriptor) -> i32;

    /// Chooses whether there are unknown fields.
    fn unknown(&mut self) -> bool {
        self.present()
    }

    fn text(&mut self) -> String {
        match self.number() {
            0 => String::new(),
            number => format!("text {number}"),
        }
    }
}

/// Chooses everything, and numbers that differ.
struct Full {
    last: u64,
    unknown: bool,
}

impl Choices for Full {
    fn present(&mut self) -> bool {
        true
    }

    fn count(&mut self) -> usize {
        2
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn unknown(&mut self) -> bool {
        self.unknown
    }

    fn variant(&mut self, of: &EnumDescriptor) -> i32 {
        of.values().last().expect("every enum has a value").value()
    }
}

/// Chooses according to bytes. When they are used up, chooses nothing.
struct Random(std::vec::IntoIter<u8>);

impl Random {
    fn byte(&mut self) -> u8 {
        self.0.next().unwrap_or_default()
    }
}

impl Choices for Random {
    fn present(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    fn count(&mut self) -> usize {
        usize::from(self.byte() % 4)
    }

    fn number(&mut self) -> u64 {
        let byte = u64::from(self.byte());
        // Small numbers, and the extremes of 32 and 64 bits.
        match byte % 5 {
            0 | 1 => byte,
            2 => byte << 56,
            3 => byte << 24,
            _ => u64::MAX - byte,
        }
    }

    fn variant(&mut self, _of: &EnumDescriptor) -> i32 {
        i32::from(self.byte() % 16) - 2
    }
}

struct Dashed(Random);

impl Choices for Dashed {
    fn present(&mut self) -> bool {
        self.0.present()
    }

    fn count(&mut self) -> usize {
        self.0.count()
    }

    fn number(&mut self) -> u64 {
        self.0.number()
    }

    fn variant(&mut self, of: &EnumDescriptor) -> i32 {
        self.0.variant(of)
    }

    fn text(&mut self) -> String {
        ["", "a", "b", "-a", "-b", "-", "--a", "--"][usize::from(self.0.byte() % 8)].to_owned()
    }
}

fn message(descriptor: &MessageDescriptor, choices: &mut dyn Choices) -> Box<dyn MessageDyn> {
    let mut message = descriptor.new_instance();
    for field in descriptor.fields() {
        match field.runtime_field_type() {
            RuntimeFieldType::Singular(RuntimeType::Message(inner)) => {
                if choices.present() {
                    let value = ReflectValueBox::Message(self::message(&inner, choices));
                    field.set_singular_field(&mut *message, value);
                }
            }
            RuntimeFieldType::Singular(kind) => field.set_singular_field(&mut *message, value(&kind, choices)),
            RuntimeFieldType::Repeated(kind) => {
                for _ in 0..choices.count() {
                    field.mut_repeated(&mut *message).push(value(&kind, choices));
                }
            }
            RuntimeFieldType::Map(key_kind, kind) => {
                for _ in 0..choices.count() {
                    let (key, value) = (value(&key_kind, choices), value(&kind, choices));
                    field.mut_map(&mut *message).insert(key, value);
                }
            }
        }
    }
    // A wrapper is a value, see `model`.
    if !descriptor.name().starts_with("Optional") && choices.unknown() {
        add_unknown(message.mut_special_fields_dyn().mut_unknown_fields());
    }
    message
}

fn value(kind: &RuntimeType, choices: &mut dyn Choices) -> ReflectValueBox {
    match kind {
        RuntimeType::I32 => ReflectValueBox::I32(choices.number() as i32),
        RuntimeType::I64 => ReflectValueBox::I64(choices.number() as i64),
        RuntimeType::U32 => ReflectValueBox::U32(choices.number() as u32),
        RuntimeType::U64 => ReflectValueBox::U64(choices.number()),
        RuntimeType::Bool => ReflectValueBox::Bool(choices.present()),
        RuntimeType::String => ReflectValueBox::String(choices.text()),
        RuntimeType::Enum(of) => ReflectValueBox::Enum(of.clone(), choices.variant(of)),
        RuntimeType::Message(inner) => ReflectValueBox::Message(message(inner, choices)),
        RuntimeType::F32 | RuntimeType::F64 | RuntimeType::VecU8 => panic!("no message has {kind}"),
    }
}

/// Adds fields with numbers that no message uses, one of each wire type.
fn add_unknown(fields: &mut UnknownFields) {
    fields.add_varint(1001, 1);
    fields.add_fixed32(1002, 2);
    fields.add_fixed64(1003, 3);
    fields.add_length_delimited(1004, b"4".to_vec());
}

/// Builds a dynamic message, and decodes the generated message from its bytes.
fn make<M: Message>(choices: &mut dyn Choices) -> M {
    let bytes = message(&kind::<M>(), choices).write_to_bytes_dyn().expect("encoding to memory does not fail");
    M::parse_from_bytes(&bytes).expect("it has just been encoded")
}

fn kind<M: Message>() -> MessageDescriptor {
    static FILE: LazyLock<FileDescriptor> = LazyLock::new(descriptor::file);
    descriptor::kind::<M>(&FILE)
}

#[test]
fn a_full_message_has_every_field() {
    fn check(message: &dyn MessageDyn) {
        for field in message.descriptor_dyn().fields() {
            assert!(field.has_field(message), "{field} is not set");
            if let RuntimeFieldType::Singular(RuntimeType::Message(_)) = field.runtime_field_type() {
                check(&*field.get_message(message));
            }
        }
    }

    for kind in [kind::<crate::api::PodSandbox>(), kind::<crate::api::Container>()] {
        check(&*message(&kind, &mut Full { last: 0, unknown: true }));
    }
}
