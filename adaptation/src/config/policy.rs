//! The policy of each plugin: what the plugin may do, and what happens if the plugin is slow,
//! silent or absent.
//!
//! For each setting of a policy, the first of these sources that has a value decides:
//!
//! 1. the operator's table for this plugin, by index and name (`10-logger`);
//! 2. the operator's table for plugins of this name (`logger`);
//! 3. the operator's defaults for all plugins;
//! 4. the plugin's own declaration ([`Declared`]), if there is one for the setting and the operator
//!    honours declarations ([`Declarations`]);
//! 5. the built-in default, [`Policy::default`].
//!
//! A plugin claims its name itself. [`Policy::uids`], [`Policy::origin`] and [`Policies::unnamed`]
//! decide [whether a peer may be](Policies::check_identity) the plugin of that name. Declarations
//! have no influence on that decision.
//!
//! Only the operator decides whether a plugin is [required](Policy::required). If a required plugin
//! does not answer, requests fail, whatever other settings say. The one exception is a plugin in
//! shadow mode ([`Mode::Shadow`]), which is never required. An operator may set shadow mode and
//! `required` in the same table. In two different tables the settings are a
//! [contradiction](Policies::contradictions), and a file with a contradiction is refused.
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
pub use self::conflicts::{Contradiction, Obstacle, SettingRef};
pub use self::effective::{Effective, Origin};
pub(crate) use self::exemptions::annotation;
pub use self::exemptions::{BadAnnotation, Exemptions};
pub use self::fields::{Origins, Policy, PolicyRules};
pub use self::identity::{AllowedOrigin, Identity, NotPermitted, PluginOrigin, Uids, Unnamed};
pub use self::namespaces::{Namespaces, NoNamespace};
pub use self::plugin_key::{PluginKey, PluginKeyError};

/// The policies that an operator sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    /// The defaults for all plugins. A file may not set `required` or `validator` here. If a
    /// program does, they apply to each plugin that is connected. They name no plugin, so nothing
    /// is demanded of a plugin that is absent.
    pub defaults: PolicyRules,
    /// The settings of particular plugins, by name or by index and name. Where both have a value,
    /// the one for index and name is used.
    pub plugins: BTreeMap<PluginKey, PolicyRules>,
    /// Whether plugins that have no table in `plugins` are admitted.
    pub unnamed: Unnamed,
}

/// The declarations of a plugin about itself, made when the plugin is configured (`FailurePolicy`
/// on the wire).
///
/// A declaration can only switch a setting on: the wire cannot tell `false` from "not set".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Whether requests that the plugin does not answer should fail.
    pub fail_request: bool,
    /// Whether the plugin should stay connected when it does not answer.
    pub keep_connected: bool,
    /// Whether the plugin subscribes to validation. If the operator also lists the plugin as a
    /// validator or as required, the plugin stays connected when it does not answer, unless the
    /// operator sets `keep_connected`. Otherwise this field has no effect.
    pub validates: bool,
}

impl Policies {
    /// Returns the policy of a plugin, and the source of each setting.
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

    /// Returns the required plugins. A key is satisfied by any one plugin that it
    /// [matches](PluginKey::matches).
    ///
    /// [`Policies::defaults`] has no influence, because it names no plugin that could be absent.
    pub fn required(&self) -> impl Iterator<Item = &PluginKey> {
        self.named(|rules| rules.required == Some(true))
    }

    /// Returns the validators: the plugins without whose verdict no container is created. A key is
    /// satisfied by any one plugin that it matches.
    pub fn validators(&self) -> impl Iterator<Item = &PluginKey> {
        self.named(|rules| rules.validator == Some(true))
    }

    /// Returns whether some plugin may not see some pods.
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
    /// Returns the declaration in the form of an operator's settings.
    fn rules(self) -> PolicyRules {
        let Self { fail_request, keep_connected, validates: _ } = self;
        PolicyRules {
            on_timeout: fail_request.then_some(OnTimeout::Fail),
            keep_connected: keep_connected.then_some(true),
            ..PolicyRules::default()
        }
    }
}
