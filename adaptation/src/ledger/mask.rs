//! Masks values that may be secret before an entry is shown.

use nri_proto::{Field, Hook, Hooks};

use super::Change;
use super::Entry;
use super::EntryKind;
use crate::merge::Value;

/// Replaces a value that may be secret.
const MASK: &str = "***";

impl Change {
    /// Returns whether the values may be secret. The values of environment variables are treated as
    /// secret, both those of the container and those of hooks.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        let has_variables =
            |value: &Value| matches!(value, Value::Hooks(hooks) if all(hooks).any(|hook| !hook.env.is_empty()));
        self.field == Field::Env || self.before.iter().chain(&self.after).any(has_variables)
    }
}

impl Entry {
    /// Returns whether the entry has [values that may be secret](Change::is_secret).
    #[must_use]
    pub fn is_secret(&self) -> bool {
        matches!(&self.what, EntryKind::Changed(change) if change.is_secret())
    }

    /// Returns a copy of the entry in which the values of environment variables are replaced by
    /// `***`.
    ///
    /// Texts of plugins, such as the reason of a refusal, stay as they are.
    #[must_use]
    pub fn masked(&self) -> Self {
        let mut masked = self.clone();
        if let EntryKind::Changed(Change { field, key: _, before, after }) = &mut masked.what {
            before.iter_mut().chain(after).for_each(|value| mask(*field, value));
        }
        masked
    }
}

fn mask(field: Field, value: &mut Value) {
    if let Value::Hooks(hooks) = value {
        all_mut(hooks).flat_map(|hook| &mut hook.env).for_each(mask_variable);
    } else if field == Field::Env {
        *value = Value::Text(MASK.to_owned());
    }
}

/// Masks the value of a `NAME=value` variable. A variable without `=` has no value.
fn mask_variable(variable: &mut String) {
    if let Some(at) = variable.find('=') {
        variable.truncate(at + 1);
        variable.push_str(MASK);
    }
}

fn all(hooks: &Hooks) -> impl Iterator<Item = &Hook> {
    let Hooks { prestart, create_runtime, create_container, start_container, poststart, poststop, unknown: _ } = hooks;
    [prestart, create_runtime, create_container, start_container, poststart, poststop].into_iter().flatten()
}

fn all_mut(hooks: &mut Hooks) -> impl Iterator<Item = &mut Hook> {
    let Hooks { prestart, create_runtime, create_container, start_container, poststart, poststop, unknown: _ } = hooks;
    [prestart, create_runtime, create_container, start_container, poststart, poststop].into_iter().flatten()
}
