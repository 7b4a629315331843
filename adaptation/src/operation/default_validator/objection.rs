use std::fmt::{self, Display, Formatter};

use nri_proto::Field;
use nri_proto::quote::quoted;
use thiserror::Error;

use crate::config::policy::BadAnnotation;

/// A field that is adjusted, and the plugins that adjust it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Offence {
    pub(super) field: Field,
    pub(super) key: String,
    /// The names of the plugins, separated by commas.
    pub(super) plugins: String,
}

/// The reason why a container must not be created. The messages are upstream's, including their
/// blanks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Objection {
    #[error("validation error: plugin{} {} attempted restricted OCI hook injection", plural(&.0.plugins), quoted(&.0.plugins))]
    Hooks(Offence),
    #[error("validation error: plugin {} attempted restricted {profile} seccomp policy adjustment", offence.plugins)]
    Seccomp { offence: Offence, profile: &'static str },
    #[error("validation error: attempted restricted namespace adjustment by plugin(s) {}", list(.0, by_namespace))]
    Namespaces(Vec<Offence>),
    #[error("validation error: attempted restricted sysctl adjustment by plugin(s) {}", list(.0, by))]
    Sysctls(Vec<Offence>),
    #[error("validation error: required plugin{} {} not present", if .0.len() == 1 { "" } else { "s" }, quoted(&.0.join(",")))]
    Missing(Vec<String>),
    #[error(transparent)]
    Annotation(#[from] BadAnnotation),
}

fn plural(names: &str) -> &'static str {
    if names.contains(',') { "s" } else { "" }
}

fn by(offence: &Offence, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(&offence.plugins)
}

fn by_namespace(offence: &Offence, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{} (namespace {})", quoted(&offence.plugins), quoted(&offence.key))
}

fn list(offences: &[Offence], show: fn(&Offence, &mut Formatter<'_>) -> fmt::Result) -> impl Display {
    fmt::from_fn(move |f| {
        for (i, offence) in offences.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            show(offence, f)?;
        }
        Ok(())
    })
}
