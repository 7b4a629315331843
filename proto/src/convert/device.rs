//! Conversions of devices.

use super::{Translate, message};
use crate::model::{CdiDevice, Device, DeviceRule, NetDevice};
use crate::schema::api;

message! {
    LinuxDevice as Device { path, type_ as kind, major, minor, file_mode, uid, gid }, encode, decode
}

message! {
    LinuxDeviceCgroup as DeviceRule { allow, type_ as kind, major, minor, access }, encode, decode
}

message! {
    CDIDevice as CdiDevice { name }, encode, decode
}

message! {
    LinuxNetDevice as NetDevice { name }, encode
}
