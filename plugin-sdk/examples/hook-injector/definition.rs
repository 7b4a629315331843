//! The definition of a hook in a file: version 1.0.0 of oci-hooks(5).

use std::collections::BTreeMap;

use nri_plugin::{Hook, Hooks, Refusal};
use regex_lite::Regex;
use serde::Deserialize;

/// A hook, the condition for it, and its stages.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    hook: Hook,
    when: When,
    stages: Vec<Stage>,
}

#[derive(Clone, Debug)]
struct When {
    always: Option<bool>,
    annotations: Vec<(Regex, Regex)>,
    commands: Vec<Regex>,
    has_bind_mounts: Option<bool>,
}

/// The properties of a container that conditions are about.
pub(crate) struct Subject<'a> {
    pub(crate) annotations: &'a BTreeMap<&'a String, &'a String>,
    pub(crate) command: Option<&'a str>,
    pub(crate) has_bind_mounts: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Stage {
    Prestart,
    CreateRuntime,
    CreateContainer,
    StartContainer,
    Poststart,
    Poststop,
}

#[derive(Deserialize)]
struct File {
    version: String,
    hook: FileHook,
    when: FileWhen,
    stages: Vec<Stage>,
}

#[derive(Deserialize)]
struct FileHook {
    path: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    timeout: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileWhen {
    always: Option<bool>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    commands: Vec<String>,
    has_bind_mounts: Option<bool>,
}

impl Definition {
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        let File { version, hook, when, stages } = serde_json::from_str(text)?;
        if version != "1.0.0" {
            return Err(Refusal::new(format_args!("unknown version {version:?}, only 1.0.0 is supported")));
        }
        if !hook.path.starts_with('/') {
            return Err(Refusal::new(format_args!("hook.path {:?} is not absolute", hook.path)));
        }
        if stages.is_empty() {
            return Err(Refusal::new("the hook has no stages"));
        }
        let FileHook { path, args, env, timeout } = hook;
        Ok(Self { hook: Hook { env, timeout, ..Hook::new(path, args) }, when: When::read(when)?, stages })
    }

    /// Returns whether the hook applies to this container, that is, whether all its conditions are
    /// met.
    pub(crate) fn is_for(&self, subject: &Subject<'_>) -> Result<bool, Refusal> {
        let When { always, annotations, commands, has_bind_mounts } = &self.when;
        let is_annotated = |(key, value): &(Regex, Regex)| {
            subject.annotations.iter().any(|(k, v)| key.is_match(k) && value.is_match(v))
        };
        if commands.is_empty() {
            let asks = always.is_some() || has_bind_mounts.is_some() || !annotations.is_empty();
            return Ok(asks && self.is_met(subject, is_annotated));
        }
        let Some(command) = subject.command else {
            return Err(Refusal::new("hook generation failed: process.args must have at least one entry"));
        };
        Ok(self.is_met(subject, is_annotated) && commands.iter().any(|pattern| pattern.is_match(command)))
    }

    fn is_met(&self, subject: &Subject<'_>, is_annotated: impl Fn(&(Regex, Regex)) -> bool) -> bool {
        self.when.always != Some(false)
            && self.when.has_bind_mounts.is_none_or(|wanted| wanted && subject.has_bind_mounts)
            && self.when.annotations.iter().all(is_annotated)
    }

    pub(crate) fn add_to(&self, hooks: &mut Hooks) {
        for stage in &self.stages {
            let list = match stage {
                Stage::Prestart => &mut hooks.prestart,
                Stage::CreateRuntime => &mut hooks.create_runtime,
                Stage::CreateContainer => &mut hooks.create_container,
                Stage::StartContainer => &mut hooks.start_container,
                Stage::Poststart => &mut hooks.poststart,
                Stage::Poststop => &mut hooks.poststop,
            };
            list.push(self.hook.clone());
        }
    }
}

impl When {
    fn read(file: FileWhen) -> Result<Self, Refusal> {
        let FileWhen { always, annotations, commands, has_bind_mounts } = file;
        let pattern = |text: &String| {
            Regex::new(text).map_err(|error| Refusal::new(format_args!("{text:?} is not a valid pattern: {error}")))
        };
        Ok(Self {
            always,
            annotations: (annotations.iter())
                .map(|(key, value)| Ok((pattern(key)?, pattern(value)?)))
                .collect::<Result<_, Refusal>>()?,
            commands: commands.iter().map(pattern).collect::<Result<_, _>>()?,
            has_bind_mounts,
        })
    }
}
