//! Which fields of a message hold messages or many numbers: as much of its descriptor as is needed to walk over its bytes.

use protobuf::Message;

/// What a field holds, if not one value or several texts. Messages are said by their place in the table.
#[derive(Clone, Copy, Debug)]
enum FieldKind {
    Message(usize),
    Messages(usize),
    /// Entries, each a message with a key and a value, which may be a message.
    Map(Option<usize>),
    /// Any number of them, which take a byte each at least.
    Numbers,
}

/// Each message by name, with those of its fields that are not plain.
static SHAPES: &[(&str, &[(u32, FieldKind)])] = include!(concat!(env!("OUT_DIR"), "/shapes.rs"));

/// A kind of message.
#[derive(Clone, Copy, Debug)]
pub struct Shape(&'static [(u32, FieldKind)]);

/// What a field that is not plain has in it.
#[derive(Clone, Copy, Debug)]
pub enum FieldShape {
    /// A message of this kind.
    Message(Shape),
    /// Several messages of this kind.
    Messages(Shape),
    /// A map; if its values are messages, then of this kind.
    Map(Option<Shape>),
    /// Any number of numbers, which may be packed.
    Numbers,
}

impl Shape {
    /// The shape of a message of this protocol. One of another has nothing in it that we know.
    ///
    /// It is looked for by its name, which takes no time in a constant.
    #[must_use]
    pub const fn of<M: Message>() -> Self {
        let mut index = 0;
        while index < SHAPES.len() {
            if is_equal(SHAPES[index].0.as_bytes(), M::NAME.as_bytes()) {
                return Self::at(index);
            }
            index += 1;
        }
        Self(&[])
    }

    /// What is in the field of this number. None if it is plain, or nobody knows it.
    #[must_use]
    pub fn field(self, field: u32) -> Option<FieldShape> {
        let (_, holds) = self.0.iter().find(|(number, _)| *number == field)?;
        Some(match *holds {
            FieldKind::Message(index) => FieldShape::Message(Self::at(index)),
            FieldKind::Messages(index) => FieldShape::Messages(Self::at(index)),
            FieldKind::Map(value) => FieldShape::Map(value.map(Self::at)),
            FieldKind::Numbers => FieldShape::Numbers,
        })
    }

    const fn at(index: usize) -> Self {
        Self(SHAPES[index].1)
    }
}

/// Whether two texts are the same, as constants can ask.
const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

#[cfg(test)]
mod tests {
    use protobuf::reflect::{MessageDescriptor, RuntimeFieldType, RuntimeType};

    use super::{FieldShape, SHAPES, Shape};
    use crate::schema::descriptor;

    #[test]
    fn the_table_says_what_the_descriptors_say() {
        let messages: Vec<_> = descriptor::file().messages().collect();
        assert_eq!(messages.len(), SHAPES.len());
        for (message, (name, fields)) in messages.iter().zip(SHAPES) {
            assert_eq!(message.name(), *name);
            for field in message.fields() {
                let shape = Shape(fields).field(u32::try_from(field.number()).unwrap());
                let is_numbers = matches!(shape, Some(FieldShape::Numbers));
                let is_several = matches!(shape, Some(FieldShape::Messages(_)));
                let (of_message, of_map) = match shape {
                    None | Some(FieldShape::Numbers) => (None, None),
                    Some(FieldShape::Message(shape) | FieldShape::Messages(shape)) => (Some(shape), None),
                    Some(FieldShape::Map(value)) => (None, Some(value)),
                };
                let is_repeated =
                    matches!(field.runtime_field_type(), RuntimeFieldType::Repeated(RuntimeType::Message(_)));
                assert_eq!(is_several, is_repeated, "{field}");
                assert_eq!(is_numbers, holds_numbers(&field.runtime_field_type()), "{field}");
                match field.runtime_field_type() {
                    RuntimeFieldType::Singular(kind) | RuntimeFieldType::Repeated(kind) => {
                        assert!(of_map.is_none(), "{field}");
                        check(of_message, &kind);
                    }
                    RuntimeFieldType::Map(_, kind) => check(of_map.expect("it is a map"), &kind),
                }
            }
        }
    }

    fn holds_numbers(kind: &RuntimeFieldType) -> bool {
        let RuntimeFieldType::Repeated(kind) = kind else { return false };
        !matches!(kind, RuntimeType::Message(_) | RuntimeType::String | RuntimeType::VecU8)
    }

    fn check(shape: Option<Shape>, kind: &RuntimeType) {
        let message: Option<&MessageDescriptor> = if let RuntimeType::Message(kind) = kind { Some(kind) } else { None };
        assert_eq!(shape.map(|shape| shape.0.as_ptr()), message.map(|kind| of(kind.name()).as_ptr()));
    }

    fn of(name: &str) -> &'static [(u32, super::FieldKind)] {
        SHAPES.iter().find(|(other, _)| *other == name).expect("it has a row").1
    }
}
