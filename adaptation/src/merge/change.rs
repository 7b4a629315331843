use nri_proto::{
    Device, DeviceRule, Field, Hooks, IoPriority, MemoryPolicy, Mount, Namespace, NetDevice, Rlimit, Scheduler, Seccomp,
};

/// One thing that a plugin changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The container, or `None` for the one that the request is about.
    pub container: Option<String>,
    /// The field. Rules for devices, which upstream has no field for, are [`Field::Devices`].
    pub field: Field,
    /// The entry of the field; empty if it has none.
    pub key: String,
    /// What it was to this plugin, if anything.
    pub before: Option<Value>,
    /// What it is to the next, if anything. For hooks and rules for devices, what was added.
    pub after: Option<Value>,
}

/// What a field is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
    /// A number that may be below zero.
    Signed(i64),
    /// A number.
    Unsigned(u64),
    /// Yes or no.
    Flag(bool),
    /// A mount.
    Mount(Box<Mount>),
    /// A device node.
    Device(Box<Device>),
    /// Rules for devices.
    DeviceRules(Vec<DeviceRule>),
    /// A network device.
    NetDevice(NetDevice),
    /// A namespace.
    Namespace(Box<Namespace>),
    /// Hooks.
    Hooks(Box<Hooks>),
    /// An I/O priority.
    IoPriority(IoPriority),
    /// A seccomp policy.
    Seccomp(Box<Seccomp>),
    /// How a process is scheduled.
    Scheduler(Box<Scheduler>),
    /// Where memory comes from.
    MemoryPolicy(Box<MemoryPolicy>),
    /// A resource limit.
    Rlimit(Box<Rlimit>),
}

macro_rules! values {
    ($($from:ty as $variant:ident),+ $(,)?) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

values! {
    String as Text,
    Vec<String> as Texts,
    i64 as Signed,
    u64 as Unsigned,
    bool as Flag,
    Mount as Mount,
    Device as Device,
    Vec<DeviceRule> as DeviceRules,
    NetDevice as NetDevice,
    Namespace as Namespace,
    Hooks as Hooks,
    IoPriority as IoPriority,
    Seccomp as Seccomp,
    Scheduler as Scheduler,
    MemoryPolicy as MemoryPolicy,
    Rlimit as Rlimit,
}
