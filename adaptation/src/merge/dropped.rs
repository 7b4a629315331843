use std::fmt::{self, Display, Formatter};

use nri_proto::Unread;

use super::Conflict;

/// A part of a reply that was ignored. The rest of the reply is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Fields of an unknown number. They cannot be claimed or forbidden.
    Unread(Unread),
    /// An update that conflicts with another plugin's claim, and that may fail.
    Update(Conflict),
    /// Device rules in an update of this container. Only a new container can get device rules.
    DeviceRules {
        /// The id of the container.
        container: String,
    },
}

impl Display for Dropped {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread(unread) => write!(f, "unknown fields {unread}"),
            Self::Update(conflict) => write!(f, "{conflict}"),
            Self::DeviceRules { container } => {
                write!(f, "device rules apply only to a new container, not to {container}")
            }
        }
    }
}
