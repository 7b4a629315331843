//! The settings of upstream's default validator.

use super::upstream::Dialect;
use crate::config::settings::Section;

macro_rules! validator {
    ($($(#[doc = $doc:literal])+ $key:ident ($crio:literal): $kind:ty;)+) => {
        /// The settings of upstream's built-in `00-default-validator`: which changes of plugins it
        /// rejects. The keys are those of containerd; CRI-O has longer ones.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct DefaultValidator {
            $($(#[doc = $doc])+ pub $key: $kind,)+
        }

        impl DefaultValidator {
            /// The names of each key: containerd's and CRI-O's.
            pub(super) const KEYS: &'static [(&'static str, &'static str)] = &[$((stringify!($key), $crio)),+];

            pub(super) fn read(section: &mut Section<'_>, dialect: Dialect) -> Self {
                Self { $($key: section.take(dialect.choose((stringify!($key), $crio))).unwrap_or_default(),)+ }
            }
        }
    };
}

validator! {
    /// Whether the validator is enabled.
    enable ("nri_enable_default_validator"): bool;
    /// Rejects OCI hooks.
    reject_oci_hook_adjustment ("nri_validator_reject_oci_hook_adjustment"): bool;
    /// Rejects changes to the runtime's default seccomp policy.
    reject_runtime_default_seccomp_adjustment ("nri_validator_reject_runtime_default_seccomp_adjustment"): bool;
    /// Rejects a seccomp policy for a container that would run without one.
    reject_unconfined_seccomp_adjustment ("nri_validator_reject_unconfined_seccomp_adjustment"): bool;
    /// Rejects changes to a seccomp policy that the pod brings itself.
    reject_custom_seccomp_adjustment ("nri_validator_reject_custom_seccomp_adjustment"): bool;
    /// Rejects changes of namespaces.
    reject_namespace_adjustment ("nri_validator_reject_namespace_adjustment"): bool;
    /// Rejects changes of sysctls.
    reject_sysctl_adjustment ("nri_validator_reject_sysctl_adjustment"): bool;
    /// Rejects the creation of containers while one of these plugins is absent. Each entry is a
    /// name, or an index and a name.
    required_plugins ("nri_validator_required_plugins"): Vec<String>;
    /// The annotation with which a pod tolerates the absence of a required plugin. Empty: no such
    /// annotation.
    tolerate_missing_plugins_annotation ("nri_validator_tolerate_missing_plugins_annotation"): String;
}
