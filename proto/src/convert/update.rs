use super::{Translate, word};
use crate::model::{Eviction, LinuxUpdate, Update};
use crate::schema::api;

word! {
    ContainerUpdate as Update { container_id, linux, ignore_failure }
}

word! {
    LinuxContainerUpdate as LinuxUpdate { resources }
}

word! {
    ContainerEviction as Eviction { container_id, reason }
}
