//! Conversions of devices.

use super::{Translate, message};
use crate::model::{CdiDevice, Device, DeviceRule, NetDevice};
use crate::schema::api;

message! {
    LinuxDevice as Device { path, major, minor, file_mode, uid, gid; type_ as kind }
}

message! {
    LinuxDeviceCgroup as DeviceRule { allow, major, minor, access; type_ as kind }
}

message! {
    CDIDevice as CdiDevice { name }
}

message! {
    LinuxNetDevice as NetDevice { name }
}
