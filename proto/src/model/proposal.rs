//! The request to validators, and their verdict.

use super::{Adjustment, Container, Owners, Pod, Unknown, Update};
use crate::peer::plugin_id::PluginId;

/// The combined changes of all plugins to a new container, for validators
/// (`ValidateContainerAdjustmentRequest` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal {
    /// The pod of the container.
    pub pod: Option<Pod>,
    /// The container before any change.
    pub container: Option<Container>,
    /// The changes to the container (`adjust` on the wire).
    pub adjustment: Option<Adjustment>,
    /// The updates of other containers (`update` on the wire).
    pub updates: Vec<Update>,
    /// The plugins that requested the changes.
    pub owners: Option<Owners>,
    /// The plugins that were called.
    pub plugins: Vec<PluginInstance>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

/// The index and name of a plugin, as received from a peer. Unlike a [`PluginId`], they can be any
/// text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginInstance {
    /// The name, without the index.
    pub name: String,
    /// The index.
    pub index: String,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl From<&PluginId> for PluginInstance {
    fn from(id: &PluginId) -> Self {
        Self { name: id.name().to_owned(), index: id.index().to_owned(), unknown: Unknown::default() }
    }
}

/// The reply of a validator to a [`Proposal`] (`ValidateContainerAdjustmentResponse` on the wire).
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
    /// Whether the validator rejects the container.
    pub reject: bool,
    /// The reason for a rejection, as a message for people.
    pub reason: String,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl Verdict {
    /// Creates a verdict that accepts the container.
    pub fn accept() -> Self {
        Self::default()
    }

    /// Creates a verdict that rejects the container, with a reason.
    pub fn reject(reason: impl Into<String>) -> Self {
        Self { reject: true, reason: reason.into(), unknown: Unknown::default() }
    }

    /// Returns the reason for a rejection, or `None` if the container is accepted. The reason can
    /// be empty.
    pub fn rejection(&self) -> Option<&str> {
        self.reject.then_some(&*self.reason)
    }
}
