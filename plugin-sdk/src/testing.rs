//! A runtime in the same process, for tests of plugins: without root, without containers, in
//! milliseconds.
//!
//! - [`Node`] (`testing/node.rs`) is the runtime: it creates, updates and stops containers, and
//!   shows what the plugins did.
//! - [`JoinError`] (`testing/join.rs`) is why a plugin did not join the node.
//! - The snapshot that plugins get, and the updates they ask for, are in `testing/fake_source.rs`.
//!
//! A node has plugins, but no real containers. A test reports events about pods and containers to
//! the node, and checks the results: the merged changes of all plugins, which plugin changed what,
//! and the updates that plugins asked for on their own. The node is the adaptation that runtimes
//! use. The plugins connect to it with the real protocol, over a pipe in memory.
//!
//! If a plugin subscribes to an event without overriding its handler, the event fails in tests.
//!
//! ```
//! use nri_plugin::testing::{Node, container, pod};
//! use nri_plugin::{
//!     Adjustment, Container, Context, CreateReply, EnvVar, Event, EventMask, Plugin, Pod, Refusal,
//!     async_trait,
//! };
//!
//! struct Greeter;
//!
//! #[async_trait]
//! impl Plugin for Greeter {
//!     fn events(&self) -> EventMask {
//!         Event::CreateContainer.into()
//!     }
//!
//!     async fn create_container(
//!         &self,
//!         _: &Context,
//!         pod: Pod,
//!         _: Container,
//!     ) -> Result<CreateReply, Refusal> {
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
//!     let greeting = created.adjustment.env.get("GREETING").unwrap();
//!     assert_eq!(greeting.value().unwrap().value, "hello web");
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

/// Creates a pod with this name and id, in the namespace `default`.
pub fn pod(name: &str) -> Pod {
    Pod { id: name.to_owned(), name: name.to_owned(), namespace: "default".to_owned(), ..Pod::default() }
}

/// Creates a container with this name and id, in a pod.
pub fn container(name: &str, pod: &Pod) -> Container {
    Container { id: name.to_owned(), name: name.to_owned(), pod_id: pod.id.clone(), ..Container::default() }
}
