//! The pods that may run although a required plugin is missing.

use nri_proto::Pod;
use nri_proto::quote::quoted;

use super::Namespaces;

/// The pods that may run although a required plugin is missing. Without exemptions a node could not
/// start: the pod of a required plugin cannot wait for that plugin, and neither can the pods that
/// the node itself needs.
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
    /// The namespaces whose pods are exempt.
    pub namespaces: Namespaces,
    /// The annotation with which a pod declares itself exempt. Empty: no annotation exempts.
    pub annotation: String,
}

/// An annotation whose value is not a boolean. The error text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {key} annotation {}: {problem}", quoted(value))]
pub struct BadAnnotation {
    /// The key of the annotation.
    pub key: String,
    /// The value of the annotation.
    pub value: String,
    /// The cause.
    pub problem: String,
}

impl Exemptions {
    /// Returns whether a pod, or the container of that name in the pod, is exempt.
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

/// Returns the value of a pod's annotation for a container, or for the pod as a whole. As in
/// upstream, the value for the container has precedence over the value for the pod.
pub(crate) fn annotation<'p>(pod: &'p Pod, key: &str, container: Option<&str>) -> Option<&'p str> {
    let of_container = container.and_then(|name| pod.annotation(&format!("{key}/container.{name}")));
    of_container.or_else(|| pod.annotation(&format!("{key}/pod"))).or_else(|| pod.annotation(key))
}

/// Parses a boolean as Go does.
fn flag(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
