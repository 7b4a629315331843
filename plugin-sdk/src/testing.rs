//! The runtime side in the same process, to test a plugin with: no root, no containers, milliseconds.
//!
//! A [`Node`] has plugins and no containers of its own. A test tells it what happens to which, and looks at what comes out: what the plugins change together,
//! who changed what, and what they asked for by themselves. It is the adaptation that runtimes use, and plugins are reached over the
//! wire, through a pipe in memory.
//!
//! A plugin that subscribes to an event and has no handler for it fails the event here.
//!
//! ```
//! use nri_plugin::testing::{Node, container, pod};
//! use nri_plugin::{Adjustment, Container, Context, CreateReply, EnvVar, Event, EventMask, Plugin, Pod, Refusal, async_trait};
//!
//! struct Greeter;
//!
//! #[async_trait]
//! impl Plugin for Greeter {
//!     fn events(&self) -> EventMask {
//!         Event::CreateContainer.into()
//!     }
//!
//!     async fn create_container(&self, _: &Context, pod: Pod, _: Container) -> Result<CreateReply, Refusal> {
//!         let mut adjustment = Adjustment::default();
//!         adjustment.env.set(EnvVar::new("GREETING", format!("hello {}", pod.name)))?;
//!         Ok(adjustment.into())
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let node = Node::new();
//!     node.join("10-greeter", Greeter).await?;
//!
//!     let pod = pod("web");
//!     let created = node.create(&pod, &container("app", &pod)).await?;
//!
//!     assert_eq!(created.adjustment.env.get("GREETING").unwrap().value().unwrap().value, "hello web");
//!     assert_eq!(node.changes("app")[0], "10-greeter set Env GREETING: hello web");
//!     Ok(())
//! }
//! ```

mod fake_source;
mod join;
mod node;

pub use nri_adaptation::merge::{AskedEviction, MergedCreate, MergedStop, MergedUpdate};
pub use nri_adaptation::snapshot::Snapshot;
pub use nri_adaptation::socket::BindError;
pub use nri_adaptation::{Adaptation, Config, Notice, RelayError, StopError};
use nri_proto::{Container, Pod};

pub use self::join::JoinError;
pub use self::node::Node;

/// A pod of this name, with the same id.
pub fn pod(name: &str) -> Pod {
    Pod { id: name.to_owned(), name: name.to_owned(), namespace: "default".to_owned(), ..Pod::default() }
}

/// A container of this name in a pod, with the same id.
pub fn container(name: &str, pod: &Pod) -> Container {
    Container { id: name.to_owned(), name: name.to_owned(), pod_id: pod.id.clone(), ..Container::default() }
}
