//! The model: pods, containers, resources, and the changes that plugins make to them, in plain
//! Rust.
//!
//! Each model type stands for one message of [`api`](crate::api), and `From` converts in both
//! directions. Conversions never fail, and a message that is converted and converted back is
//! unchanged:
//!
//! - An absent message is `None`; a present but empty message is `Some` of a default value.
//! - A value of an enum without a name keeps its number ([`Unnamed`]).
//! - Each model type keeps the fields that this version of the protocol does not know
//!   ([`Unknown`]).
//!
//! An [`Adjustment`] distinguishes entries that are set, replaced and removed ([`Change`]). On the
//! wire, a removal is a key with a dash in front, at any place in a list and with any value. For
//! changes only the reverse holds: a model type that is converted and converted back is unchanged.
//!
//! A value that the wire wraps in a message to express whether it is set, such as `OptionalInt64`,
//! is an `Option` here. If such a wrapper has an unknown field, the field is dropped, and
//! [`TakeUnknown`] reports it.
//!
//! A field that is called `type` on the wire is called `kind` here.
//!
//! - What there is: `pod.rs`, `container.rs`, and their parts in `linux.rs`, `resources.rs`,
//!   `mount.rs`, `device.rs`, `hooks.rs`, `seccomp.rs`, `scheduler.rs`, `memory_policy.rs` and
//!   `env_var.rs`.
//! - What plugins reply: `reply.rs`, `adjustment.rs`, `update.rs` (also evictions), `proposal.rs`
//!   (for validators) and `failure_policy.rs`.
//! - How a change is expressed: `change.rs`, `change_list.rs`, `change_map.rs`, `args.rs`, and
//!   `marker.rs`, the dash of the wire.
//! - Who changed what: `field.rs` and `owners.rs`.
//! - What this version does not know: `unknown.rs` (fields) and `unnamed.rs` (values of enums).

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
pub use change_list::{ChangeList, ChangedKeys, Keyed};
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
