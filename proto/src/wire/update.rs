use super::{Translate, word};
use crate::api;
use crate::words::{Eviction, LinuxUpdate, Update};

word! {
    ContainerUpdate as Update { container_id, linux, ignore_failure }
}

word! {
    LinuxContainerUpdate as LinuxUpdate { resources }
}

word! {
    ContainerEviction as Eviction { container_id, reason }
}
