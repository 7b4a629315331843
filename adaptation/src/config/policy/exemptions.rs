//! Which pods may run although a plugin is missing.

use nri_proto::Pod;
use nri_proto::quote::quoted;

use super::Namespaces;

/// Pods that tolerate that a plugin is missing. There must be some: the pod of a required plugin
/// cannot wait for itself, and those that a node needs to be one cannot wait for it either.
///
/// ```
/// use nri_adaptation::policy::{Exemptions, Namespaces};
/// use nri_proto::Pod;
///
/// let exemptions = Exemptions { namespaces: Namespaces::system(), annotation: "tolerate.example.org".to_owned() };
/// let pod = |namespace: &str| Pod { namespace: namespace.to_owned(), ..Pod::default() };
/// assert!(exemptions.cover(&pod("kube-system"), None)?);
/// assert!(!exemptions.cover(&pod("shop"), None)?);
///
/// let annotations = [("tolerate.example.org/container.cart".to_owned(), "true".to_owned())].into();
/// let pod = Pod { annotations, ..pod("shop") };
/// assert!(exemptions.cover(&pod, Some("cart"))?);
/// assert!(!exemptions.cover(&pod, Some("till"))?);
/// # Ok::<(), nri_adaptation::policy::BadAnnotation>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemptions {
    /// Where they are.
    pub namespaces: Namespaces,
    /// The annotation with which pods say so themselves; empty if there is none.
    pub annotation: String,
}

/// An annotation that means nothing. It reads as upstream's error does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {key} annotation {}: {problem}", quoted(value))]
pub struct BadAnnotation {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Exemptions {
    /// Says whether a pod, or the container of that name in it, is exempt.
    pub fn cover(&self, pod: &Pod, container: Option<&str>) -> Result<bool, BadAnnotation> {
        if self.namespaces.contains(&pod.namespace) {
            return Ok(true);
        }
        let said = (!self.annotation.is_empty()).then(|| annotation(pod, &self.annotation, container)).flatten();
        said.map_or(Ok(false), |value| {
            flag(value).ok_or_else(|| BadAnnotation {
                key: self.annotation.clone(),
                value: value.to_owned(),
                problem: format!("strconv.ParseBool: parsing {}: invalid syntax", quoted(value)),
            })
        })
    }
}

/// Returns what a pod's annotation says about a container, or about the pod as a whole, by
/// upstream's rules: what is said about the container comes first, then what is said about the pod.
pub(crate) fn annotation<'p>(pod: &'p Pod, key: &str, container: Option<&str>) -> Option<&'p str> {
    let of_container = container.and_then(|name| pod.annotation(&format!("{key}/container.{name}")));
    of_container.or_else(|| pod.annotation(&format!("{key}/pod"))).or_else(|| pod.annotation(key))
}

/// Reads what Go takes for yes or no.
fn flag(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
