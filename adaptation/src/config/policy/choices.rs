//! What there is to choose from on the axes that are neither yes or no nor a number.

use crate::config::settings::Choice;

/// What becomes of a request that a plugin does not answer in time, or cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnTimeout {
    /// It goes on without the plugin.
    #[default]
    Skip,
    /// It fails, and the error names the plugin.
    Fail,
}

/// What becomes of what a plugin declares about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Declarations {
    /// It holds where the operator says nothing.
    #[default]
    Honour,
    /// It is ignored.
    Ignore,
}

/// What becomes of what a plugin answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It counts.
    #[default]
    Enforce,
    /// It is recorded, and nothing more: the plugin is on trial.
    Shadow,
}

/// How many requests a plugin sees at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// One.
    #[default]
    Serial,
    /// One of each pod.
    PerPod,
}

impl Choice for OnTimeout {
    const CHOICES: &'static [(&'static str, Self)] = &[("skip", Self::Skip), ("fail", Self::Fail)];
}

impl Choice for Declarations {
    const CHOICES: &'static [(&'static str, Self)] = &[("honour", Self::Honour), ("ignore", Self::Ignore)];
}

impl Choice for Mode {
    const CHOICES: &'static [(&'static str, Self)] = &[("enforce", Self::Enforce), ("shadow", Self::Shadow)];
}

impl Choice for Concurrency {
    const CHOICES: &'static [(&'static str, Self)] = &[("serial", Self::Serial), ("per-pod", Self::PerPod)];
}
