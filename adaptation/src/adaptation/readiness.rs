//! Which plugins must be there and are not.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use nri_proto::{Event, PluginId};
use thiserror::Error;
use tokio::time::timeout;

use crate::adaptation::Adaptation;
use crate::api::health::State;
use crate::operation::shared::Shared;
use crate::session::roster::{Participant, Roster};

/// A plugin that must be there, and is not or does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// As the operator calls it: by name, or by index and name.
    pub plugin: String,
    /// Who wants it.
    pub demand: Demand,
    /// Why it counts as missing.
    pub absence: Absence,
}

/// Who wants a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// The operator [requires](crate::config::policy::Policy::required) it.
    Required,
    /// The operator wants its [verdict](crate::config::policy::Policy::validator).
    Validator,
    /// The [default validator](crate::config::DefaultValidator::required_plugins) does.
    DefaultValidator,
}

/// Why a plugin counts as missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// There is none of this name.
    Absent,
    /// It has registered, and is not asked yet.
    Joining,
    /// It is there, in a state in which it is not asked.
    State(State),
    /// It is there, and did not subscribe to validate, or may not.
    NoValidator,
}

/// Plugins that must be there were missing all the time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("plugins are missing: {}", list(missing))]
pub struct NotReady {
    /// Those that still are.
    pub missing: Vec<Missing>,
}

impl Adaptation {
    /// The plugins that must be there and are not, or are not [active](State::Active). While there
    /// are some, containers may not be created, but for pods that may do without.
    ///
    /// One that the operator requires counts as missing if any of its name does not answer, since
    /// requests fail for each. One that the default validator requires counts if none of its name
    /// does. One on trial is required by nobody.
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

    /// Waits until no plugin is [missing](Adaptation::missing), for so long at most.
    ///
    /// # Errors
    ///
    /// Those that are missing when the time is over, or when the adaptation is stopped.
    pub async fn ready(&self, limit: Duration) -> Result<(), NotReady> {
        // Whether it was in time or not is seen from what is missing.
        let _ = timeout(limit, self.shared.services.stopping.run_until_cancelled(self.complete())).await;
        match self.missing() {
            missing if missing.is_empty() => Ok(()),
            missing => Err(NotReady { missing }),
        }
    }

    async fn complete(&self) {
        let mut happenings = self.watch_plugins();
        loop {
            // A reload is told to nobody if no plugin has another policy for it, but rings.
            let arrived = self.shared.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if self.missing().is_empty() {
                return;
            }
            tokio::select! {
                () = &mut arrived => {}
                // What was dropped does not matter: it is looked at how things are.
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

/// How those are doing that are meant.
fn states(roster: &Roster, is_meant: impl Fn(&Participant) -> bool) -> Vec<State> {
    roster.entries().iter().filter(|entry| is_meant(entry)).map(|entry| entry.state()).collect()
}

fn validates(entry: &Participant) -> bool {
    entry.terms.events.contains(Event::ValidateContainerAdjustment)
}

/// Nobody is there.
fn absent(shared: &Shared, states: &[State], is_meant: impl Fn(&PluginId) -> bool) -> Option<Absence> {
    let why = || if shared.is_arriving(is_meant) { Absence::Joining } else { Absence::Absent };
    states.is_empty().then(why)
}

/// One of them is not asked.
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
            Self::Absent => f.write_str("not here"),
            Self::Joining => f.write_str("joining"),
            Self::State(state) => state.fmt(f),
            Self::NoValidator => f.write_str("does not validate"),
        }
    }
}
