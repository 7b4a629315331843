//! Shortens an entry that is too large.

use std::sync::Arc;

use nri_proto::TakeUnknown;

use super::Change;
use super::Entry;
use super::Occasion;
use super::What;
use crate::config::policy::NotAllowed;
use crate::merge::{Conflict, Dropped, MergeError, Value};

/// The number of bytes that a text keeps.
const TEXT: usize = 256;
/// The number of elements that a list keeps.
const LIST: usize = 64;

impl Entry {
    /// Removes unknown fields from the values.
    pub(super) fn strip(&mut self) {
        if let What::Changed(Change { field: _, key: _, before, after }) = &mut self.what {
            before.iter_mut().chain(after).for_each(strip);
        }
    }

    /// Removes values and shortens texts. The names of plugins, pods and containers are shortened
    /// too, because a peer can make them arbitrarily long.
    pub(super) fn cut(&mut self) {
        self.is_cut = true;
        let Occasion { plugin, pod, container, when: _, event: _, took: _, shadow: _, in_vain: _ } =
            Arc::make_mut(&mut self.occasion);
        for shared in [Some(plugin), pod.as_mut(), container.as_mut()].into_iter().flatten() {
            cut_shared(shared);
        }
        match &mut self.what {
            What::Changed(change) => {
                cut(&mut change.key);
                (change.before, change.after) = (None, None);
            }
            What::Dropped(dropped) => cut_dropped(dropped),
            What::Conflict(MergeError::Conflict(conflict)) => cut_conflict(conflict),
            What::Conflict(MergeError::UpdateDuringCreation { plugin: _, container }) => cut(container),
            What::NotAllowed(NotAllowed::Field { field: _, key: text })
            | What::NotAllowed(NotAllowed::Update { container: text })
            | What::NotAllowed(NotAllowed::Eviction { container: text } | NotAllowed::Hidden { container: text }) => {
                cut(text);
            }
            What::TimedOut | What::PassedOver(_) => {}
            What::Late { fields } => {
                fields.truncate(LIST);
                fields.shrink_to_fit();
            }
            What::EvictionAsked { reason }
            | What::Refused { reason }
            | What::Failed { reason }
            | What::Rejected { reason }
            | What::UpdateFailed { reason }
            | What::EvictionFailed { reason } => cut(reason),
        }
    }
}

fn cut(text: &mut String) {
    text.truncate(text.floor_char_boundary(TEXT));
    text.shrink_to_fit();
}

fn cut_shared(text: &mut Arc<str>) {
    if text.len() > TEXT {
        *text = text[..text.floor_char_boundary(TEXT)].into();
    }
}

fn cut_conflict(conflict: &mut Conflict) {
    let Conflict { container, field: _, key, claimer: _, owner } = conflict;
    [container, key, owner].into_iter().for_each(cut);
}

fn cut_dropped(dropped: &mut Dropped) {
    match dropped {
        Dropped::Unread(unread) => {
            unread.numbers.truncate(LIST);
            unread.numbers.shrink_to_fit();
        }
        Dropped::Update(conflict) => cut_conflict(conflict),
        Dropped::DeviceRules { container } => cut(container),
    }
}

fn strip(value: &mut Value) {
    let mut found = Vec::new();
    match value {
        Value::Text(_) | Value::Texts(_) | Value::Signed(_) | Value::Unsigned(_) | Value::Flag(_) => {}
        Value::Mount(mount) => mount.take_unknown_into(&mut found),
        Value::Device(device) => device.take_unknown_into(&mut found),
        Value::DeviceRules(rules) => rules.iter_mut().for_each(|rule| rule.take_unknown_into(&mut found)),
        Value::NetDevice(device) => device.take_unknown_into(&mut found),
        Value::Namespace(namespace) => namespace.take_unknown_into(&mut found),
        Value::Hooks(hooks) => hooks.take_unknown_into(&mut found),
        Value::IoPriority(priority) => priority.take_unknown_into(&mut found),
        Value::Seccomp(seccomp) => seccomp.take_unknown_into(&mut found),
        Value::Scheduler(scheduler) => scheduler.take_unknown_into(&mut found),
        Value::MemoryPolicy(policy) => policy.take_unknown_into(&mut found),
        Value::Rlimit(rlimit) => rlimit.take_unknown_into(&mut found),
    }
}
