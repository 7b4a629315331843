//! Patterns for Kubernetes namespaces.

use std::fmt::{self, Display, Formatter};

use nri_proto::quote::quoted;
use toml::Value;

use super::Policy;
use crate::config::settings::Setting;

/// A set of Kubernetes namespaces, by name. A name that ends in `*` matches every namespace that
/// begins with the text before the `*`.
///
/// ```
/// use nri_adaptation::policy::Namespaces;
///
/// let namespaces = Namespaces::of(["default", "kube-*"])?;
/// assert!(namespaces.contains("kube-system"));
/// assert!(!namespaces.contains("shop"));
/// assert!(Namespaces::all().contains("shop"));
/// # Ok::<(), nri_adaptation::policy::NoNamespace>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces(Vec<String>);

/// A text that is not a valid name of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be the name of a namespace", quoted(.0))]
pub struct NoNamespace(pub String);

impl Namespaces {
    /// The namespace of Kubernetes' own pods.
    pub const SYSTEM: &'static str = "kube-system";

    /// Returns the set of all namespaces, which also contains pods without a namespace.
    #[must_use]
    pub fn all() -> Self {
        Self(vec!["*".to_owned()])
    }

    /// Returns the empty set.
    #[must_use]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns the set that contains [`Namespaces::SYSTEM`] alone.
    #[must_use]
    pub fn system() -> Self {
        Self(vec![Self::SYSTEM.to_owned()])
    }

    /// Creates a set from names, each of which may end in `*`.
    pub fn of<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Result<Self, NoNamespace> {
        let check = |name: String| if can_be(&name) { Ok(name) } else { Err(NoNamespace(name)) };
        names.into_iter().map(|name| check(name.into())).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether the set contains every namespace, and pods without a namespace.
    #[must_use]
    pub fn are_all(&self) -> bool {
        self.0.iter().any(|name| name == "*")
    }

    /// Returns whether the set contains a namespace.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        self.0.iter().any(|name| match name.strip_suffix('*') {
            Some(beginning) => namespace.starts_with(beginning),
            None => namespace == name,
        })
    }
}

impl Policy {
    /// Returns whether the plugin sees all pods. Such a plugin may change containers of every pod,
    /// as far as its permissions allow changes.
    pub(crate) fn sees_all(&self) -> bool {
        self.namespaces.are_all() && !self.allow.hears_nothing()
    }

    /// Returns whether the plugin sees the pods of a namespace. A plugin may not change what it
    /// does not see.
    pub(crate) fn sees(&self, namespace: &str) -> bool {
        self.namespaces.contains(namespace) && !self.allow.hears_nothing()
    }
}

/// Returns whether a name is a valid name of a Kubernetes namespace, or a prefix of one. Without
/// this check, a typing error would silently match no namespace.
fn can_be(name: &str) -> bool {
    const LONGEST: usize = 63;
    let beginning = name.strip_suffix('*');
    let letters = beginning.unwrap_or(name);
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_whole = beginning.is_some() || (!letters.is_empty() && !letters.ends_with('-'));
    letters.len() <= LONGEST && letters.bytes().all(is_allowed) && !letters.starts_with('-') && is_whole
}

impl Display for Namespaces {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if *self == Self::all() { f.write_str("all") } else { write!(f, "[{}]", self.0.join(" ")) }
    }
}

impl Setting for Namespaces {
    fn read(value: &Value) -> Result<Self, String> {
        let expected = "a list of namespaces, each of which may end in *";
        let names: Vec<String> = Setting::read(value).map_err(|_: String| expected.to_owned())?;
        Self::of(names).map_err(|error| format!("{expected}: {error}"))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}
