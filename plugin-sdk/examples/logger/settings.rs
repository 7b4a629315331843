//! What the logger is told to do.

use nri_plugin::cli::Given;
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

/// The configuration, as the runtime has it. What is not in it stays as it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    log_file: Option<String>,
    events: Option<Vec<String>>,
    add_annotation: Option<String>,
    set_annotation: Option<String>,
    add_env: Option<String>,
    set_env: Option<String>,
}

impl Settings {
    pub(crate) fn given(given: &Given) -> Result<Self, Refusal> {
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

    pub(crate) fn changed_by(self, config: &str) -> Result<Self, Refusal> {
        let config: Config = serde_saphyr::from_str(config)
            .map_err(|error| Refusal::new(format_args!("failed to parse provided configuration: {error}")))?;
        let subscribed = config.events.filter(|list| !list.is_empty()).map(|list| events(&list.join(",")));
        Ok(Self {
            events: subscribed.transpose()?.unwrap_or(self.events),
            log_file: config.log_file.unwrap_or(self.log_file),
            add_annotation: config.add_annotation.unwrap_or(self.add_annotation),
            set_annotation: config.set_annotation.unwrap_or(self.set_annotation),
            add_env: config.add_env.unwrap_or(self.add_env),
            set_env: config.set_env.unwrap_or(self.set_env),
        })
    }
}

fn events(list: &str) -> Result<EventMask, Refusal> {
    list.parse().map_err(|error| Refusal::new(format_args!("failed to parse events: {error}")))
}
