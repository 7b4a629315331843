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

/// Where changes to one container are noted.
pub(super) struct Notes<'a> {
    container: Option<&'a str>,
    changes: Option<&'a mut Vec<Changed>>,
}

impl<'a> Notes<'a> {
    /// Takes notes of changes to the container that the request is about.
    pub(super) fn of_own(changes: &'a mut Vec<Changed>) -> Self {
        Self { container: None, changes: Some(changes) }
    }

    /// Takes notes of changes to another one.
    pub(super) fn of(container: &'a str, changes: &'a mut Vec<Changed>) -> Self {
        Self { container: Some(container), changes: Some(changes) }
    }

    /// Takes none.
    pub(super) fn none() -> Self {
        Self { container: None, changes: None }
    }

    /// Takes a note of a change. What is there after it is only copied if somebody reads it.
    pub(super) fn take<T: Clone + Into<Value>>(
        &mut self,
        field: Field,
        key: &str,
        before: Option<T>,
        after: Option<&T>,
    ) {
        self.take_values(field, key, || (before.map(Into::into), after.cloned().map(Into::into)));
    }

    pub(super) fn take_values(
        &mut self,
        field: Field,
        key: &str,
        values: impl FnOnce() -> (Option<Value>, Option<Value>),
    ) {
        if self.changes.is_some() {
            let (before, after) = values();
            self.push(field, key, before, after);
        }
    }

    /// One for all kinds of values: it is called from many places.
    #[inline(never)]
    fn push(&mut self, field: Field, key: &str, before: Option<Value>, after: Option<Value>) {
        if let Some(changes) = &mut self.changes {
            let (container, key) = (self.container.map(str::to_owned), key.to_owned());
            changes.push(Changed { container, field, key, before, after });
        }
    }
}
