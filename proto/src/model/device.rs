use super::{Keyed, Unknown};

/// A device node in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Where it is in the container.
    pub path: String,
    /// The kind of device: `c`, `b`, `u` or `p`.
    pub kind: String,
    /// The major number.
    pub major: i64,
    /// The minor number.
    pub minor: i64,
    /// The permissions.
    pub file_mode: Option<u32>,
    /// The user who owns it.
    pub uid: Option<u32>,
    /// The group that owns it.
    pub gid: Option<u32>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Device {
    /// Makes a device node of this kind and number, with the runtime's own choice of permissions.
    pub fn new(path: impl Into<String>, kind: impl Into<String>, major: i64, minor: i64) -> Self {
        Self { path: path.into(), kind: kind.into(), major, minor, ..Self::default() }
    }
}

impl Keyed for Device {
    fn key(&self) -> &str {
        &self.path
    }

    fn set_key(&mut self, key: String) {
        self.path = key;
    }
}

/// A rule that says which devices a container may use (`LinuxDeviceCgroup` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceRule {
    /// Whether it allows or denies.
    pub allow: bool,
    /// The kind of device: `a` for all, `c` or `b`.
    pub kind: String,
    /// The major number; all of them if not set.
    pub major: Option<i64>,
    /// The minor number; all of them if not set.
    pub minor: Option<i64>,
    /// Some of `r` for reading, `w` for writing and `m` for making the node.
    pub access: String,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// A device by its CDI name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CdiDevice {
    /// The qualified name, such as `vendor.com/class=name`.
    pub name: String,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl CdiDevice {
    /// The device of this qualified name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), unknown: Unknown::default() }
    }
}

/// A network device that is moved into a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetDevice {
    /// Its name in the container; empty to keep that of the host.
    pub name: String,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl NetDevice {
    /// A device with this name in the container.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), unknown: Unknown::default() }
    }
}
