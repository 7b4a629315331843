use super::{Translate, word};
use crate::model::{CdiDevice, Device, DeviceRule, NetDevice};
use crate::schema::api;

word! {
    LinuxDevice as Device { path, major, minor, file_mode, uid, gid; type_ as kind }
}

word! {
    LinuxDeviceCgroup as DeviceRule { allow, major, minor, access; type_ as kind }
}

word! {
    CDIDevice as CdiDevice { name }
}

word! {
    LinuxNetDevice as NetDevice { name }
}
