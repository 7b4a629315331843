use std::time::Duration;

use nri_proto::version::{self, Version};
use nri_proto::{Event, EventMask, api};

/// What the runtime says of itself when it configures a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// The plugin's own configuration: the runtime's, or that of [`Options::config`](crate::Options::config) where it
    /// has none.
    pub config: String,
    /// The runtime's name, such as `containerd`.
    pub runtime_name: String,
    /// The runtime's version.
    pub runtime_version: String,
    /// The version of NRI that the runtime speaks, if it says so or can be known by its name.
    pub nri_version: Option<String>,
    /// How long the runtime lets a plugin register; zero if it does not say.
    pub registration_timeout: Duration,
    /// How long the runtime waits for an answer; zero if it does not say.
    pub request_timeout: Duration,
}

/// The events of NRI 0.2, and of all that came before 0.10.
const EVENTS_BEFORE_0_10: EventMask = {
    let mut events = EventMask::ALL;
    events.remove(Event::UpdatePodSandbox);
    events.remove(Event::PostUpdatePodSandbox);
    events.remove(Event::ValidateContainerAdjustment);
    events
};

/// What of a subscription the runtime understands. One that does not know an event refuses the whole plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupportedEvents {
    /// These, and no others.
    Only(EventMask),
    /// It does not say enough of itself.
    Unknown,
}

impl SupportedEvents {
    /// What is left of a subscription. Who is careful asks a runtime of which nothing is known for no more than any knows.
    pub(crate) fn restrict(self, wanted: EventMask, is_conservative: bool) -> EventMask {
        let supported = match self {
            Self::Only(events) => events,
            Self::Unknown if is_conservative => EVENTS_BEFORE_0_10,
            Self::Unknown => EventMask::ALL,
        };
        wanted.iter().filter(|event| supported.contains(*event)).collect()
    }

    /// Says whether the runtime may not know one of these, and we cannot tell.
    pub(crate) fn may_reject(self, events: EventMask) -> bool {
        self == Self::Unknown && events.iter().any(|event| !EVENTS_BEFORE_0_10.contains(event))
    }
}

impl Introduction {
    pub(crate) fn read(request: api::ConfigureRequest, own_config: Option<&str>) -> Self {
        let api::ConfigureRequest {
            config,
            runtime_name,
            runtime_version,
            registration_timeout,
            request_timeout,
            NRI_version,
            special_fields: _,
        } = request;
        let told = version::is_known(&NRI_version).then_some(NRI_version);
        let inferred = || version::of_runtime(&runtime_name, &runtime_version).ok().map(str::to_owned);
        Self {
            nri_version: told.or_else(inferred),
            config: if config.is_empty() { own_config.unwrap_or_default().to_owned() } else { config },
            runtime_name,
            runtime_version,
            registration_timeout: millis(registration_timeout),
            request_timeout: millis(request_timeout),
        }
    }

    pub(crate) fn supported_events(&self) -> SupportedEvents {
        match self.nri_version.as_ref().and_then(|version| version.parse::<Version>().ok()) {
            Some(version) if Some(&version) < "v0.10.0".parse().ok().as_ref() => {
                SupportedEvents::Only(EVENTS_BEFORE_0_10)
            }
            Some(_) => SupportedEvents::Only(EventMask::ALL),
            // Since 0.7 runtimes tell how long they wait.
            None if self.request_timeout.is_zero() => SupportedEvents::Only(EVENTS_BEFORE_0_10),
            None => SupportedEvents::Unknown,
        }
    }
}

fn millis(number: i64) -> Duration {
    Duration::from_millis(u64::try_from(number).unwrap_or_default())
}
