//! Sets resource limits of containers, as their pod's annotations say: what upstream's plugin of this name does.
//!
//! ```yaml
//! metadata:
//!   annotations:
//!     ulimits.noderesource.dev/container.app: |
//!       - type: RLIMIT_MEMLOCK
//!         hard: 987654
//!         soft: 645321
//!       - { type: nofile, hard: 4096, soft: 1024 }
//! ```
//!
//! `cargo run -p nri-plugin --example ulimit-adjuster -- --idx 10 --socket /var/run/nri/nri.sock`

use std::process::ExitCode;

use nri_plugin::cli::Program;
use nri_plugin::{
    Adjustment, Container, Context, CreateReply, Event, EventMask, Plugin, Pod, Refusal, Rlimit, async_trait,
};
use serde::Deserialize;
use tracing::{debug, info};

/// Whose annotations are read; the first that is there counts.
const KEYS: [&str; 2] = ["ulimits.noderesource.dev", "ulimits.nri.containerd.io"];
/// What every limit is called in full.
const PREFIX: &str = "RLIMIT_";
/// The limits that Linux has.
const LIMITS: [&str; 16] = [
    "AS",
    "CORE",
    "CPU",
    "DATA",
    "FSIZE",
    "LOCKS",
    "MEMLOCK",
    "MSGQUEUE",
    "NICE",
    "NOFILE",
    "NPROC",
    "RSS",
    "RTPRIO",
    "RTTIME",
    "SIGPENDING",
    "STACK",
];

fn main() -> ExitCode {
    Program::new("ulimit-adjuster", "sets resource limits of containers by annotations of their pods")
        .main(|_| Ok(UlimitAdjuster))
}

struct UlimitAdjuster;

#[async_trait]
impl Plugin for UlimitAdjuster {
    fn events(&self) -> EventMask {
        Event::CreateContainer.into()
    }

    async fn create_container(&self, _: &Context, pod: Pod, container: Container) -> Result<CreateReply, Refusal> {
        let keys = KEYS.map(|key| format!("{key}/container.{}", container.name));
        let Some(text) = keys.iter().find_map(|key| pod.annotation(key)).filter(|text| !text.is_empty()) else {
            debug!(pod = pod.name, container = container.name, "no limits are annotated");
            return Ok(CreateReply::default());
        };
        let limits: Vec<Ulimit> = serde_saphyr::from_str(text)
            .map_err(|error| Refusal::new(format_args!("invalid ulimits annotation {text:?}: {error}")))?;
        let mut adjustment = Adjustment::default();
        for limit in limits {
            let limit = limit.rlimit()?;
            info!(pod = pod.name, container = container.name, kind = limit.kind, limit.soft, limit.hard, "limited");
            adjustment.rlimits.push(limit);
        }
        Ok(adjustment.into())
    }
}

/// One limit, as people write it.
#[derive(Debug, Deserialize)]
struct Ulimit {
    #[serde(rename = "type", alias = "Type")]
    kind: String,
    #[serde(default, alias = "Hard")]
    hard: u64,
    #[serde(default, alias = "Soft")]
    soft: u64,
}

impl Ulimit {
    fn rlimit(self) -> Result<Rlimit, Refusal> {
        let Self { kind, hard, soft } = self;
        let upper = kind.to_uppercase();
        let name = upper.strip_prefix(PREFIX).unwrap_or(&upper);
        if !LIMITS.contains(&name) {
            return Err(Refusal::new(format_args!("failed to parse type: {kind:?}")));
        }
        let kind = format!("{PREFIX}{name}");
        if hard < soft {
            return Err(Refusal::new(format_args!("ulimit {kind:?} must have hard limit >= soft limit")));
        }
        Ok(Rlimit::new(kind, soft, hard))
    }
}
