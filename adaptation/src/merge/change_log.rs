use std::fmt::{self, Debug, Formatter};

use nri_proto::Field;
use nri_proto::encode::{Part as Shown, Since, Writer};

use super::Changed;
use super::packing::{self, Pack};

/// What a reply changed, in the order in which it was changed.
///
/// It is packed: each reply makes one, the [ledger](crate::ledger) keeps it as it is, and it is
/// seldom read.
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
    /// One for each row of changes to one container.
    parts: Vec<ViewChanges>,
    /// About how many there will be to the container that the request is about.
    expected: usize,
    /// What the next plugin is shown of them.
    shown: Since,
}

/// Changes to one container that were made one after the other.
#[derive(Clone)]
pub(crate) struct ViewChanges {
    container: Option<String>,
    packed: Writer,
    count: usize,
}

impl Changes {
    /// What most changes have room in, in bytes.
    const ROOM: usize = 96;
    /// For more of them room is made when it is needed: a peer says how many there are.
    const MOST_EXPECTED: usize = 32;

    /// Says that there will be about so many to the container that the request is about.
    pub(super) fn will_be(&mut self, count: usize) {
        self.expected = count.min(Self::MOST_EXPECTED);
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.count).sum()
    }

    /// Says whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns them in order, each unpacked.
    pub fn iter(&self) -> impl Iterator<Item = Changed> {
        self.parts.iter().flat_map(|part| {
            let container = part.container.as_deref();
            packing::unpack(part.bytes())
                .map(move |change| Changed { container: container.map(str::to_owned), ..change })
        })
    }

    /// Returns what the next plugin is shown because of them.
    pub(super) fn shown(&self) -> Since {
        self.shown
    }

    /// The same, packed.
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
        if container.is_none() {
            show(field, before.is_some(), after.is_some(), &mut self.shown);
        }
        let part = self.part_of(container);
        packing::pack(field, key, before, after, &mut part.packed);
        part.count += 1;
    }

    fn part_of(&mut self, container: Option<&str>) -> &mut ViewChanges {
        if self.parts.last().is_none_or(|last| last.container.as_deref() != container) {
            // Of others there may be many, each with little that changes.
            let expected = if container.is_none() { self.expected.max(1) } else { 1 };
            let packed = Writer::of_known(Self::ROOM * expected);
            self.parts.push(ViewChanges { container: container.map(str::to_owned), packed, count: 0 });
        }
        self.parts.last_mut().expect("there is one now")
    }
}

impl ViewChanges {
    /// The container, or `None` for the one that the request is about.
    pub(crate) fn container(&self) -> Option<&str> {
        self.container.as_deref()
    }

    /// Its changes, packed.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.packed.written()
    }
}

/// Notes where a container shows a change. What a list did not have is added at its end.
fn show(field: Field, was_there: bool, is_there: bool, shown: &mut Since) {
    match shown_in(field) {
        Some(list @ (Shown::Env | Shown::Mounts)) if is_there && !was_there => shown.grows(list),
        Some(part) if is_there || was_there => shown.changes(part),
        Some(_) | None => {}
    }
}

/// The part of a container that shows a field, if it has a place for it.
fn shown_in(field: Field) -> Option<Shown> {
    Some(match field {
        Field::CdiDevices | Field::MemoryPolicy => return None,
        Field::Annotations => Shown::Annotations,
        Field::Args => Shown::Args,
        Field::Env => Shown::Env,
        Field::Mounts => Shown::Mounts,
        Field::OciHooks => Shown::Hooks,
        Field::Rlimits => Shown::Rlimits,
        Field::None
        | Field::Devices
        | Field::MemLimit
        | Field::MemReservation
        | Field::MemSwapLimit
        | Field::MemKernelLimit
        | Field::MemTCPLimit
        | Field::MemSwappiness
        | Field::MemDisableOomKiller
        | Field::MemUseHierarchy
        | Field::CPUShares
        | Field::CPUQuota
        | Field::CPUPeriod
        | Field::CPURealtimeRuntime
        | Field::CPURealtimePeriod
        | Field::CPUSetCPUs
        | Field::CPUSetMems
        | Field::PidsLimit
        | Field::HugepageLimits
        | Field::BlockioClass
        | Field::RdtClass
        | Field::CgroupsUnified
        | Field::CgroupsPath
        | Field::OomScoreAdj
        | Field::IoPriority
        | Field::SeccompPolicy
        | Field::Namespace
        | Field::Sysctl
        | Field::LinuxNetDevices
        | Field::LinuxSched
        | Field::RdtClosID
        | Field::RdtSchemata
        | Field::RdtEnableMonitoring
        | Field::Unnamed(_) => Shown::Linux,
    })
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
