//! Plugins' replies to requests.

use super::{Adjustment, Eviction, Unknown, Update};

/// The reply of a plugin to the creation of a container (`CreateContainerResponse` on the wire).
///
/// ```
/// use nri_proto::{CreateReply, Eviction, api};
///
/// let room = Eviction { container_id: "9a27".to_owned(), ..Eviction::default() };
/// let reply = CreateReply { evictions: vec![room], ..CreateReply::default() };
///
/// let message = api::CreateContainerResponse::from(reply.clone());
/// assert_eq!(CreateReply::from(message), reply);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateReply {
    /// The changes to the container (`adjust` on the wire).
    pub adjustment: Option<Adjustment>,
    /// The updates of other containers (`update` on the wire).
    pub updates: Vec<Update>,
    /// The containers to stop (`evict` on the wire).
    pub evictions: Vec<Eviction>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl From<Adjustment> for CreateReply {
    fn from(adjustment: Adjustment) -> Self {
        Self { adjustment: Some(adjustment), ..Self::default() }
    }
}

/// The reply of a plugin to the update of a container (`UpdateContainerResponse` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateReply {
    /// The updates of this and other containers (`update` on the wire).
    pub updates: Vec<Update>,
    /// The containers to stop (`evict` on the wire).
    pub evictions: Vec<Eviction>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl From<Vec<Update>> for UpdateReply {
    fn from(updates: Vec<Update>) -> Self {
        Self { updates, ..Self::default() }
    }
}

/// The reply of a plugin to the stop of a container (`StopContainerResponse` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopReply {
    /// The updates of other containers (`update` on the wire).
    pub updates: Vec<Update>,
    /// Fields that this version of the protocol does not know.
    pub unknown: Unknown,
}

impl From<Vec<Update>> for StopReply {
    fn from(updates: Vec<Update>) -> Self {
        Self { updates, ..Self::default() }
    }
}
