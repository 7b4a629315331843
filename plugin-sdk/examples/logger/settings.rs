//! The settings of the logger, from flags and from a configuration.

use std::fmt::Display;

use nri_plugin::cli::ParsedFlags;
use nri_plugin::{EventMask, Refusal};
use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) events: EventMask,
    pub(crate) log_file: String,
    pub(crate) add_annotation: String,
    pub(crate) set_annotation: String,
    pub(crate) add_env: String,
    pub(crate) set_env: String,
}

/// The configuration, whose keys are those of the logger in Go.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configuration {
    events: Option<Vec<String>>,
    log_file: Option<String>,
    add_annotation: Option<String>,
    set_annotation: Option<String>,
    add_env: Option<String>,
    set_env: Option<String>,
}

impl Settings {
    pub(crate) fn given(given: &ParsedFlags) -> Result<Self, Refusal> {
        let text = |name| given.value(name).unwrap_or_default().to_owned();
        Ok(Self {
            events: given.value("events").map_or(Ok(EventMask::ALL), events)?,
            log_file: text("log-file"),
            add_annotation: text("add-annotation"),
            set_annotation: text("set-annotation"),
            add_env: text("add-env"),
            set_env: text("set-env"),
        })
    }

    /// Applies a configuration. Settings that it lacks stay as they are, and unknown keys are
    /// ignored.
    pub(crate) fn changed_by(self, config: &str) -> Result<Self, Refusal> {
        let given: Option<Configuration> =
            serde_saphyr::from_str(config).map_err(|error| unread(&error.without_snippet()))?;
        let given = given.unwrap_or_default();
        let subscribed = given.events.filter(|list| !list.is_empty()).map(|list| events(&list.join(",")));
        Ok(Self {
            events: subscribed.transpose()?.unwrap_or(self.events),
            log_file: given.log_file.unwrap_or(self.log_file),
            add_annotation: given.add_annotation.unwrap_or(self.add_annotation),
            set_annotation: given.set_annotation.unwrap_or(self.set_annotation),
            add_env: given.add_env.unwrap_or(self.add_env),
            set_env: given.set_env.unwrap_or(self.set_env),
        })
    }
}

fn unread(cause: &dyn Display) -> Refusal {
    Refusal::new(format_args!("failed to parse provided configuration: {cause}"))
}

fn events(list: &str) -> Result<EventMask, Refusal> {
    list.parse().map_err(|error| Refusal::new(format_args!("failed to parse events: {error}")))
}
