//! The changes that plugins may make although runtimes, shims or the host act on them.
//!
//! Files, lowest first:
//!
//! - `error.rs` has the error for a change that is not allowed.
//! - `annotations.rs` lists the annotations that runtimes and shims use as settings.
//! - `sysctl.rs` decides which kernel parameters belong to the host.

mod annotations;
mod error;
mod sysctl;

pub(in crate::generator) use self::annotations::check_annotation;
pub use self::error::AllowlistError;
pub(in crate::generator) use self::sysctl::{check_sysctl, namespace_of};

/// The annotations and kernel parameters that plugins may change although runtimes, shims or the
/// host act on them. The default is empty.
///
/// An entry is a name, or a part of a name with `*` before or after it: `io.katacontainers.*`,
/// `*.crio.io`. `*` alone allows everything. Within a name, `*` has no special meaning.
///
/// ```
/// use cri_domain::generator::Host;
/// use cri_domain::generator::host::Allowlist;
///
/// // Plugins size the virtual machines of Kata, and raise one parameter of the host.
/// let allow = Allowlist {
///     annotations: vec!["io.katacontainers.config.hypervisor.*".to_owned()],
///     sysctls: vec!["vm.max_map_count".to_owned()],
/// };
/// let host = Host { allow, ..Host::of_this_machine() };
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowlist {
    /// Annotations that runtimes and shims use as settings.
    pub annotations: Vec<String>,
    /// Kernel parameters of the host. They are allowed in all containers, whatever their
    /// namespaces.
    pub sysctls: Vec<String>,
}

impl Allowlist {
    /// Allows every annotation and every kernel parameter, as Go's generator does without filters.
    pub fn everything() -> Self {
        let all = vec!["*".to_owned()];
        Self { annotations: all.clone(), sysctls: all }
    }

    pub(super) fn has_annotation(&self, key: &str) -> bool {
        self.annotations.iter().any(|pattern| matches(pattern, key))
    }

    pub(super) fn has_sysctl(&self, name: &str) -> bool {
        let dotted = |name: &str| name.replace('/', ".");
        self.sysctls.iter().any(|pattern| matches(&dotted(pattern), &dotted(name)))
    }
}

/// Returns whether a name matches a pattern, which may begin or end with `*`.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(""), _) => true,
        (Some(inner), Some(_)) => name.contains(inner.strip_suffix('*').unwrap_or(inner)),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_or_a_part_of_one() {
        for (pattern, name) in [
            ("bundle", "bundle"),
            ("io.containerd.*", "io.containerd.runc.v2.group"),
            ("*.crio.io", "devices.crio.io"),
            ("*.crio.io/*", "seccomp-profile.crio.io/app"),
            ("*", "anything"),
            ("**", ""),
        ] {
            assert!(matches(pattern, name), "{pattern} does not match {name}");
        }
        for (pattern, name) in [
            ("bundle", "bundled"),
            ("", "bundle"),
            ("io.containerd.*", "io.containerd"),
            ("io.containerd.*", "x.io.containerd.a"),
            ("*.crio.io", "devices.crio.io/app"),
            ("io.*.group", "io.containerd.group"),
        ] {
            assert!(!matches(pattern, name), "{pattern} matches {name}");
        }
    }
}
