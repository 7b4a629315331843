use super::{Adjustment, Container, Owners, Pod, Unknown, Update};
use crate::peer::plugin_id::PluginId;

/// What all plugins together want of a new container, for validators (`ValidateContainerAdjustmentRequest` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal {
    /// The pod.
    pub pod: Option<Pod>,
    /// The container as it was before any plugin changed it.
    pub container: Option<Container>,
    /// What changes in it (`adjust` on the wire).
    pub adjustment: Option<Adjustment>,
    /// What changes in others (`update` on the wire).
    pub updates: Vec<Update>,
    /// Who wants what.
    pub owners: Option<Owners>,
    /// Who was consulted.
    pub plugins: Vec<PluginInstance>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

/// A plugin by index and name, as the wire has it: anything may stand there, so it is not a [`PluginId`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginInstance {
    /// The name, without the index.
    pub name: String,
    /// The index.
    pub index: String,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl From<&PluginId> for PluginInstance {
    fn from(id: &PluginId) -> Self {
        Self { name: id.name().to_owned(), index: id.index().to_owned(), unknown: Unknown::default() }
    }
}

/// A validator's answer to a [`Proposal`] (`ValidateContainerAdjustmentResponse` on the wire).
///
/// ```
/// use nri_proto::{Verdict, api};
///
/// let verdict = Verdict::reject("no hooks on this node");
/// assert_eq!(verdict.rejection(), Some("no hooks on this node"));
/// assert_eq!(Verdict::accept().rejection(), None);
///
/// let message = api::ValidateContainerAdjustmentResponse::from(verdict.clone());
/// assert_eq!(Verdict::from(message), verdict);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the container must not be created.
    pub reject: bool,
    /// Why, for people.
    pub reason: String,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl Verdict {
    /// Lets the container be created.
    pub fn accept() -> Self {
        Self::default()
    }

    /// Forbids it.
    pub fn reject(reason: impl Into<String>) -> Self {
        Self { reject: true, reason: reason.into(), unknown: Unknown::default() }
    }

    /// Returns why it is forbidden, if it is; empty if the validator does not say.
    pub fn rejection(&self) -> Option<&str> {
        self.reject.then_some(&*self.reason)
    }
}
