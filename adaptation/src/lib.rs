//! The runtime side of the Node Resource Interface: what a runtime links to relay what happens to
//! its pods and containers to plugins.
//!
//! - [`Adaptation`] lets plugins in: through a socket ([`Adaptation::listen`]), or built in
//!   ([`Adaptation::admit`], [`Plugin`]).
//! - [`Operation`] is one act of the runtime, and the only way to reach plugins. Requests about one
//!   pod go one after the other; different pods overlap, since each plugin has a *lane* of its own.
//! - [`health`] is the state machine that judges a plugin which does not answer, [`policy`] what
//!   the operator says about that, [`Config`] all of it as one TOML table.
//! - [`Source`] is what the adaptation needs from the runtime.
//! - [`merge`] decides what comes out when several plugins adjust one container. It is a pure
//!   function, and not on the way of a request yet. [`dry_run`] tries it by an operator's policies.
//! - [`ledger`] remembers who changed what. Nothing writes to it yet.
//!
//! A runtime in one file, with a plugin that is built in:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use async_trait::async_trait;
//! use nri_adaptation::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
//! use nri_adaptation::request::Request;
//! use nri_adaptation::snapshot::Snapshot;
//! use nri_adaptation::{Adaptation, Config, Notice, Source};
//! use nri_proto::event::WireEvents;
//! use nri_proto::{Container, Event, Eviction, FailurePolicy, Pod, PluginId, Update};
//!
//! /// The runtime: it has no containers yet, and makes no updates.
//! struct Node;
//!
//! #[async_trait]
//! impl Source for Node {
//!     async fn snapshot(&self) -> Snapshot {
//!         Snapshot::default()
//!     }
//!     async fn apply(&self, _: &PluginId, updates: Vec<Update>, _: Vec<Eviction>) -> Vec<Update> {
//!         updates
//!     }
//! }
//!
//! /// A plugin: it lets no container start whose name is "evil".
//! struct Guard;
//!
//! #[async_trait]
//! impl Plugin for Guard {
//!     async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
//!         let events = WireEvents { known: Event::StartContainer.into(), unknown: 0 };
//!         Ok(Subscription { events, declared: FailurePolicy::default() })
//!     }
//!     async fn ask(self: Arc<Self>, request: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
//!         match request.container() {
//!             Some(container) if container.name == "evil" => Err(PluginError::refused("it is evil")),
//!             _ => Ok(Reply::Heard),
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! // With a socket in its configuration, plugins may also connect: `nri.listen()?`.
//! let nri = Adaptation::new(Config { socket: None, ..Config::default() }, Arc::new(Node));
//! nri.admit("10-guard".parse()?, Arc::new(Guard)).await?;
//!
//! let operation = nri.begin(Pod { id: "pod0".to_owned(), ..Pod::default() });
//! let container = |name: &str| Container { name: name.to_owned(), ..Container::default() };
//! operation.notify(Notice::Start(container("good"))).await?;
//! let refused = operation.notify(Notice::Start(container("evil"))).await.unwrap_err();
//! assert_eq!(refused.to_string(), "plugin 10-guard failed to handle StartContainer request");
//! operation.commit();
//!
//! nri.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! What is not here yet: the merge on the way of a request, so [`Operation`] returns what each plugin
//! said; validation; the journal that makes joining exact, and plugins that the runtime launches itself.
//!
//! # Tasks
//!
//! All of them are waited for by [`Adaptation::stop`]: one that accepts connections; for each
//! connection one that lets it in, and then one that serves what the plugin calls; for each plugin
//! one that waits until it is gone; and for each answer that is late, or that nobody waits for any
//! more, one that waits for it.

mod adaptation;
mod asked;
mod budget;
mod cause;
mod chain;
pub mod config;
mod connection;
mod default_validator;
pub mod dry_run;
mod entry;
mod events;
pub mod health;
pub mod ledger;
mod listener;
pub mod merge;
mod merging;
mod missed;
mod operation;
pub mod plugin;
pub mod policy;
mod question;
mod records;
mod remote;
pub mod request;
mod requirements;
mod roster;
mod settings;
mod shared;
pub mod snapshot;
pub mod socket;
mod source;
mod turns;
mod unasked;
mod validation;

pub use adaptation::{Adaptation, AdmitError, PluginStatus};
pub use cause::{Cause, Failure, RelayError, StopError};
pub use config::Config;
pub use events::{Happening, Metrics, NoMetrics};
pub use operation::{Notice, Operation};
pub use plugin::Plugin;
pub use source::{Source, SourceError};

#[cfg(test)]
mod tests;
