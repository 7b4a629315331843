//! Reports which required plugins are missing.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use nri_proto::{Event, PluginId};
use thiserror::Error;
use tokio::time::timeout;

use crate::adaptation::Adaptation;
use crate::api::health::State;
use crate::operation::shared::Shared;
use crate::session::roster::{Participant, Roster};

/// A plugin that is required, and is absent or does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The plugin as the operator calls it: by name, or by index and name.
    pub plugin: String,
    /// The setting that requires the plugin.
    pub demand: Demand,
    /// Why the plugin counts as missing.
    pub absence: Absence,
}

/// The setting that requires a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The operator [requires](crate::config::policy::Policy::required) the plugin.
    Required,
    /// The operator requires the [verdict](crate::config::policy::Policy::validator) of the plugin.
    Validator,
    /// The [default validator](crate::config::DefaultValidator::required_plugins) requires the
    /// plugin.
    DefaultValidator,
}

/// Why a required plugin counts as missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// No plugin of this name is connected.
    Absent,
    /// The plugin has registered, and has not joined yet.
    Joining,
    /// The plugin has joined, and is skipped because of its health state.
    State(State),
    /// The plugin has joined, and did not subscribe to validation or is not permitted to.
    NoValidator,
}

/// Required plugins were missing until the time limit expired.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("plugins are missing: {}", list(missing))]
pub struct NotReady {
    /// The plugins that are missing.
    pub missing: Vec<Missing>,
}

impl Adaptation {
    /// Returns the required plugins that are absent or not [active](State::Active). While plugins
    /// are missing, containers cannot be created, except in pods that are exempt.
    ///
    /// A plugin that the operator requires counts as missing if any plugin of its name is not
    /// active, since requests fail for each of them. A plugin that the default validator requires
    /// counts as missing if no plugin of its name is active. A plugin in shadow mode is never
    /// required.
    ///
    /// ```
    /// # use nri_adaptation::Adaptation;
    /// fn is_ready(nri: &Adaptation) -> bool {
    ///     nri.missing().iter().inspect(|missing| println!("{missing}")).next().is_none()
    /// }
    /// ```
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        missing(&self.shared, &self.shared.roster())
    }

    /// Waits until no plugin is [missing](Adaptation::missing), for at most `limit`.
    ///
    /// # Errors
    ///
    /// The plugins that are missing when the time limit expires or the adaptation is stopped.
    pub async fn ready(&self, limit: Duration) -> Result<(), NotReady> {
        // The plugins that are missing tell whether the wait was successful.
        let _ = timeout(limit, self.shared.services.stopping.run_until_cancelled(self.complete())).await;
        match self.missing() {
            missing if missing.is_empty() => Ok(()),
            missing => Err(NotReady { missing }),
        }
    }

    async fn complete(&self) {
        let mut happenings = self.watch_plugins();
        loop {
            // A reload that changes no plugin's policy publishes no event, but notifies `arrived`.
            let arrived = self.shared.arrived.notified();
            if self.missing().is_empty() {
                return;
            }
            tokio::select! {
                () = arrived => {}
                // Missed events do not matter, because the loop checks the current state.
                _ = happenings.recv() => {}
            }
        }
    }
}

fn missing(shared: &Shared, roster: &Roster) -> Vec<Missing> {
    let config = roster.config();
    let mut found = Vec::new();
    let mut look = |plugin: &str, demand: Demand, absence: Option<Absence>| {
        found.extend(absence.map(|absence| Missing { plugin: plugin.to_owned(), demand, absence }));
    };
    for key in config.requirements.required() {
        let states = states(roster, |entry| key.matches(&entry.id));
        look(key.as_str(), Demand::Required, absent(shared, &states, |id| key.matches(id)).or_else(|| any(&states)));
    }
    for key in config.requirements.validators() {
        let all = states(roster, |entry| key.matches(&entry.id));
        let validators = states(roster, |entry| key.matches(&entry.id) && validates(entry));
        let no_validator = || validators.is_empty().then_some(Absence::NoValidator);
        let absence = absent(shared, &all, |id| key.matches(id)).or_else(no_validator).or_else(|| any(&validators));
        look(key.as_str(), Demand::Validator, absence);
    }
    for name in config.default_validator().into_iter().flat_map(|validator| &validator.required_plugins) {
        let is_called = |id: &PluginId| name == id.as_str() || name == id.name();
        let states = states(roster, |entry| is_called(&entry.id));
        let none = || if states.contains(&State::Active) { None } else { any(&states) };
        look(name, Demand::DefaultValidator, absent(shared, &states, is_called).or_else(none));
    }
    found
}

/// Returns the states of the plugins in the roster that match.
fn states(roster: &Roster, is_meant: impl Fn(&Participant) -> bool) -> Vec<State> {
    roster.entries().iter().filter(|entry| is_meant(entry)).map(|entry| entry.state()).collect()
}

fn validates(entry: &Participant) -> bool {
    entry.terms.events.contains(Event::ValidateContainerAdjustment)
}

/// Returns why the plugin is missing if no plugin in the roster matches: it is joining, or absent.
fn absent(shared: &Shared, states: &[State], is_meant: impl Fn(&PluginId) -> bool) -> Option<Absence> {
    let why = || if shared.is_arriving(is_meant) { Absence::Joining } else { Absence::Absent };
    states.is_empty().then(why)
}

/// Returns why the plugin is missing if one of the matching plugins is not active.
fn any(states: &[State]) -> Option<Absence> {
    states.iter().find(|state| **state != State::Active).map(|state| Absence::State(*state))
}

fn list(missing: &[Missing]) -> String {
    missing.iter().map(Missing::to_string).collect::<Vec<_>>().join(", ")
}

impl Display for Missing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { plugin, demand, absence } = self;
        write!(f, "{plugin} ({demand}, {absence})")
    }
}

impl Display for Demand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Required => "required",
            Self::Validator => "to validate",
            Self::DefaultValidator => "required by the default validator",
        })
    }
}

impl Display for Absence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("absent"),
            Self::Joining => f.write_str("joining"),
            Self::State(state) => state.fmt(f),
            Self::NoValidator => f.write_str("does not validate"),
        }
    }
}
