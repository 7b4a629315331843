//! Conversions of plugins' replies.

use super::{Translate, message};
use crate::model::{CreateReply, StopReply, UpdateReply};
use crate::schema::api;

message! {
    CreateContainerResponse as CreateReply { ; adjust as adjustment, update as updates, evict as evictions }
}

message! {
    UpdateContainerResponse as UpdateReply { ; update as updates, evict as evictions }
}

message! {
    StopContainerResponse as StopReply { ; update as updates }
}
