//! Groups: fields that have an end tag instead of a length.
//!
//! NRI has none, and the protobuf library skips them silently.

use protobuf::rt::read_unknown_or_skip_group;
use protobuf::{CodedInputStream, CodedOutputStream, Error, UnknownFields, UnknownValueRef};

use super::VALUE;
use crate::schema::shape::{FieldShape, Shape};

/// Returns a copy of a message with each group replaced by an unknown field.
///
/// The field has the number of the group, and a wire type that no field of NRI has.
pub(super) fn marked(shape: Shape, message: &[u8]) -> Result<Vec<u8>, Error> {
    marked_by(&|number| shape.field(number), message)
}

fn marked_by(shape_of: &dyn Fn(u32) -> Option<FieldShape>, message: &[u8]) -> Result<Vec<u8>, Error> {
    let mut marked = Vec::with_capacity(message.len());
    let mut out = CodedOutputStream::vec(&mut marked);
    let mut input = CodedInputStream::from_bytes(message);
    while let Some(tag) = input.read_raw_tag_or_eof()? {
        let (number, mut field) = (tag >> 3, UnknownFields::new());
        read_unknown_or_skip_group(tag, &mut input, &mut field)?;
        match field.get(number) {
            // The field was a group.
            None => out.write_fixed32(number, 0)?,
            Some(UnknownValueRef::LengthDelimited(part)) => {
                out.write_bytes(number, &marked_part(shape_of(number), part)?)?;
            }
            Some(value) => out.write_unknown(number, value)?,
        }
    }
    out.flush()?;
    drop(out);
    Ok(marked)
}

fn marked_part(shape: Option<FieldShape>, part: &[u8]) -> Result<Vec<u8>, Error> {
    match shape {
        Some(FieldShape::Message(shape) | FieldShape::Messages(shape)) => marked(shape, part),
        Some(FieldShape::Map(Some(value))) => {
            marked_by(&|number| (number == VALUE).then_some(FieldShape::Message(value)), part)
        }
        Some(FieldShape::Map(None) | FieldShape::Numbers) | None => Ok(part.to_vec()),
    }
}
