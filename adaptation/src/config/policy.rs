//! What becomes of a plugin that is slow, silent or absent, and of the requests that need it: as
//! data.
//!
//! On each axis the first word counts of
//!
//! 1. the operator about this plugin, by index and name (`10-logger`);
//! 2. the operator about plugins of this name (`logger`);
//! 3. the operator about all plugins;
//! 4. the plugin about itself, where it has a word ([`Declared`]) and the operator listens
//!    ([`Declarations`]);
//! 5. the default, [`Policy::default`].
//!
//! A plugin's name is its own claim. [`Policy::uids`], [`Policy::origin`] and [`Policies::unnamed`]
//! say [who may be](Policies::check_identity) a plugin of a name. Nothing that a plugin declares
//! has a part in that.
//!
//! Whether a plugin is [required](Policy::required) is the operator's word alone. One that is
//! required fails requests, whatever else is said: what an operator requires does not slide to
//! being skipped. The one exception is a plugin on trial ([`Mode::Shadow`]), which is required by
//! nobody; who means that says both in one table, and in two tables it is a
//! [contradiction](Policies::contradictions), with which no file is taken.
//!
//! ```
//! use nri_adaptation::policy::{Declared, OnTimeout, Origin, Policies, PolicyRules};
//!
//! let policies = Policies {
//!     defaults: PolicyRules { strikes: 5.try_into().ok(), ..PolicyRules::default() },
//!     plugins: [("topology".parse()?, PolicyRules { required: Some(true), ..PolicyRules::default() })].into(),
//!     ..Policies::default()
//! };
//! let effective = policies.effective(&"10-topology".parse()?, Declared::default());
//! assert_eq!(effective.policy.on_timeout, OnTimeout::Fail);
//! assert_eq!(effective.origins.on_timeout, Origin::Required);
//! assert_eq!(effective.policy.strikes.get(), 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod allowed;
mod choices;
mod conflicts;
mod effective;
mod exemptions;
mod fields;
mod identity;
mod namespaces;
mod plugin_key;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use nri_proto::PluginId;

pub use self::allowed::{Allowed, AllowedChanges, NotAllowed};
pub use self::choices::{Concurrency, Declarations, Mode, OnTimeout};
pub use self::conflicts::{Contradiction, Obstacle, Word};
pub use self::effective::{Effective, Origin};
pub(crate) use self::exemptions::annotation;
pub use self::exemptions::{BadAnnotation, Exemptions};
pub use self::fields::{Origins, Policy, PolicyRules};
pub use self::identity::{AllowedOrigin, Identity, NotPermitted, PluginOrigin, Uids, Unnamed};
pub use self::namespaces::{Namespaces, NoNamespace};
pub use self::plugin_key::{PluginKey, PluginKeyError};

/// What an operator says about plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// About all plugins.
    pub defaults: PolicyRules,
    /// About some, by name or by index and name. The latter comes first, axis by axis.
    pub plugins: BTreeMap<PluginKey, PolicyRules>,
    /// What becomes of plugins that have no table among those.
    pub unnamed: Unnamed,
}

/// What a plugin says about itself when it is configured (`FailurePolicy` on the wire).
///
/// A bit can only add: the wire has no way to tell false from nothing said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Requests that it does not answer should fail.
    pub fail_request: bool,
    /// Its connection should be kept when it does not answer.
    pub keep_connected: bool,
    /// It subscribes to validation. That alone decides nothing: only if the operator also says that
    /// it is a validator or required, it is kept connected, unless the operator says otherwise
    /// about that.
    pub validates: bool,
}

impl Policies {
    /// What holds for a plugin, and why.
    #[must_use]
    pub fn effective(&self, id: &PluginId, declared: Declared) -> Effective {
        let mut said = vec![];
        for (origin, key) in [(Origin::Id, id.clone().into()), (Origin::Name, PluginKey::of_name(id))] {
            said.extend(self.plugins.get(&key).map(|rules| (origin, rules)));
        }
        said.push((Origin::Defaults, &self.defaults));

        let rules = declared.rules();
        if Effective::of(&said).policy.declarations == Declarations::Honour {
            said.push((Origin::Declared, &rules));
        }
        let mut effective = Effective::of(&said);
        let is_listed = effective.policy.validator || effective.policy.required;
        if declared.validates && is_listed && effective.origins.keep_connected == Origin::BuiltIn {
            effective.policy.keep_connected = true;
            effective.origins.keep_connected = Origin::Validates;
        }
        if effective.policy.longest_pause < effective.policy.first_pause {
            effective.policy.longest_pause = effective.policy.first_pause;
            effective.origins.longest_pause = effective.origins.first_pause;
        }
        if effective.policy.required {
            effective.policy.on_timeout = OnTimeout::Fail;
            effective.origins.on_timeout = Origin::Required;
        }
        effective
    }

    /// The plugins that must be there. Each key stands for any one plugin that it
    /// [matches](PluginKey::matches).
    ///
    /// [`Policies::defaults`] has no part in this: it names nobody who could be absent.
    pub fn required(&self) -> impl Iterator<Item = &PluginKey> {
        self.named(|rules| rules.required == Some(true))
    }

    /// The plugins without whose verdict no container is created. Each key stands for any one
    /// plugin that it matches.
    pub fn validators(&self) -> impl Iterator<Item = &PluginKey> {
        self.named(|rules| rules.validator == Some(true))
    }

    /// Whether there may be pods that a plugin does not see.
    pub(crate) fn hide_any(&self) -> bool {
        let hides = |rules: &PolicyRules| {
            let namespaces = rules.namespaces.as_ref().is_some_and(|namespaces| !namespaces.are_all());
            namespaces || rules.allow.as_ref().is_some_and(Allowed::hears_nothing)
        };
        hides(&self.defaults) || self.plugins.values().any(hides)
    }

    fn named(&self, has: impl Fn(&PolicyRules) -> bool) -> impl Iterator<Item = &PluginKey> {
        self.plugins.iter().filter(move |(_, rules)| has(rules)).map(|(key, _)| key)
    }
}

impl Declared {
    /// The same, as if an operator had said it.
    fn rules(self) -> PolicyRules {
        let Self { fail_request, keep_connected, validates: _ } = self;
        PolicyRules {
            on_timeout: fail_request.then_some(OnTimeout::Fail),
            keep_connected: keep_connected.then_some(true),
            ..PolicyRules::default()
        }
    }
}
