use super::{Adjustment, Eviction, Unknown, Update};

/// What a plugin answers when a container is created (`CreateContainerResponse` on the wire).
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
    /// What changes in the container (`adjust` on the wire).
    pub adjustment: Option<Adjustment>,
    /// What changes in others (`update` on the wire).
    pub updates: Vec<Update>,
    /// What is to be stopped (`evict` on the wire).
    pub evictions: Vec<Eviction>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl From<Adjustment> for CreateReply {
    fn from(adjustment: Adjustment) -> Self {
        Self { adjustment: Some(adjustment), ..Self::default() }
    }
}

/// What a plugin answers when a container is updated (`UpdateContainerResponse` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateReply {
    /// What changes in the container and in others (`update` on the wire).
    pub updates: Vec<Update>,
    /// What is to be stopped (`evict` on the wire).
    pub evictions: Vec<Eviction>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl From<Vec<Update>> for UpdateReply {
    fn from(updates: Vec<Update>) -> Self {
        Self { updates, ..Self::default() }
    }
}

/// What a plugin answers when a container is stopped (`StopContainerResponse` on the wire).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopReply {
    /// What changes in others (`update` on the wire).
    pub updates: Vec<Update>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}

impl From<Vec<Update>> for StopReply {
    fn from(updates: Vec<Update>) -> Self {
        Self { updates, ..Self::default() }
    }
}
