//! The settings of the logger, from flags and from a configuration.

use std::fmt::Display;

use nri_plugin::cli::ParsedFlags;
use nri_plugin::{EventMask, Refusal};
use saphyr::{LoadableYamlNode as _, Yaml};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) events: EventMask,
    pub(crate) log_file: String,
    pub(crate) add_annotation: String,
    pub(crate) set_annotation: String,
    pub(crate) add_env: String,
    pub(crate) set_env: String,
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
        let documents = Yaml::load_from_str(config).map_err(|error| unread(&error))?;
        let Some(config) = documents.first() else { return Ok(self) };
        if !config.is_mapping() {
            return Err(unread(&"it must be a map"));
        }
        let subscribed = list(config, "events")?.filter(|list| !list.is_empty()).map(|list| events(&list.join(",")));
        Ok(Self {
            events: subscribed.transpose()?.unwrap_or(self.events),
            log_file: text(config, "logFile")?.unwrap_or(self.log_file),
            add_annotation: text(config, "addAnnotation")?.unwrap_or(self.add_annotation),
            set_annotation: text(config, "setAnnotation")?.unwrap_or(self.set_annotation),
            add_env: text(config, "addEnv")?.unwrap_or(self.add_env),
            set_env: text(config, "setEnv")?.unwrap_or(self.set_env),
        })
    }
}

fn text(config: &Yaml<'_>, key: &str) -> Result<Option<String>, Refusal> {
    let Some(value) = config.as_mapping_get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    let text = value.as_str().ok_or_else(|| unread(&format_args!("{key} must be a string")))?;
    Ok(Some(text.to_owned()))
}

fn list(config: &Yaml<'_>, key: &str) -> Result<Option<Vec<String>>, Refusal> {
    let Some(value) = config.as_mapping_get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    let entries = value.as_sequence().into_iter().flatten().map(|entry| entry.as_str().map(str::to_owned));
    match entries.collect::<Option<Vec<_>>>() {
        Some(list) if value.is_sequence() => Ok(Some(list)),
        _ => Err(unread(&format_args!("{key} must be a list of strings"))),
    }
}

fn unread(cause: &dyn Display) -> Refusal {
    Refusal::new(format_args!("failed to parse provided configuration: {cause}"))
}

fn events(list: &str) -> Result<EventMask, Refusal> {
    list.parse().map_err(|error| Refusal::new(format_args!("failed to parse events: {error}")))
}
