//! An entry as one line of text.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use nri_proto::quote::line_up_to;

use super::Change;
use super::Entry;
use super::EntryKind;

/// Displays a text from outside on one line: invisible characters are escaped, long texts cut.
pub(super) struct Line<'a>(pub(super) &'a str);

const LONGEST: usize = 120;

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        line_up_to(self.0, LONGEST).fmt(f)
    }
}

/// Displays the entry as one line: `10-a set Env LEVEL: info -> debug (1.2 ms)`.
impl Display for Entry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let occasion = &self.occasion;
        let mark = match (occasion.shadow, occasion.in_vain) {
            (true, _) => " (shadow)",
            (false, true) => " (in vain)",
            (false, false) => "",
        };
        write!(f, "{}{mark} ", Line(&occasion.plugin))?;
        self.write_what(f)?;
        if let Some(took) = occasion.took {
            write!(f, " ({:.1} ms)", milliseconds(took))?;
        }
        Ok(())
    }
}

impl Entry {
    fn write_what(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let event = self.occasion.event.map_or("UpdateContainers", |event| event.rpc());
        let container = Line(self.occasion.container.as_deref().unwrap_or("a container"));
        match &self.what {
            EntryKind::Changed(change) if self.is_cut => {
                write!(f, "changed {}, values too large to be kept", subject(change))
            }
            EntryKind::Changed(change) => write_change(f, change),
            EntryKind::EvictionAsked { reason } => write!(f, "asked to evict {container}{}", because(reason)),
            EntryKind::Dropped(dropped) => write!(f, "had a part of its reply ignored: {}", Line(&dropped.to_string())),
            EntryKind::Refused { reason } => write!(f, "refused {event}{}", because(reason)),
            EntryKind::Conflict(error) => write!(f, "was in conflict: {}", Line(&error.to_string())),
            EntryKind::NotAllowed(error) => write!(f, "was not allowed: {}", Line(&error.to_string())),
            EntryKind::TimedOut => write!(f, "did not answer {event} in time"),
            EntryKind::PassedOver(state) => write!(f, "was skipped for {event}: it is {state}"),
            EntryKind::Failed { reason } => write!(f, "failed {event}{}", because(reason)),
            EntryKind::Late { fields } if fields.is_empty() => write!(f, "answered {event} too late"),
            EntryKind::Late { fields } => {
                let fields: Vec<_> = fields.iter().map(ToString::to_string).collect();
                write!(f, "answered {event} too late to change {}", Line(&fields.join(", ")))
            }
            EntryKind::Rejected { reason } => write!(f, "rejected {container}{}", because(reason)),
            EntryKind::UpdateFailed { reason } => write!(f, "could not update {container}{}", because(reason)),
            EntryKind::EvictionFailed { reason } => write!(f, "could not evict {container}{}", because(reason)),
        }
    }
}

fn write_change(f: &mut Formatter<'_>, change: &Change) -> fmt::Result {
    let subject = subject(change);
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => write!(f, "set {subject}: {before} -> {after}"),
        (None, Some(after)) => write!(f, "set {subject}: {after}"),
        (Some(before), None) => write!(f, "removed {subject}: {before}"),
        (None, None) => write!(f, "removed {subject}, which was not there"),
    }
}

fn subject(change: &Change) -> impl Display {
    fmt::from_fn(move |f| {
        let space = if change.key.is_empty() { "" } else { " " };
        write!(f, "{}{space}{}", change.field, Line(&change.key))
    })
}

fn because(reason: &str) -> impl Display {
    fmt::from_fn(move |f| if reason.is_empty() { Ok(()) } else { write!(f, ": {}", Line(reason)) })
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
