//! Conversions of proposals and verdicts.

use super::{Translate, message};
use crate::model::{PluginInstance, Proposal, Verdict};
use crate::schema::api;

message! {
    ValidateContainerAdjustmentRequest as Proposal {
        pod, container, adjust as adjustment, update as updates, owners, plugins
    }
}

message! {
    PluginInstance as PluginInstance { name, index }
}

message! {
    ValidateContainerAdjustmentResponse as Verdict { reject, reason }
}
