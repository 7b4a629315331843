//! Pods, containers, resources and what plugins change in them, in plain Rust.
//!
//! Each word stands for one message of [`api`](crate::api), and `From` translates both ways. Translating never
//! fails, and a message that becomes a word and a message again is the same message. So that this holds,
//!
//! * `None` is a message that is absent, and `Some` of a default one that is there and empty;
//! * a number without a name in an enum stays that number ([`Unnamed`]);
//! * each word carries the fields that we do not know yet ([`Unknown`]).
//!
//! An [`Adjustment`] says which entries it sets, replaces and removes ([`Change`]), where the wire has a key with a dash
//! in front. It may stand anywhere in a list and carry a value that means nothing, so what holds here is the reverse: a
//! word that becomes a message and a word again is the same word.
//!
//! Values that the wire wraps to say whether they are set, such as `OptionalInt64`, are an `Option` here. They are
//! values, not messages: should they ever get a second field, it is dropped until we know it, and [`TakeUnknown`] tells
//! that it was there.
//!
//! A field that the wire calls `type` is called `kind`.

mod adjustment;
mod args;
mod change;
mod change_list;
mod change_map;
mod container;
mod device;
mod env_var;
mod failure_policy;
mod field;
mod hooks;
mod linux;
pub(crate) mod marker;
mod memory_policy;
mod mount;
mod owners;
mod pod;
mod proposal;
mod reply;
mod resources;
mod scheduler;
mod seccomp;
mod unknown;
mod unnamed;
mod update;

pub use adjustment::{Adjustment, LinuxAdjustment};
pub use args::{Args, EmptyCommand};
pub use change::{Change, DashedKey};
pub(crate) use change_list::ListChange;
pub use change_list::{ChangeList, Keyed, Keys};
pub use change_map::ChangeMap;
pub use container::{Container, ContainerState, Image, Rlimit, User};
pub use device::{CdiDevice, Device, DeviceRule, NetDevice};
pub use env_var::EnvVar;
pub use failure_policy::FailurePolicy;
pub use field::Field;
pub use hooks::{Hook, Hooks};
pub use linux::{IoPriority, IoPriorityClass, LinuxContainer, Namespace, Rdt};
pub use memory_policy::{MemoryPolicy, MemoryPolicyFlag, MemoryPolicyMode};
pub use mount::Mount;
pub use owners::{EntryOwners, FieldOwners, Owner, Owners};
pub use pod::{LinuxPod, Pod};
pub use proposal::{PluginInstance, Proposal, Verdict};
pub use reply::{CreateReply, StopReply, UpdateReply};
pub use resources::{Cpu, HugepageLimit, Memory, Pids, Resources};
pub use scheduler::{Scheduler, SchedulerFlag, SchedulerPolicy};
pub use seccomp::{ProfileKind, Seccomp, SecurityProfile, Syscall, SyscallArg};
pub use unknown::{TakeUnknown, Unknown, Unread};
pub use unnamed::Unnamed;
pub use update::{Eviction, LinuxUpdate, Update};
