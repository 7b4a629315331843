//! The annotations: their keys and their formats.

use std::collections::BTreeMap;
use std::fmt::Display;

use nri_plugin::{
    Container, IoPriorityClass, MemoryPolicyFlag, MemoryPolicyMode, Pod, Refusal, SchedulerFlag, SchedulerPolicy,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The domain of the annotations. The old domain has no kernel parameters.
const DOMAIN: &str = "noderesource.dev";
const OLD_DOMAIN: &str = "nri.io";

/// A kind of annotation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Devices,
    CdiDevices,
    Mounts,
    IoPriority,
    Scheduler,
    NetDevices,
    Sysctl,
    MemoryPolicy,
}

impl Kind {
    fn key(self) -> &'static str {
        match self {
            Self::Devices => "devices",
            Self::CdiDevices => "cdi-devices",
            Self::Mounts => "mounts",
            Self::IoPriority => "io-priority",
            Self::Scheduler => "scheduling-policy",
            Self::NetDevices => "network-devices",
            Self::Sysctl => "sysctl",
            Self::MemoryPolicy => "memory-policy",
        }
    }
}

/// A container and its pod, which has the annotations.
#[derive(Clone, Copy)]
pub(crate) struct Annotated<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
}

impl Annotated<'_> {
    /// Parses the most specific annotation of a kind, if there is one.
    pub(crate) fn read<T: DeserializeOwned>(self, kind: Kind) -> Result<Option<T>, Refusal> {
        let Some((key, text)) = find(self.pod, &self.container.name, kind) else { return Ok(None) };
        if text.trim().is_empty() {
            return Ok(None);
        }
        let options = serde_saphyr::options! {
            // Aliases could expand a small text to a large value.
            budget: serde_saphyr::budget! { max_aliases: 0 },
            // File modes may be written as octal numbers with a leading zero.
            legacy_octal_numbers: true,
        };
        serde_saphyr::from_str_with_options(text, options)
            .map(Some)
            .map_err(|error| Refusal::new(format_args!("invalid annotation {key}: {}", error.without_snippet())))
    }
}

/// Returns the most specific annotation of a kind, with its key.
fn find<'a>(pod: &'a Pod, container: &str, kind: Kind) -> Option<(String, &'a str)> {
    let domains = match kind {
        Kind::Sysctl => &[DOMAIN][..],
        Kind::Devices
        | Kind::CdiDevices
        | Kind::Mounts
        | Kind::IoPriority
        | Kind::Scheduler
        | Kind::NetDevices
        | Kind::MemoryPolicy => &[DOMAIN, OLD_DOMAIN],
    };
    let suffixes = [format!("/container.{container}"), "/pod".to_owned(), String::new()];
    let keys = suffixes.iter().flat_map(|suffix| domains.iter().map(move |domain| (domain, suffix)));
    keys.map(|(domain, suffix)| format!("{}.{domain}{suffix}", kind.key()))
        .find_map(|key| pod.annotation(&key).map(|text| (key.clone(), text)))
}

#[derive(Debug, Deserialize)]
pub(crate) struct Device {
    #[serde(alias = "Path")]
    path: String,
    #[serde(rename = "type", alias = "Type")]
    kind: String,
    #[serde(default)]
    major: i64,
    #[serde(default)]
    minor: i64,
    #[serde(default)]
    file_mode: u32,
    #[serde(default)]
    uid: u32,
    #[serde(default)]
    gid: u32,
}

impl From<Device> for nri_plugin::Device {
    fn from(annotated: Device) -> Self {
        let Device { path, kind, major, minor, file_mode, uid, gid } = annotated;
        // Like upstream's plugin, treat zero as unset.
        let set = |number: u32| (number != 0).then_some(number);
        Self { file_mode: set(file_mode), uid: set(uid), gid: set(gid), ..Self::new(path, kind, major, minor) }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Mount {
    #[serde(default)]
    source: String,
    destination: String,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    options: Vec<String>,
}

impl From<Mount> for nri_plugin::Mount {
    fn from(annotated: Mount) -> Self {
        let Mount { source, destination, kind, options } = annotated;
        Self { source, destination, kind, options, ..Self::default() }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct NetDevice {
    #[serde(rename = "hostIf", alias = "hostif", alias = "HostIf")]
    pub(crate) host: String,
    #[serde(default, alias = "Name")]
    pub(crate) name: String,
}

pub(crate) type Sysctl = BTreeMap<String, String>;

#[derive(Debug, Deserialize)]
pub(crate) struct IoPriority {
    class: String,
    #[serde(default)]
    priority: i32,
}

impl TryFrom<IoPriority> for nri_plugin::IoPriority {
    type Error = Refusal;

    fn try_from(annotated: IoPriority) -> Result<Self, Refusal> {
        use IoPriorityClass::{BestEffort, Idle, None, RealTime};
        let class = named("I/O priority class", &annotated.class, [None, RealTime, BestEffort, Idle])?;
        Ok(Self::new(class, annotated.priority))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Scheduler {
    policy: String,
    #[serde(default)]
    nice: i32,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    runtime: u64,
    #[serde(default)]
    deadline: u64,
    #[serde(default)]
    period: u64,
}

impl TryFrom<Scheduler> for nri_plugin::Scheduler {
    type Error = Refusal;

    fn try_from(annotated: Scheduler) -> Result<Self, Refusal> {
        use {SchedulerFlag as Flag, SchedulerPolicy as Policy};
        let Scheduler { policy, nice, priority, flags, runtime, deadline, period } = annotated;
        let policies = [
            Policy::None,
            Policy::Other,
            Policy::Fifo,
            Policy::RoundRobin,
            Policy::Batch,
            Policy::Iso,
            Policy::Idle,
            Policy::Deadline,
        ];
        let known = [
            Flag::ResetOnFork,
            Flag::Reclaim,
            Flag::DeadlineOverrun,
            Flag::KeepPolicy,
            Flag::KeepParams,
            Flag::UtilClampMin,
            Flag::UtilClampMax,
        ];
        let flags = flags.iter().map(|flag| named("scheduler flag", flag, known)).collect::<Result<_, _>>()?;
        let policy = named("scheduling policy", &policy, policies)?;
        Ok(Self { policy, nice, priority, flags, runtime, deadline, period, ..Self::default() })
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct MemoryPolicy {
    mode: String,
    #[serde(default)]
    nodes: String,
    #[serde(default)]
    flags: Vec<String>,
}

impl TryFrom<MemoryPolicy> for nri_plugin::MemoryPolicy {
    type Error = Refusal;

    fn try_from(annotated: MemoryPolicy) -> Result<Self, Refusal> {
        use {MemoryPolicyFlag as Flag, MemoryPolicyMode as Mode};
        let MemoryPolicy { mode, nodes, flags } = annotated;
        let modes = [
            Mode::Default,
            Mode::Preferred,
            Mode::Bind,
            Mode::Interleave,
            Mode::Local,
            Mode::PreferredMany,
            Mode::WeightedInterleave,
        ];
        let known = [Flag::StaticNodes, Flag::RelativeNodes, Flag::NumaBalancing];
        let flags = flags.iter().map(|flag| named("memory policy flag", flag, known)).collect::<Result<_, _>>()?;
        Ok(Self { mode: named("memory policy mode", &mode, modes)?, nodes, flags, ..Self::default() })
    }
}

/// Finds the value with this name among all values.
fn named<T: Display, const N: usize>(what: &str, name: &str, all: [T; N]) -> Result<T, Refusal> {
    let found = all.into_iter().find(|one| one.to_string() == name);
    found.ok_or_else(|| Refusal::new(format_args!("invalid {what} {name:?}")))
}
