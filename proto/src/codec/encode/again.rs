//! Encodes a container again after plugins changed parts of it. Unchanged parts are copied.

use std::ops::Range;

use bytes::Bytes;

use super::{EncodeField, FieldSink, Writer};
use crate::model::{Container, Unknown};

/// A field of a container that plugins can change. The discriminant is the field number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// [`Container::annotations`].
    Annotations = 6,
    /// [`Container::args`].
    Args = 7,
    /// [`Container::env`].
    Env = 8,
    /// [`Container::mounts`].
    Mounts = 9,
    /// [`Container::hooks`].
    Hooks = 10,
    /// [`Container::linux`].
    Linux = 11,
    /// [`Container::rlimits`].
    Rlimits = 13,
}

/// The fields of a container that have changed since it was first encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// A bit for each field that has changed in any way.
    changed: u32,
    /// A bit for each list to which entries were appended.
    grown: u32,
}

impl Since {
    /// Records that a field has changed.
    pub fn changes(&mut self, part: Part) {
        self.changed |= bit(part as u32);
    }

    /// Records that entries were appended to a list.
    pub fn grows(&mut self, part: Part) {
        self.grown |= bit(part as u32);
    }

    /// Returns whether nothing has changed.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// Returns the changes of `self` and `later` together.
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        Self { changed: self.changed | later.changed, grown: self.grown | later.grown }
    }
}

fn bit(number: u32) -> u32 {
    1 << number
}

/// The first encoding of a container, with the positions of its fields.
///
/// ```
/// use nri_proto::Container;
/// use nri_proto::encode::{Encode, First, Part, Since, Writer};
///
/// let mut container = Container { env: vec!["A=1".to_owned()], ..Container::default() };
/// let first = First::of(&container);
///
/// container.env.push("B=2".to_owned());
/// let mut since = Since::default();
/// since.grows(Part::Env);
/// let (mut again, mut anew) = (Writer::default(), Writer::default());
/// first.again(&container, since, &mut again);
/// container.encode(&mut anew);
/// assert_eq!(again.written(), anew.written());
/// ```
#[derive(Clone, Debug)]
pub struct First {
    bytes: Bytes,
    marks: Marks,
}

/// The position of each field, by its number. The unknown fields follow the last one.
type Marks = [Mark; 24];

#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// The distance from the beginning of the field to the end of the container, in bytes.
    begins: usize,
    /// The number of entries, if the field is a list.
    n_entries: usize,
}

impl First {
    /// Encodes a container.
    #[must_use]
    pub fn of(container: &Container) -> Self {
        let mut out = Writer::with_capacity(8 << 10);
        let marking = Self::write(container, &mut out);
        marking.within(&out.into_bytes())
    }

    /// Writes a container, and records the positions of its fields.
    pub fn write(container: &Container, out: &mut Writer) -> Marked {
        let end = out.length();
        let mut marking = Marking { out, end, marks: Marks::default() };
        container.each_field(&mut marking);
        Marked { end, marks: marking.marks }
    }

    /// Returns the length of the encoded container.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Writes the current state of the container. Fields that have not changed are copied.
    pub fn again(&self, container: &Container, since: Since, out: &mut Writer) {
        let end = self.bytes.len();
        let mut again = Again { first: self, since, out, copied: end..end };
        container.each_field(&mut again);
        again.copy();
    }

    /// Returns the range of a field in the encoded container.
    fn range(&self, number: u32) -> Range<usize> {
        let begins = |number: usize| self.bytes.len() - self.marks[number].begins;
        begins(number as usize)..begins(number as usize + 1)
    }
}

/// The positions of the fields of a container in a message that is being written.
#[derive(Clone, Debug)]
pub struct Marked {
    /// The number of bytes that were written before the container, and follow it.
    end: usize,
    marks: Marks,
}

impl Marked {
    /// Returns the container as a part of the complete message.
    #[must_use]
    pub fn within(self, written: &Bytes) -> First {
        let end = written.len() - self.end;
        let begin = end - self.marks[1].begins;
        First { bytes: written.slice(begin..end), marks: self.marks }
    }
}

/// Writes fields and records their positions.
struct Marking<'a> {
    out: &'a mut Writer,
    end: usize,
    marks: Marks,
}

impl Marking<'_> {
    fn mark(&mut self, number: u32, n_entries: usize) {
        self.marks[number as usize] = Mark { begins: self.out.length() - self.end, n_entries };
    }
}

/// The index of the unknown fields: one more than the last field number.
const UNKNOWN: u32 = 23;

impl FieldSink for Marking<'_> {
    fn unknown(&mut self, unknown: &Unknown) {
        self.out.unknown(unknown);
        self.mark(UNKNOWN, 0);
    }

    fn field(&mut self, number: u32, value: &impl EncodeField) {
        value.write(number, self.out);
        self.mark(number, value.n_entries());
    }
}

/// Writes changed fields and copies the others.
struct Again<'a> {
    first: &'a First,
    since: Since,
    out: &'a mut Writer,
    /// The range that is copied next. It grows downwards while fields are unchanged.
    copied: Range<usize>,
}

impl Again<'_> {
    fn copy(&mut self) {
        self.out.raw(&self.first.bytes[self.copied.clone()]);
    }
}

impl FieldSink for Again<'_> {
    fn unknown(&mut self, _: &Unknown) {
        self.copied.start -= self.first.marks[UNKNOWN as usize].begins;
    }

    fn field(&mut self, number: u32, value: &impl EncodeField) {
        let before = self.first.range(number);
        if self.since.changed & bit(number) != 0 {
            self.copy();
            value.write(number, self.out);
            self.copied = before.start..before.start;
        } else if self.since.grown & bit(number) != 0 {
            self.copy();
            value.write_behind(self.first.marks[number as usize].n_entries, number, self.out);
            self.copied = before;
        } else {
            self.copied.start = before.start;
        }
    }
}
