use super::Unknown;

/// Something mounted in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Where it is in the container.
    pub destination: String,
    /// The kind of file system, such as `bind` or `tmpfs`.
    pub kind: String,
    /// What is mounted.
    pub source: String,
    /// The options, as mount(8) has them.
    pub options: Vec<String>,
    /// Fields that we do not know yet.
    pub unknown: Unknown,
}
