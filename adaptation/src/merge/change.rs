use nri_proto::{
    Device, DeviceRule, Field, Hooks, IoPriority, MemoryPolicy, Mount, Namespace, NetDevice, Rlimit, Scheduler, Seccomp,
};

/// One change that a plugin made to a field of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The container, or `None` for the container that the request is about.
    pub container: Option<String>,
    /// The field. Device rules, for which upstream has no field, are [`Field::Devices`].
    pub field: Field,
    /// The key of the entry, such as the name of an environment variable. Empty if the field has no
    /// entries.
    pub key: String,
    /// The value that this plugin was shown, if any.
    pub before: Option<Value>,
    /// The value that the next plugin is shown, if any. For hooks and device rules, only the
    /// additions.
    pub after: Option<Value>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A string.
    Text(String),
    /// A list of strings.
    Texts(Vec<String>),
    /// A signed number.
    Signed(i64),
    /// An unsigned number.
    Unsigned(u64),
    /// A boolean.
    Flag(bool),
    /// A mount.
    Mount(Box<Mount>),
    /// A device node.
    Device(Box<Device>),
    /// A list of device rules.
    DeviceRules(Vec<DeviceRule>),
    /// A network device.
    NetDevice(NetDevice),
    /// A namespace.
    Namespace(Box<Namespace>),
    /// A set of hooks.
    Hooks(Box<Hooks>),
    /// An I/O priority.
    IoPriority(IoPriority),
    /// A seccomp policy.
    Seccomp(Box<Seccomp>),
    /// A scheduling policy.
    Scheduler(Box<Scheduler>),
    /// A memory policy.
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
