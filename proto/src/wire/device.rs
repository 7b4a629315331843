use super::{Translate, word};
use crate::api;
use crate::words::{CdiDevice, Device, DeviceRule, NetDevice};

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
