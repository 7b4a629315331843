use nri_proto::quote::quoted;

use crate::generator::HostError;

/// Why a plugin may not change something unless the runtime allows it in [`Host::allow`](crate::generator::Host::allow).
#[derive(Debug, thiserror::Error)]
pub enum AllowlistError {
    /// Runtimes or shims act on the annotation.
    #[error("annotations {pattern} are settings of {of}: plugins may change those that Host::allow.annotations names")]
    Annotation {
        /// Which annotations they act on.
        pattern: &'static str,
        /// Who acts on them.
        of: &'static str,
    },

    /// The kernel parameter belongs to no namespace, or to one that containers cannot have for themselves.
    #[error("this is a parameter of the host: plugins may set those that Host::allow.sysctls names")]
    Sysctl,

    /// The kernel parameter belongs to a namespace that the container shares with the host.
    #[error(
        "the container shares the {kind} namespace of the host: plugins may set those parameters of it that \
         Host::allow.sysctls names"
    )]
    SharedNamespace {
        /// The kind of namespace, as OCI calls it.
        kind: &'static str,
    },

    /// The kernel parameter belongs to a namespace that may be the host's.
    #[error(
        "could not tell the {kind} namespace {} from that of the host: plugins may set those parameters of it that \
         Host::allow.sysctls names",
        quoted(path)
    )]
    UnknownNamespace {
        /// The kind of namespace, as OCI calls it.
        kind: &'static str,
        /// The file that the spec names.
        path: String,
        /// What happened.
        source: HostError,
    },

    /// The spec sets a kernel parameter in the namespace that the plugin would replace.
    #[error("kernel parameter {} of the container would be set there", quoted(sysctl))]
    Moved {
        /// The kernel parameter.
        sysctl: String,
        /// Why it may not be set there.
        source: Box<Self>,
    },
}
