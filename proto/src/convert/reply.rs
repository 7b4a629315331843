use super::{Translate, word};
use crate::model::{CreateReply, StopReply, UpdateReply};
use crate::schema::api;

word! {
    CreateContainerResponse as CreateReply { ; adjust as adjustment, update as updates, evict as evictions }
}

word! {
    UpdateContainerResponse as UpdateReply { ; update as updates, evict as evictions }
}

word! {
    StopContainerResponse as StopReply { ; update as updates }
}
