//! Sets of events.

use std::fmt::{self, Display, Formatter};
use std::ops::BitOr;
use std::str::FromStr;

use super::Event;
use crate::text::quote::quoted;

/// A set of events.
///
/// A mask is formatted as the names of its events, separated by commas. Parsing ignores the case
/// and also accepts `all`, `pod` (or `podsandbox`) and `container`.
///
/// ```
/// use nri_proto::event::{Event, EventMask};
///
/// let mask: EventMask = "CreateContainer, stopcontainer".parse()?;
/// assert!(mask.contains(Event::StopContainer));
/// assert_eq!(mask.to_string(), "CreateContainer,StopContainer");
/// assert_eq!(mask, Event::CreateContainer | Event::StopContainer);
/// # Ok::<(), nri_proto::event::UnknownEvent>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct EventMask(u32);

/// A set of events as received from a peer: the known events, and the bits of unknown ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WireEvents {
    /// The known events.
    pub known: EventMask,
    /// The bits of events that this version does not know. Zero if there are none.
    pub unknown: u32,
}

/// The text is not the name of an event, or of a group of events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown event {}", quoted(.0))]
pub struct UnknownEvent(pub String);

/// A mask has bits that do not stand for a known event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid plugin events: {0:#x}")]
pub struct InvalidEvents(pub u32);

impl EventMask {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The set of all events, including validation.
    pub const ALL: Self = Self((1 << Event::ALL.len()) - 1);

    /// Reads the mask of a `ConfigureResponse`, in which zero stands for [`EventMask::ALL`].
    ///
    /// ```
    /// use nri_proto::event::{Event, EventMask};
    ///
    /// let events = EventMask::from_wire(0x10001);
    /// assert_eq!(events.known, Event::RunPodSandbox.into());
    /// assert_eq!(events.unknown, 0x10000);
    /// assert_eq!(EventMask::from_wire(0).known, EventMask::ALL);
    /// ```
    pub const fn from_wire(events: i32) -> WireEvents {
        let bits = events.cast_unsigned();
        let known = if bits == 0 { Self::ALL } else { Self(bits & Self::ALL.0) };
        WireEvents { known, unknown: bits & !Self::ALL.0 }
    }

    /// Returns the mask for a `ConfigureResponse`.
    ///
    /// `None` stands for the empty set, which cannot be expressed there.
    pub fn to_wire(self) -> Option<i32> {
        (!self.is_empty()).then_some(self.0.cast_signed())
    }

    /// Returns whether the set contains `event`.
    pub const fn contains(self, event: Event) -> bool {
        self.0 & bit(event) != 0
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds `event` to the set.
    pub const fn insert(&mut self, event: Event) {
        self.0 |= bit(event);
    }

    /// Removes `event` from the set.
    pub const fn remove(&mut self, event: Event) {
        self.0 &= !bit(event);
    }

    /// Returns the union of two sets. `a | b` is short for it.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the events in the set, ordered by number.
    pub fn iter(self) -> impl Iterator<Item = Event> {
        Event::ALL.into_iter().filter(move |event| self.contains(*event))
    }
}

impl WireEvents {
    /// Returns the known events, or an error if there are unknown ones.
    ///
    /// Upstream's runtime refuses a plugin that subscribes to unknown events with this error.
    pub const fn strict(self) -> Result<EventMask, InvalidEvents> {
        match self.unknown {
            0 => Ok(self.known),
            unknown => Err(InvalidEvents(unknown)),
        }
    }
}

const fn bit(event: Event) -> u32 {
    1 << (event.number() - 1)
}

impl From<Event> for EventMask {
    fn from(event: Event) -> Self {
        Self(bit(event))
    }
}

impl FromIterator<Event> for EventMask {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        events.into_iter().fold(Self::EMPTY, |mask, event| mask | event)
    }
}

impl BitOr for EventMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl BitOr<Event> for EventMask {
    type Output = Self;

    fn bitor(self, event: Event) -> Self {
        self.union(event.into())
    }
}

impl BitOr for Event {
    type Output = EventMask;

    fn bitor(self, other: Self) -> EventMask {
        EventMask::from(self).union(other.into())
    }
}

impl BitOr<EventMask> for Event {
    type Output = EventMask;

    fn bitor(self, events: EventMask) -> EventMask {
        events.union(self.into())
    }
}

impl Display for EventMask {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, event) in self.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{event}")?;
        }
        Ok(())
    }
}

impl Display for WireEvents {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { known, unknown } = self;
        match (known.is_empty(), unknown) {
            (_, 0) => write!(f, "{known}"),
            (true, _) => write!(f, "unknown({unknown:#x})"),
            (false, _) => write!(f, "{known},unknown({unknown:#x})"),
        }
    }
}

impl FromStr for EventMask {
    type Err = UnknownEvent;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.to_lowercase().split(',').map(events_named).try_fold(Self::EMPTY, |mask, events| Ok(mask | events?))
    }
}

/// Parses the name of an event or of a group of events.
///
/// As upstream, blanks are allowed around the name of an event, but not around that of a group.
fn events_named(name: &str) -> Result<EventMask, UnknownEvent> {
    let events = match name {
        "all" => EventMask::ALL,
        "pod" | "podsandbox" => matching(|rpc| rpc.contains("pod")),
        "container" => matching(|rpc| rpc.contains("container")),
        _ => matching(|rpc| rpc == name.trim()),
    };
    if events.is_empty() { Err(UnknownEvent(name.to_owned())) } else { Ok(events) }
}

fn matching(matches: impl Fn(&str) -> bool) -> EventMask {
    Event::ALL.into_iter().filter(|event| matches(&event.rpc().to_lowercase())).collect()
}
