//! Conversions of plugins' replies.

use super::{Translate, decode_usual, message};
use crate::model::{CreateReply, StopReply, UpdateReply};
use crate::schema::api;

message! {
    CreateContainerResponse as CreateReply { adjust as adjustment, update as updates, evict as evictions }
}

// A reply with updates or evictions is rare, and decoded as a message.
decode_usual! {
    CreateContainerResponse as CreateReply { adjust as adjustment }
}

message! {
    UpdateContainerResponse as UpdateReply { update as updates, evict as evictions }
}

message! {
    StopContainerResponse as StopReply { update as updates }
}
