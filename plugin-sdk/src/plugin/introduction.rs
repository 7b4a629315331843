//! The content of the runtime's Configure request.

use std::time::Duration;

use nri_proto::version::{self, Version};
use nri_proto::{Event, EventMask, api};

/// The content of a Configure request: the plugin's configuration, and facts about the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// The configuration of the plugin, as the runtime has it. If the runtime has none, this is
    /// [`Options::config`](crate::Options::config).
    pub config: String,
    /// The name of the runtime, such as `containerd`.
    pub runtime_name: String,
    /// The version of the runtime.
    pub runtime_version: String,
    /// The NRI version of the runtime, if the runtime reports one or if its name and version imply
    /// one.
    pub nri_version: Option<String>,
    /// How long the runtime waits for a plugin to register, or zero if the runtime does not report
    /// it.
    pub registration_timeout: Duration,
    /// How long the runtime waits for a reply, or zero if the runtime does not report it.
    pub request_timeout: Duration,
}

/// The events of NRI 0.2 to 0.9.
const EVENTS_BEFORE_0_10: EventMask = {
    let mut events = EventMask::ALL;
    events.remove(Event::UpdatePodSandbox);
    events.remove(Event::PostUpdatePodSandbox);
    events.remove(Event::ValidateContainerAdjustment);
    events
};

/// The events that a runtime supports. A runtime rejects a plugin that subscribes to an unknown
/// event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupportedEvents {
    /// The runtime supports exactly these events.
    Only(EventMask),
    /// The runtime does not report enough to know its events.
    Unknown,
}

impl SupportedEvents {
    /// Returns the events of `wanted` that the plugin should subscribe to.
    ///
    /// If the support is unknown, `is_conservative` limits them to the events that every runtime
    /// has.
    pub(crate) fn restrict(self, wanted: EventMask, is_conservative: bool) -> EventMask {
        let supported = match self {
            Self::Only(events) => events,
            Self::Unknown if is_conservative => EVENTS_BEFORE_0_10,
            Self::Unknown => EventMask::ALL,
        };
        wanted.iter().filter(|event| supported.contains(*event)).collect()
    }

    /// Returns whether the runtime could reject a subscription to `events`.
    pub(crate) fn may_reject(self, events: EventMask) -> bool {
        self == Self::Unknown && events.iter().any(|event| !EVENTS_BEFORE_0_10.contains(event))
    }
}

impl Introduction {
    /// Reads a Configure request. `own_config` stands in for a configuration that the runtime
    /// lacks.
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
        let reported = version::is_known(&NRI_version).then_some(NRI_version);
        let inferred = || version::of_runtime(&runtime_name, &runtime_version).ok().map(str::to_owned);
        Self {
            nri_version: reported.or_else(inferred),
            config: if config.is_empty() { own_config.unwrap_or_default().to_owned() } else { config },
            runtime_name,
            runtime_version,
            registration_timeout: millis(registration_timeout),
            request_timeout: millis(request_timeout),
        }
    }

    /// Derives the events that the runtime supports from its NRI version.
    pub(crate) fn supported_events(&self) -> SupportedEvents {
        match self.nri_version.as_ref().and_then(|version| version.parse::<Version>().ok()) {
            Some(version) if Some(&version) < "v0.10.0".parse().ok().as_ref() => {
                SupportedEvents::Only(EVENTS_BEFORE_0_10)
            }
            Some(_) => SupportedEvents::Only(EventMask::ALL),
            // Runtimes report their timeouts since NRI 0.7.
            None if self.request_timeout.is_zero() => SupportedEvents::Only(EVENTS_BEFORE_0_10),
            None => SupportedEvents::Unknown,
        }
    }
}

fn millis(number: i64) -> Duration {
    Duration::from_millis(u64::try_from(number).unwrap_or_default())
}
