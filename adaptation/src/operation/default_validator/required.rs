//! The check that all required plugins were consulted.

use std::collections::HashSet;

use nri_proto::{PluginInstance, Pod, Proposal};

use super::names;
use super::objection::Objection;
use crate::config::DefaultValidator;
use crate::config::policy::{BadAnnotation, Exemptions, Namespaces, annotation};

/// The annotation with which a pod requires plugins of its own.
const REQUIRED_PLUGINS: &str = "required-plugins.noderesource.dev";

pub(super) fn check(validator: &DefaultValidator, proposal: &Proposal) -> Result<(), Objection> {
    let container = proposal.container.as_ref().map(|container| &*container.name);
    let mut required = validator.required_plugins.clone();
    if let Some(pod) = &proposal.pod {
        // Upstream has no exempt namespaces, and these settings are upstream's.
        let annotation = validator.tolerate_missing_plugins_annotation.clone();
        if (Exemptions { namespaces: Namespaces::none(), annotation }).cover(pod, container)? {
            return Ok(());
        }
        required.extend(annotated(pod, container)?);
    }
    let missing = missing(required, &proposal.plugins);
    if missing.is_empty() { Ok(()) } else { Err(Objection::Missing(missing)) }
}

fn annotated(pod: &Pod, container: Option<&str>) -> Result<Vec<String>, BadAnnotation> {
    let Some(value) = annotation(pod, REQUIRED_PLUGINS, container) else { return Ok(Vec::new()) };
    names::read(value).map_err(|error| BadAnnotation {
        key: REQUIRED_PLUGINS.to_owned(),
        value: value.to_owned(),
        problem: error.to_string(),
    })
}

/// Returns the required plugins that were not consulted. A plugin may be required by its name, or
/// by its index and name.
fn missing(mut required: Vec<String>, plugins: &[PluginInstance]) -> Vec<String> {
    let ids = plugins.iter().map(|plugin| format!("{}-{}", plugin.index, plugin.name));
    let present: HashSet<_> = plugins.iter().map(|plugin| plugin.name.clone()).chain(ids).collect();
    required.retain(|name| !present.contains(name));
    required
}
