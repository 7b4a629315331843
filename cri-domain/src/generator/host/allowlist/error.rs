use nri_proto::quote::quoted;

use crate::generator::HostError;

/// Error for a change that [`Host::allow`](crate::generator::Host::allow) does not allow.
#[derive(Debug, thiserror::Error)]
pub enum AllowlistError {
    /// Runtimes or shims use the annotation as a setting.
    #[error("annotations {pattern} are settings of {of}: plugins may change those that Host::allow.annotations names")]
    Annotation {
        /// The pattern of the annotations that they use.
        pattern: &'static str,
        /// The programs that use the annotations.
        of: &'static str,
    },

    /// The kernel parameter belongs to no namespace, or to one that a container cannot have of its
    /// own.
    #[error("this is a parameter of the host: plugins may set those that Host::allow.sysctls names")]
    Sysctl,

    /// The kernel parameter belongs to a namespace that the container shares with the host.
    #[error(
        "the container shares the {kind} namespace of the host: plugins may set those parameters of it that \
         Host::allow.sysctls names"
    )]
    SharedNamespace {
        /// The kind of namespace, as in OCI.
        kind: &'static str,
    },

    /// The namespace of the kernel parameter could not be compared with that of the host.
    #[error(
        "could not tell the {kind} namespace {} from that of the host: plugins may set those parameters of it that \
         Host::allow.sysctls names",
        quoted(path)
    )]
    UnknownNamespace {
        /// The kind of namespace, as in OCI.
        kind: &'static str,
        /// The path of the namespace in the spec.
        path: String,
        /// The error from examining the namespace.
        source: HostError,
    },

    /// The plugin changes a namespace, and the spec sets a kernel parameter that would then belong
    /// to the host.
    #[error("the spec sets kernel parameter {} in this namespace", quoted(sysctl))]
    Moved {
        /// The name of the kernel parameter.
        sysctl: String,
        /// The reason why the parameter may not be set there.
        source: Box<Self>,
    },
}
