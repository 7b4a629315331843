use std::fmt::{self, Display, Formatter};

use nri_proto::Unread;

use super::Conflict;

/// Something in a reply that was not used. The reply counts without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Fields that we do not know: nobody could claim or forbid them.
    Unread(Unread),
    /// An update that is in conflict, and may fail.
    Update(Conflict),
    /// Rules for devices in an update of this container: only a new container gets any.
    DeviceRules {
        /// The container.
        container: String,
    },
}

impl Display for Dropped {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread(unread) => write!(f, "nobody knows {unread}"),
            Self::Update(conflict) => write!(f, "{conflict}"),
            Self::DeviceRules { container } => {
                write!(f, "only a new container gets rules for devices, not {container}")
            }
        }
    }
}
