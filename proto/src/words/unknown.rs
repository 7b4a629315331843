use std::fmt;

use protobuf::UnknownFields;

/// The fields of a message that this version of the protocol does not know.
///
/// They cannot be read, only carried along: what came in with a word goes out with it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Unknown(pub(crate) UnknownFields);

impl Unknown {
    /// Says whether there is no such field.
    pub fn is_empty(&self) -> bool {
        self.0.iter().next().is_none()
    }
}

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter()).finish()
    }
}
