//! The settings of upstream's default validator.

use super::upstream::Dialect;
use crate::config::settings::Section;

macro_rules! validator {
    ($($(#[doc = $doc:literal])+ $key:ident ($crio:literal): $kind:ty;)+) => {
        /// What upstream's built-in `00-default-validator` refuses. The keys are upstream's; CRI-O
        /// has longer ones.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct DefaultValidator {
            $($(#[doc = $doc])+ pub $key: $kind,)+
        }

        impl DefaultValidator {
            /// The keys, as containerd and as CRI-O write them.
            pub(super) const KEYS: &'static [(&'static str, &'static str)] = &[$((stringify!($key), $crio)),+];

            pub(super) fn read(section: &mut Section<'_>, dialect: Dialect) -> Self {
                Self { $($key: section.take(dialect.choose((stringify!($key), $crio))).unwrap_or_default(),)+ }
            }
        }
    };
}

validator! {
    /// Whether it is there at all.
    enable ("nri_enable_default_validator"): bool;
    /// Refuses OCI hooks.
    reject_oci_hook_adjustment ("nri_validator_reject_oci_hook_adjustment"): bool;
    /// Refuses to replace the runtime's default seccomp policy.
    reject_runtime_default_seccomp_adjustment ("nri_validator_reject_runtime_default_seccomp_adjustment"): bool;
    /// Refuses a seccomp policy where there was none.
    reject_unconfined_seccomp_adjustment ("nri_validator_reject_unconfined_seccomp_adjustment"): bool;
    /// Refuses to replace a pod's own seccomp policy.
    reject_custom_seccomp_adjustment ("nri_validator_reject_custom_seccomp_adjustment"): bool;
    /// Refuses changes of namespaces.
    reject_namespace_adjustment ("nri_validator_reject_namespace_adjustment"): bool;
    /// Refuses changes of sysctls.
    reject_sysctl_adjustment ("nri_validator_reject_sysctl_adjustment"): bool;
    /// Refuses containers while one of these is absent, by name or by index and name.
    required_plugins ("nri_validator_required_plugins"): Vec<String>;
    /// The annotation with which a pod tolerates that; none if it is empty.
    tolerate_missing_plugins_annotation ("nri_validator_tolerate_missing_plugins_annotation"): String;
}
