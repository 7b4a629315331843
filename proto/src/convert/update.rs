//! Conversions of updates and evictions.

use super::{Translate, message};
use crate::model::{Eviction, LinuxUpdate, Update};
use crate::schema::api;

message! {
    ContainerUpdate as Update { container_id, linux, ignore_failure }
}

message! {
    LinuxContainerUpdate as LinuxUpdate { resources }
}

message! {
    ContainerEviction as Eviction { container_id, reason }
}
