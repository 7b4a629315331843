//! The policy settings that choose between a few named values.

use crate::config::settings::Choice;

/// The effect on a request if a plugin does not answer in time or cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnTimeout {
    /// The request goes on without the plugin.
    #[default]
    Skip,
    /// The request fails, and the error names the plugin.
    Fail,
}

/// Whether the declarations of a plugin about itself are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Declarations {
    /// The declarations apply where the operator sets nothing.
    #[default]
    Honour,
    /// The declarations are ignored.
    Ignore,
}

/// Whether the replies of a plugin are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The replies are applied.
    #[default]
    Enforce,
    /// The plugin is in shadow mode: its replies are recorded, but not applied.
    Shadow,
}

/// How many requests a plugin is asked at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// One request at a time.
    #[default]
    Serial,
    /// One request of each pod at a time.
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
