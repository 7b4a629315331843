use super::{Translate, word};
use crate::model::{PluginInstance, Proposal, Verdict};
use crate::schema::api;

word! {
    ValidateContainerAdjustmentRequest as Proposal {
        pod, container, owners, plugins;
        adjust as adjustment, update as updates
    }
}

word! {
    PluginInstance as PluginInstance { name, index }
}

word! {
    ValidateContainerAdjustmentResponse as Verdict { reject, reason }
}
