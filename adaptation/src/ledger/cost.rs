//! The memory that an entry takes, in bytes.

use std::sync::Arc;

use nri_proto::{
    Device, DeviceRule, Field, Hook, Hooks, IoPriority, MemoryPolicy, MemoryPolicyFlag, Mount, Namespace, NetDevice,
    PluginId, Rlimit, Scheduler, SchedulerFlag, Seccomp, Syscall, SyscallArg, Unread,
};

use super::Change;
use super::Entry;
use super::Forgetting;
use super::Occasion;
use super::What;
use super::packed::Packed;
use crate::config::policy::NotAllowed;
use crate::merge::{Conflict, Dropped, MergeError, Value};

/// The approximate overhead of one allocation.
const OVERHEAD: usize = 16;
/// The reference counts of an `Arc`.
const COUNTS: usize = 2 * size_of::<usize>();

/// The largest ratio of the unpacked size of a change to its cost.
const READING: usize = 4;
/// The unpacked size of a change without its values: the entry, two places in a list (which may be
/// half empty), and the overhead of the allocations for the entry, its key and two values.
const UNPACKED: usize = COUNTS + size_of::<Entry>() + 2 * size_of::<Arc<Entry>>() + 4 * OVERHEAD;

/// Two places in a queue, which may be half empty.
const PLACES: usize = 2 * size_of::<(Forgetting, usize)>();

impl Entry {
    /// Returns the memory that the history keeps for the entry.
    pub(super) fn cost(&self) -> usize {
        let Self { sequence: _, occasion, what, is_cut: _ } = self;
        PLACES + allocation(COUNTS + size_of::<Self>()) + occasion.cost() + what.heap()
    }
}

impl Packed {
    /// Returns the cost of packed changes: the memory that they take, or a part of their unpacked
    /// size if that is more.
    pub(super) fn cost(&self) -> usize {
        let Self { first: _, n_changes: _, occasion, bytes: _, weight } = self;
        Self::cost_of_nothing(occasion) + weight
    }

    /// Returns the cost of one packed change of `length` bytes that takes `growth` more bytes
    /// unpacked.
    ///
    /// A fraction of the unpacked size counts, so that reading a history never takes more than
    /// [`READING`] times its limit. The full size does not count, since entries are seldom read and
    /// most changes are small beside the occasion that they share.
    pub(super) fn weigh(length: usize, growth: usize) -> usize {
        length.max((UNPACKED + length + growth).div_ceil(READING))
    }

    /// Returns the cost of packed changes without their bytes.
    pub(super) fn cost_of_nothing(occasion: &Occasion) -> usize {
        PLACES + allocation(COUNTS + size_of::<Self>()) + occasion.cost() + OVERHEAD
    }
}

impl Occasion {
    /// Returns the memory that an occasion takes, shared by its entries.
    pub(super) fn cost(&self) -> usize {
        allocation(COUNTS + size_of::<Self>()) + self.heap()
    }
}

fn allocation(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes + OVERHEAD }
}

/// The size of the memory that a value holds on the heap.
trait HeapSize {
    fn heap(&self) -> usize;
}

impl HeapSize for String {
    fn heap(&self) -> usize {
        allocation(self.capacity())
    }
}

impl HeapSize for Arc<str> {
    fn heap(&self) -> usize {
        allocation(COUNTS + self.len())
    }
}

impl HeapSize for PluginId {
    fn heap(&self) -> usize {
        allocation(COUNTS + self.as_str().len())
    }
}

impl<T: HeapSize> HeapSize for Vec<T> {
    fn heap(&self) -> usize {
        allocation(self.capacity() * size_of::<T>()) + self.iter().map(HeapSize::heap).sum::<usize>()
    }
}

impl<T: HeapSize> HeapSize for Option<T> {
    fn heap(&self) -> usize {
        self.as_ref().map_or(0, HeapSize::heap)
    }
}

impl<T: HeapSize> HeapSize for Box<T> {
    fn heap(&self) -> usize {
        allocation(size_of::<T>()) + T::heap(self)
    }
}

macro_rules! no_heap {
    ($($kind:ty),+) => {
        $(impl HeapSize for $kind {
            fn heap(&self) -> usize {
                0
            }
        })+
    };
}

no_heap!(u32, Field, SchedulerFlag, MemoryPolicyFlag, IoPriority);

/// For each model type: the fields that hold memory, then the fields that do not.
macro_rules! heaps {
    ($($word:ident { $($held:ident),*; $($plain:ident),* })+) => {
        $(impl HeapSize for $word {
            fn heap(&self) -> usize {
                let Self { $($held,)* $($plain: _,)* } = self;
                0 $(+ $held.heap())*
            }
        })+
    };
}

// Unknown fields were removed before.
heaps! {
    Mount { destination, kind, source, options; unknown }
    Device { path, kind; major, minor, file_mode, uid, gid, unknown }
    DeviceRule { kind, access; allow, major, minor, unknown }
    NetDevice { name; unknown }
    Namespace { kind, path; unknown }
    Hooks { prestart, create_runtime, create_container, start_container, poststart, poststop; unknown }
    Hook { path, args, env; timeout, unknown }
    Seccomp { default_action, architectures, flags, listener_path, listener_metadata, syscalls; default_errno, unknown }
    Syscall { names, action, args; errno_ret, unknown }
    SyscallArg { op; index, value, value_two, unknown }
    Scheduler { flags; policy, nice, priority, runtime, deadline, period, unknown }
    MemoryPolicy { nodes, flags; mode, unknown }
    Rlimit { kind; hard, soft, unknown }
    Unread { numbers; message }
    Conflict { container, key, claimer, owner; field }
    Occasion { plugin, pod, container; when, event, took, shadow, in_vain }
    Change { key, before, after; field }
}

impl HeapSize for Value {
    fn heap(&self) -> usize {
        match self {
            Self::Text(text) => text.heap(),
            Self::Texts(texts) => texts.heap(),
            Self::Signed(_) | Self::Unsigned(_) | Self::Flag(_) => 0,
            Self::Mount(mount) => mount.heap(),
            Self::Device(device) => device.heap(),
            Self::DeviceRules(rules) => rules.heap(),
            Self::NetDevice(device) => device.heap(),
            Self::Namespace(namespace) => namespace.heap(),
            Self::Hooks(hooks) => hooks.heap(),
            Self::IoPriority(priority) => priority.heap(),
            Self::Seccomp(seccomp) => seccomp.heap(),
            Self::Scheduler(scheduler) => scheduler.heap(),
            Self::MemoryPolicy(policy) => policy.heap(),
            Self::Rlimit(rlimit) => rlimit.heap(),
        }
    }
}

impl HeapSize for What {
    fn heap(&self) -> usize {
        match self {
            Self::Changed(change) => change.heap(),
            Self::Dropped(dropped) => dropped.heap(),
            Self::Conflict(error) => error.heap(),
            Self::NotAllowed(error) => error.heap(),
            Self::TimedOut | Self::PassedOver(_) => 0,
            Self::Late { fields } => fields.heap(),
            Self::EvictionAsked { reason }
            | Self::Refused { reason }
            | Self::Failed { reason }
            | Self::Rejected { reason }
            | Self::UpdateFailed { reason }
            | Self::EvictionFailed { reason } => reason.heap(),
        }
    }
}

impl HeapSize for Dropped {
    fn heap(&self) -> usize {
        match self {
            Self::Unread(unread) => unread.heap(),
            Self::Update(conflict) => conflict.heap(),
            Self::DeviceRules { container } => container.heap(),
        }
    }
}

impl HeapSize for MergeError {
    fn heap(&self) -> usize {
        match self {
            Self::Conflict(conflict) => conflict.heap(),
            Self::UpdateDuringCreation { plugin, container } => plugin.heap() + container.heap(),
        }
    }
}

impl HeapSize for NotAllowed {
    fn heap(&self) -> usize {
        match self {
            Self::Field { field: _, key } => key.heap(),
            Self::Update { container } | Self::Eviction { container } | Self::Hidden { container } => container.heap(),
        }
    }
}
