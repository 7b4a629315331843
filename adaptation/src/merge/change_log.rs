use std::fmt::{self, Debug, Formatter};

use nri_proto::Field;
use nri_proto::encode::Writer;

use super::Changed;
use super::packing::{self, Pack};

/// The changes that a reply made, in the order in which they were made.
///
/// The changes are stored packed: each reply makes a list, the [ledger](crate::ledger) keeps the
/// list as it is, and the list is seldom read.
///
/// ```
/// use nri_adaptation::merge::{Changed, Changes, Value};
/// use nri_proto::Field;
///
/// let set = |key: &str, value: &str| Changed {
///     container: None,
///     field: Field::Env,
///     key: key.to_owned(),
///     before: None,
///     after: Some(Value::Text(value.to_owned())),
/// };
/// let changes: Changes = [set("A", "1"), set("B", "2")].into_iter().collect();
/// assert!(changes.iter().eq([set("A", "1"), set("B", "2")]));
/// ```
#[derive(Clone, Default)]
pub struct Changes {
    /// One part for each run of changes to the same container.
    parts: Vec<ViewChanges>,
    /// The expected number of changes to the container that the request is about.
    expected: usize,
    /// Whether the next plugin sees the container changed.
    change_view: bool,
}

/// Consecutive changes to one container.
#[derive(Clone)]
pub(crate) struct ViewChanges {
    container: Option<String>,
    packed: Writer,
    count: usize,
}

impl Changes {
    /// The number of bytes that fits most changes.
    const ROOM: usize = 96;
    /// Limits the memory that is allocated in advance, because the peer determines the number of
    /// changes.
    const MOST_EXPECTED: usize = 32;

    /// Sets the expected number of changes to the container that the request is about.
    pub(super) fn will_be(&mut self, count: usize) {
        self.expected = count.min(Self::MOST_EXPECTED);
    }

    /// Returns the number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.count).sum()
    }

    /// Returns whether the list has no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the changes in order, unpacked.
    pub fn iter(&self) -> impl Iterator<Item = Changed> {
        self.parts.iter().flat_map(|part| {
            let container = part.container.as_deref();
            packing::unpack(part.bytes())
                .map(move |change| Changed { container: container.map(str::to_owned), ..change })
        })
    }

    /// Returns whether the next plugin sees the container changed that the request is about.
    pub(super) fn change_view(&self) -> bool {
        self.change_view
    }

    /// Returns the changes in order, packed.
    pub(crate) fn parts(&self) -> &[ViewChanges] {
        &self.parts
    }

    #[inline(never)]
    pub(super) fn push<T: Pack + ?Sized>(
        &mut self,
        container: Option<&str>,
        field: Field,
        key: &str,
        before: Option<&T>,
        after: Option<&T>,
    ) {
        // A container shows neither its CDI devices nor its memory policy.
        let is_shown = container.is_none() && !matches!(field, Field::CdiDevices | Field::MemoryPolicy);
        self.change_view |= is_shown && (before.is_some() || after.is_some());
        let part = self.part_of(container);
        packing::pack(field, key, before, after, &mut part.packed);
        part.count += 1;
    }

    fn part_of(&mut self, container: Option<&str>) -> &mut ViewChanges {
        if self.parts.last().is_none_or(|last| last.container.as_deref() != container) {
            // Other containers may be many, each with few changes.
            let expected = if container.is_none() { self.expected.max(1) } else { 1 };
            let packed = Writer::of_known(Self::ROOM * expected);
            self.parts.push(ViewChanges { container: container.map(str::to_owned), packed, count: 0 });
        }
        self.parts.last_mut().expect("there is one now")
    }
}

impl ViewChanges {
    /// Returns the container, or `None` for the container that the request is about.
    pub(crate) fn container(&self) -> Option<&str> {
        self.container.as_deref()
    }

    /// Returns the packed changes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.packed.written()
    }
}

impl PartialEq for Changes {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl Eq for Changes {}

impl PartialEq for ViewChanges {
    fn eq(&self, other: &Self) -> bool {
        (self.container(), self.bytes()) == (other.container(), other.bytes())
    }
}

impl Debug for Changes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl FromIterator<Changed> for Changes {
    fn from_iter<I: IntoIterator<Item = Changed>>(changes: I) -> Self {
        let mut packed = Self::default();
        for Changed { container, field, key, before, after } in changes {
            packed.push(container.as_deref(), field, &key, before.as_ref(), after.as_ref());
        }
        packed
    }
}
