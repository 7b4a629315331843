//! What an entry takes, in bytes.

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

/// What the allocator takes for itself, roughly.
const OVERHEAD: usize = 16;
/// The counts of what is shared.
const COUNTS: usize = 2 * size_of::<usize>();

/// How many times as much as it counts as may a packed change take unpacked.
const READING: usize = 4;
/// What an unpacked change takes whatever its values are: the entry, its place in a list that may
/// be half empty, and what the allocator takes for it, its key and two texts.
const UNPACKED: usize = COUNTS + size_of::<Entry>() + 2 * size_of::<Arc<Entry>>() + 4 * OVERHEAD;

/// The places in a queue that may be half empty.
const PLACES: usize = 2 * size_of::<(Forgetting, usize)>();

impl Entry {
    /// Everything that is kept for it.
    pub(super) fn cost(&self) -> usize {
        let Self { sequence: _, occasion, what, is_cut: _ } = self;
        PLACES + allocation(COUNTS + size_of::<Self>()) + occasion.cost() + what.heap()
    }
}

impl Packed {
    /// Everything that is kept for them, or the part of what they take unpacked that is more.
    pub(super) fn cost(&self) -> usize {
        let Self { first: _, n_changes: _, occasion, bytes: _, weight } = self;
        Self::cost_of_nothing(occasion) + weight
    }

    /// What a change counts as that takes so many bytes, and so many more when it is read.
    ///
    /// Of what it takes when it is read some is counted, so that no plugin can make the history
    /// much larger then than its bound. Not all, as few read it, and most changes are small beside
    /// the occasion that they share.
    pub(super) fn weigh(length: usize, growth: usize) -> usize {
        length.max((UNPACKED + length + growth).div_ceil(READING))
    }

    /// What is kept beside the bytes.
    pub(super) fn cost_of_nothing(occasion: &Occasion) -> usize {
        PLACES + allocation(COUNTS + size_of::<Self>()) + occasion.cost() + OVERHEAD
    }
}

impl Occasion {
    /// What the entries that share it take together for it.
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

/// Words: the fields that hold memory, and those that do not.
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

// Fields that nobody knows are taken out before.
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
