use super::{Translate, word};
use crate::api;
use crate::words::{CreateReply, StopReply, UpdateReply};

word! {
    CreateContainerResponse as CreateReply { ; adjust as adjustment, update as updates, evict as evictions }
}

word! {
    UpdateContainerResponse as UpdateReply { ; update as updates, evict as evictions }
}

word! {
    StopContainerResponse as StopReply { ; update as updates }
}
