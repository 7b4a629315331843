//! Sets resource limits (rlimits) of containers from annotations of their pods, like upstream's
//! plugin of this name.
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

/// The keys of the annotation, in order of precedence.
const KEYS: [&str; 2] = ["ulimits.noderesource.dev", "ulimits.nri.containerd.io"];
/// The prefix of the full name of a limit.
const PREFIX: &str = "RLIMIT_";
/// The limits of Linux, without the prefix.
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
            debug!(pod = pod.name, container = container.name, "the container has no annotated limits");
            return Ok(CreateReply::default());
        };
        // Aliases could expand a small text to a large value.
        let options = serde_saphyr::options! { budget: serde_saphyr::budget! { max_aliases: 0 } };
        let limits: Vec<Ulimit> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            Refusal::new(format_args!("invalid ulimits annotation {text:?}: {}", error.without_snippet()))
        })?;
        let mut adjustment = Adjustment::default();
        for limit in limits {
            let limit = limit.rlimit()?;
            info!(pod = pod.name, container = container.name, kind = limit.kind, limit.soft, limit.hard, "set a limit");
            adjustment.rlimits.push(limit);
        }
        Ok(adjustment.into())
    }
}

/// One limit in an annotation.
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

#[cfg(test)]
mod tests {
    use nri_plugin::testing::{Node, container, pod};

    use super::*;

    /// Returns the limits that a container gets from an annotation, or the error.
    async fn limited(key: &str, text: &str) -> Result<Vec<(String, u64, u64)>, String> {
        let node = Node::new();
        node.join("10-ulimit-adjuster", UlimitAdjuster).await.unwrap();
        let mut pod = pod("web");
        pod.annotations.insert(key.to_owned(), text.to_owned());
        let created = node.create(&pod, &container("app", &pod)).await.map_err(|error| nri_plugin::chain(&error))?;
        Ok(created.adjustment.rlimits.into_iter().map(|limit| (limit.kind, limit.soft, limit.hard)).collect())
    }

    const KEY: &str = "ulimits.noderesource.dev/container.app";

    #[tokio::test]
    async fn limits_are_set_by_any_spelling_of_their_names() {
        let text = "- type: RLIMIT_MEMLOCK\n  hard: 987654\n  soft: 645321\n- {type: nofile, hard: 4096, soft: 1024}\n";
        let expected = [("RLIMIT_MEMLOCK".to_owned(), 645321, 987654), ("RLIMIT_NOFILE".to_owned(), 1024, 4096)];
        assert_eq!(limited(KEY, text).await.unwrap(), expected);
        let old = "ulimits.nri.containerd.io/container.app";
        assert_eq!(limited(old, text).await.unwrap(), expected);
        let json = r#"[{"type": "Rlimit_Nofile", "hard": 18446744073709551615, "soft": 1}]"#;
        assert_eq!(limited(KEY, json).await.unwrap(), [("RLIMIT_NOFILE".to_owned(), 1, u64::MAX)]);
    }

    #[tokio::test]
    async fn a_container_without_an_annotation_stays_as_it_is() {
        assert_eq!(limited("ulimits.noderesource.dev/container.other", "- type: nofile").await.unwrap(), []);
        assert_eq!(limited(KEY, "").await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_wrong_annotation_is_refused_by_name() {
        let prefix = "plugin 10-ulimit-adjuster failed to handle CreateContainer request: ";
        for (text, expected) in [
            ("- {type: NOPE, hard: 1, soft: 1}", "failed to parse type: \"NOPE\""),
            ("- {type: nofile, hard: 1, soft: 2}", "ulimit \"RLIMIT_NOFILE\" must have hard limit >= soft limit"),
            ("nofile", "invalid ulimits annotation \"nofile\": "),
            ("- [", "invalid ulimits annotation \"- [\": "),
            ("- {type: &x nofile, hard: 1, soft: 1}\n- {type: *x, hard: 1, soft: 1}", "invalid ulimits annotation "),
        ] {
            let error = limited(KEY, text).await.unwrap_err();
            assert!(error.starts_with(&format!("{prefix}{expected}")), "{text}: {error}");
        }
    }
}
