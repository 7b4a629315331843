//! A canonical encoding of each message: the entries of maps are in the order of their keys.

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "these are tests")]
mod tests;

use nri_proto::shape::{FieldShape, Shape};

/// Sorts the entries of maps in an encoded message, at any depth. The entries of one map must be
/// consecutive.
///
/// Lengths do not change, so the bytes are sorted in place. Returns `None` if the bytes are not an
/// encoded message.
pub(crate) fn sort(bytes: &mut [u8], shape: Shape) -> Option<()> {
    let mut map: Option<(u32, usize)> = None;
    let mut entries = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let Field { number, body, end } = Field::at(bytes, at)?;
        if let Some((_, start)) = map.take_if(|(open, _)| *open != number) {
            put(&mut entries, &mut bytes[start..at]);
        }
        match (shape.field(number), body) {
            (Some(FieldShape::Map(value)), Some(body)) => {
                sort_value(&mut bytes[body..end], value)?;
                map.get_or_insert((number, at));
                entries.push(Entry { key: key(&bytes[body..end])?.to_vec(), whole: bytes[at..end].to_vec() });
            }
            (Some(FieldShape::Message(shape) | FieldShape::Messages(shape)), Some(body)) => {
                sort(&mut bytes[body..end], shape)?
            }
            // A field of an unexpected type stays as it is.
            (None | Some(FieldShape::Numbers), _) | (Some(_), None) => {}
        }
        at = end;
    }
    if let Some((_, start)) = map {
        put(&mut entries, &mut bytes[start..]);
    }
    Some(())
}

/// Sorts the maps within the value of a map's entry.
fn sort_value(entry: &mut [u8], value: Option<Shape>) -> Option<()> {
    let Some(shape) = value else { return Some(()) };
    let mut at = 0;
    while at < entry.len() {
        let Field { number, body, end } = Field::at(entry, at)?;
        if let (2, Some(body)) = (number, body) {
            sort(&mut entry[body..end], shape)?;
        }
        at = end;
    }
    Some(())
}

/// One entry of a map.
struct Entry {
    key: Vec<u8>,
    whole: Vec<u8>,
}

fn key(entry: &[u8]) -> Option<&[u8]> {
    let Field { number, body, end } = Field::at(entry, 0)?;
    Some(if number == 1 { &entry[body.unwrap_or(0)..end] } else { &[] })
}

/// Writes the entries back to their place, in order.
fn put(entries: &mut Vec<Entry>, place: &mut [u8]) {
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    let sorted: Vec<u8> = entries.drain(..).flat_map(|entry| entry.whole).collect();
    place.copy_from_slice(&sorted);
}

/// One field: where its content begins, if it has a length, and where it ends.
struct Field {
    number: u32,
    body: Option<usize>,
    end: usize,
}

impl Field {
    fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let (tag, after) = varint(bytes, at)?;
        let (body, end) = match tag & 7 {
            0 => (None, varint(bytes, after)?.1),
            1 => (None, after.checked_add(8)?),
            2 => {
                let (length, body) = varint(bytes, after)?;
                (Some(body), body.checked_add(usize::try_from(length).ok()?)?)
            }
            5 => (None, after.checked_add(4)?),
            _ => return None,
        };
        (end <= bytes.len()).then_some(Self { number: u32::try_from(tag >> 3).ok()?, body, end })
    }
}

fn varint(bytes: &[u8], mut at: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((value, at));
        }
    }
    None
}
