//! The rules of upstream's built-in validator, with upstream's messages. Its settings are
//! [`DefaultValidator`].
//!
//! Here, to remove a value is to adjust it. Upstream looks only at values that are set, and lets a
//! plugin remove any sysctl.

mod names;
mod objection;
mod required;
#[cfg(test)]
mod tests;

use nri_proto::{Container, Field, LinuxContainer, ProfileKind, Proposal, Verdict};

use self::objection::{Objection, Offence};
use crate::config::DefaultValidator;
use crate::merge::Touch;

impl DefaultValidator {
    /// The id of the validator in the list of plugins.
    pub const ID: &'static str = "00-default-validator";

    /// Judges the adjustments that plugins want in a new container.
    ///
    /// ```
    /// use nri_adaptation::config::DefaultValidator;
    /// use nri_proto::{PluginInstance, Proposal};
    ///
    /// let validator = DefaultValidator { required_plugins: vec!["topology".to_owned()], ..DefaultValidator::default() };
    /// let verdict = validator.validate(&Proposal::default());
    /// assert_eq!(verdict.rejection(), Some(r#"validation error: required plugin "topology" not present"#));
    ///
    /// let id: nri_proto::PluginId = "10-topology".parse()?;
    /// let plugins = vec![PluginInstance::from(&id)];
    /// assert_eq!(validator.validate(&Proposal { plugins, ..Proposal::default() }).rejection(), None);
    /// # Ok::<(), nri_proto::plugin_id::PluginIdError>(())
    /// ```
    #[must_use]
    pub fn validate(&self, proposal: &Proposal) -> Verdict {
        match self.check(proposal) {
            Ok(()) => Verdict::accept(),
            Err(objection) => Verdict::reject(objection.to_string()),
        }
    }

    /// Checks a proposal. The error is the first objection, in upstream's order.
    fn check(&self, proposal: &Proposal) -> Result<(), Objection> {
        let mut offences = Offence::all(proposal);
        let mut take = |field| offences.extract_if(.., |offence| offence.field == field).collect::<Vec<_>>();
        self.check_hooks(take(Field::OciHooks))?;
        self.check_seccomp(take(Field::SeccompPolicy), proposal.container.as_ref())?;
        if self.reject_namespace_adjustment {
            none(take(Field::Namespace), Objection::Namespaces)?;
        }
        required::check(self, proposal)?;
        if self.reject_sysctl_adjustment {
            none(take(Field::Sysctl), Objection::Sysctls)?;
        }
        Ok(())
    }

    fn check_hooks(&self, offences: Vec<Offence>) -> Result<(), Objection> {
        match offences.into_iter().next() {
            Some(offence) if self.reject_oci_hook_adjustment => Err(Objection::Hooks(offence)),
            _ => Ok(()),
        }
    }

    /// Checks adjustments of the seccomp policy. Which of them are forbidden depends on the profile
    /// that the container had before any plugin changed it.
    fn check_seccomp(&self, offences: Vec<Offence>, container: Option<&Container>) -> Result<(), Objection> {
        let linux = container.and_then(|container| container.linux.as_ref());
        let (is_forbidden, profile) = match linux.and_then(profile_kind) {
            None | Some(ProfileKind::Unconfined) => (self.reject_unconfined_seccomp_adjustment, " unconfined"),
            Some(ProfileKind::RuntimeDefault) => (self.reject_runtime_default_seccomp_adjustment, "runtime default"),
            Some(ProfileKind::Localhost) => (self.reject_custom_seccomp_adjustment, " custom"),
            // The settings have no option for a profile kind that is newer than they are.
            Some(ProfileKind::Unnamed(_)) => return Ok(()),
        };
        match offences.into_iter().next() {
            Some(offence) if is_forbidden => Err(Objection::Seccomp { offence, profile }),
            _ => Ok(()),
        }
    }
}

fn profile_kind(linux: &LinuxContainer) -> Option<ProfileKind> {
    linux.seccomp_profile.as_ref().map(|profile| profile.kind)
}

fn none(offences: Vec<Offence>, objection: impl FnOnce(Vec<Offence>) -> Objection) -> Result<(), Objection> {
    if offences.is_empty() { Ok(()) } else { Err(objection(offences)) }
}

impl Offence {
    /// Returns all adjusted fields of a proposal, ordered by field and key, so that equal proposals
    /// give equal messages.
    fn all(proposal: &Proposal) -> Vec<Self> {
        let Some(adjustment) = &proposal.adjustment else { return Vec::new() };
        let container = proposal.container.as_ref().map_or("", |container| &container.id);
        let offence = |touch: &Touch<'_>| {
            let owner = proposal.owners.as_ref().and_then(|owners| owners.owner(container, touch.field, touch.key));
            let plugins =
                owner.map_or_else(|| "unknown".to_owned(), |owner| owner.plugins().collect::<Vec<_>>().join(","));
            Self { field: touch.field, key: touch.key.to_owned(), plugins }
        };
        let mut offences: Vec<_> = Touch::of_adjustment(adjustment).iter().map(offence).collect();
        offences.sort();
        offences.dedup();
        offences
    }
}
