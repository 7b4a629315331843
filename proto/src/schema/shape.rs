//! Which fields of a message contain messages, maps or lists of numbers.
//!
//! This is as much of a descriptor as is needed to walk over an encoded message.

use protobuf::Message;

/// The content of a field that is neither a single value nor a list of strings.
///
/// Messages are given by their index in [`SHAPES`].
#[derive(Clone, Copy, Debug)]
enum FieldKind {
    Message(usize),
    Messages(usize),
    /// A map. The index is that of the values, if they are messages.
    Map(Option<usize>),
    /// A list of numbers, each of which takes at least one byte.
    Numbers,
}

/// The messages of `nri.proto` by name, each with the fields that a [`FieldKind`] describes.
static SHAPES: &[(&str, &[(u32, FieldKind)])] = include!(concat!(env!("OUT_DIR"), "/shapes.rs"));

/// A message type, as far as its fields contain messages, maps or lists of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Shape(&'static [(u32, FieldKind)]);

/// The content of a field that is neither a single value nor a list of strings.
#[derive(Clone, Copy, Debug)]
pub enum FieldShape {
    /// One message of this shape.
    Message(Shape),
    /// A list of messages of this shape.
    Messages(Shape),
    /// A map. The shape is that of the values, if they are messages.
    Map(Option<Shape>),
    /// A list of numbers, packed or not.
    Numbers,
}

impl Shape {
    /// Returns the shape of the message type `M`.
    ///
    /// The shape of a message that `nri.proto` does not declare has no fields. The lookup is by
    /// name; in a `const` block it costs nothing at run time.
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

    /// Returns the content of a field, by its number.
    ///
    /// `None` stands for a single value, a list of strings, and a field that the message does not
    /// have.
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

/// Compares two strings. `==` is not available in a `const fn`.
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
                    RuntimeFieldType::Map(_, kind) => {
                        check(of_map.expect("the table says that the field is a map"), &kind)
                    }
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
        SHAPES.iter().find(|(other, _)| *other == name).expect("the table has a row for each message").1
    }
}
