//! Contradictory policy settings of an operator.

use std::fmt::{self, Display, Formatter};

use nri_proto::Event;

use super::AllowedOrigin;
use super::Mode;
use super::PluginKey;
use super::PluginOrigin;
use super::Policies;
use super::PolicyRules;
use super::Uids;

/// Two policy settings for the same plugin, of which one demands something and the other cancels
/// the demand. Each setting is valid by itself, so the contradiction would otherwise go unnoticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The setting that demands something: that the plugin is present, that the plugin validates,
    /// or that certain users may connect as the plugin.
    pub demand: SettingRef,
    /// The setting that cancels the demand.
    pub obstacle: SettingRef,
    /// Why the demand is cancelled.
    pub reason: Obstacle,
}

/// One setting of an operator: the table and the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRef {
    /// The plugins of the table; `None` for the defaults of all plugins.
    pub about: Option<PluginKey>,
    /// The key of the setting.
    pub axis: &'static str,
}

/// Why a demand has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The plugin is in shadow mode, and such a plugin is never required. Both settings in one
    /// table are no contradiction: the operator means it.
    ShadowMode,
    /// The plugin may not see the validation event, so it never gives a verdict.
    CannotValidate,
    /// No process may connect as the plugin, so the setting of users has no effect.
    NobodyConnects,
}

impl Policies {
    /// Returns the contradictions: the settings that cancel [`required`](super::Policy::required),
    /// [`validator`](super::Policy::validator) or [`uids`](super::Policy::uids).
    ///
    /// A file with a contradiction is refused. Contradictions in policies that do not come from a
    /// file are logged. In that case a plugin in shadow mode is not required, and a validator that
    /// cannot validate counts as missing.
    ///
    /// ```
    /// use nri_adaptation::policy::{Mode, Policies, PolicyRules};
    ///
    /// let required = PolicyRules { required: Some(true), ..PolicyRules::default() };
    /// let on_trial = PolicyRules { mode: Some(Mode::Shadow), ..PolicyRules::default() };
    /// let plugins = [("guard".parse()?, required), ("10-guard".parse()?, on_trial)].into();
    /// let found = Policies { plugins, ..Policies::default() }.contradictions();
    /// assert_eq!(
    ///     found[0].to_string(),
    ///     "plugins.10-guard.mode puts the plugin in shadow mode, so plugins.guard.required has no effect"
    /// );
    /// # Ok::<(), nri_adaptation::policy::PluginKeyError>(())
    /// ```
    #[must_use]
    pub fn contradictions(&self) -> Vec<Contradiction> {
        let mut found = Vec::new();
        for key in self.plugins.keys() {
            let layers = self.layers(key);
            for contradiction in
                [on_trial(&layers), cannot_validate(&layers), nobody_connects(&layers)].into_iter().flatten()
            {
                // A contradiction in the table of a name appears again for each index of that name.
                if !found.contains(&contradiction) {
                    found.push(contradiction);
                }
            }
        }
        found
    }

    /// Returns the tables that apply to the plugins of a key, in the order of precedence.
    pub(crate) fn layers(&self, key: &PluginKey) -> Vec<Layer<'_>> {
        let tables = [Some(key.clone()), key.name()].into_iter().flatten();
        let said = tables.filter_map(|about| self.plugins.get(&about).map(|rules| Layer { about: Some(about), rules }));
        said.chain([Layer { about: None, rules: &self.defaults }]).collect()
    }
}

/// The settings of one table.
pub(crate) struct Layer<'p> {
    about: Option<PluginKey>,
    pub(crate) rules: &'p PolicyRules,
}

impl Layer<'_> {
    fn word(&self, axis: &'static str) -> SettingRef {
        SettingRef { about: self.about.clone(), axis }
    }
}

type DemandOf = (&'static str, fn(&PolicyRules) -> Option<bool>);
const REQUIRED: DemandOf = ("required", |rules| rules.required);
const VALIDATOR: DemandOf = ("validator", |rules| rules.validator);

fn on_trial(layers: &[Layer<'_>]) -> Option<Contradiction> {
    let (trial, mode) = first(layers, |rules| rules.mode)?;
    let is_elsewhere = |layer: &Layer<'_>| layer.about != trial.about;
    let demand = [REQUIRED, VALIDATOR].into_iter().find_map(|demand| demanded(layers, demand, is_elsewhere))?;
    let obstacle = trial.word("mode");
    (mode == Mode::Shadow).then_some(Contradiction { demand, obstacle, reason: Obstacle::ShadowMode })
}

fn cannot_validate(layers: &[Layer<'_>]) -> Option<Contradiction> {
    let (blind, is_allowed) = first(layers, |rules| {
        rules.allow.as_ref().map(|allow| allow.allows_event(Event::ValidateContainerAdjustment))
    })?;
    let demand = demanded(layers, VALIDATOR, |_| true)?;
    let obstacle = blind.word("allow");
    (!is_allowed).then_some(Contradiction { demand, obstacle, reason: Obstacle::CannotValidate })
}

/// Finds a table that sets which users may connect, and also that no process may connect. In two
/// different tables the settings are no contradiction, because each may be about other plugins.
fn nobody_connects(layers: &[Layer<'_>]) -> Option<Contradiction> {
    let (from, origin) = first(layers, |rules| rules.origin)?;
    let (users, uids) = first(layers, |rules| rules.uids.clone())?;
    let is_senseless = !matches!(origin, AllowedOrigin::Any | AllowedOrigin::Only(PluginOrigin::Connected))
        && uids != Uids::Any
        && from.about == users.about
        && from.about.is_some();
    let (demand, obstacle) = (users.word("uids"), from.word("origin"));
    is_senseless.then_some(Contradiction { demand, obstacle, reason: Obstacle::NobodyConnects })
}

/// Returns the setting that demands something, unless the setting with precedence says no.
fn demanded(layers: &[Layer<'_>], (axis, said): DemandOf, is_meant: impl Fn(&Layer<'_>) -> bool) -> Option<SettingRef> {
    let (_, true) = first(layers, said)? else { return None };
    layers.iter().find(|layer| said(layer.rules) == Some(true) && is_meant(layer)).map(|layer| layer.word(axis))
}

fn first<'l, 'p, T>(layers: &'l [Layer<'p>], said: impl Fn(&PolicyRules) -> Option<T>) -> Option<(&'l Layer<'p>, T)> {
    layers.iter().find_map(|layer| Some((layer, said(layer.rules)?)))
}

impl Display for Contradiction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { demand, obstacle, reason } = self;
        reason.tell(f, obstacle, demand)
    }
}

impl Obstacle {
    /// Writes the contradiction as a sentence.
    pub(crate) fn tell(self, f: &mut Formatter<'_>, obstacle: impl Display, demand: impl Display) -> fmt::Result {
        match self {
            Self::ShadowMode => {
                write!(f, "{obstacle} puts the plugin in shadow mode, so {demand} has no effect")
            }
            Self::CannotValidate => {
                write!(
                    f,
                    "{obstacle} hides ValidateContainerAdjustment from the plugin, so {demand} cannot be satisfied"
                )
            }
            Self::NobodyConnects => {
                write!(f, "{obstacle} lets no process connect as the plugin, so {demand} has no effect")
            }
        }
    }
}

impl SettingRef {
    /// Returns the path of the setting, beginning at the NRI table.
    pub(crate) fn keys(&self) -> Vec<&str> {
        match &self.about {
            Some(key) => vec!["plugins", key.as_str(), self.axis],
            None => vec!["plugin_defaults", self.axis],
        }
    }
}

impl Display for SettingRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.keys().join("."))
    }
}
