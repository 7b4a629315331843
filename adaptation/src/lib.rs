//! The runtime side of the Node Resource Interface: what a runtime links to relay what happens to
//! its pods and containers to plugins.
//!
//! - [`Adaptation`] lets plugins in: programs that it starts itself ([`Adaptation::launch`]),
//!   through a socket ([`Adaptation::listen`]), or built in ([`Adaptation::admit`], [`Plugin`]).
//! - [`Operation`] is one act of the runtime, and the only way to reach plugins. Requests about one
//!   pod go one after the other; different pods overlap, since each plugin has a *lane* of its own.
//! - [`health`] is the state machine that judges a plugin which does not answer, [`policy`] what
//!   the operator says about that, [`Config`] all of it as one TOML table.
//! - [`Source`] is what the adaptation needs from the runtime. A plugin may join at any moment: it
//!   is shown what there is, and told what happens meanwhile.
//! - [`merge`] decides what comes out when several plugins adjust one container, [`ledger`]
//!   remembers who changed what ([`Adaptation::ledger`]), [`dry_run`] tries replies without any
//!   plugin. All three are pure.
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
//! use nri_adaptation::{Adaptation, Config, Notice, Source, UpdatesFailed};
//! use nri_proto::event::EventMask;
//! use nri_proto::{Adjustment, Container, CreateReply, EnvVar, Event, Eviction, Field, Pod, PluginId, Update};
//!
//! /// The runtime: it has no containers yet, and makes no updates.
//! struct Node;
//!
//! #[async_trait]
//! impl Source for Node {
//!     async fn snapshot(&self) -> Snapshot {
//!         Snapshot::default()
//!     }
//!     async fn apply(&self, _: &PluginId, updates: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
//!         Ok(updates)
//!     }
//! }
//!
//! /// A plugin: it tells containers how much to log, and lets none start whose name is "evil".
//! struct Guard;
//!
//! #[async_trait]
//! impl Plugin for Guard {
//!     async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
//!         let events: EventMask = [Event::CreateContainer, Event::StartContainer].into_iter().collect();
//!         Ok(events.into())
//!     }
//!     async fn ask(self: Arc<Self>, request: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
//!         if request.event() == Event::CreateContainer {
//!             let mut adjustment = Adjustment::default();
//!             adjustment.env.set(EnvVar::new("LOG_LEVEL", "debug")).expect("it has no dash");
//!             return Ok(CreateReply::from(adjustment).into());
//!         }
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
//! let container = |name: &str| Container { id: format!("{name}0"), name: name.to_owned(), ..Container::default() };
//! let merged = operation.create_container(container("good")).await?;
//! assert!(merged.adjustment.env.get("LOG_LEVEL").is_some());
//! operation.notify(Notice::Start(container("good"))).await?;
//! let refused = operation.notify(Notice::Start(container("evil"))).await.unwrap_err();
//! assert_eq!(refused.to_string(), "plugin 10-guard failed to handle StartContainer request");
//! operation.commit();
//!
//! // Who changed what?
//! let why = nri.ledger(|ledger| ledger.why("good0", Field::Env, Some("LOG_LEVEL")));
//! assert!(why[0].to_string().starts_with("10-guard set Env LOG_LEVEL: debug"));
//!
//! nri.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Tasks
//!
//! All of them are waited for by [`Adaptation::stop`]: one that accepts connections; for each
//! connection one that lets it in, and then one that serves what the plugin calls; for each plugin
//! one that waits until it is gone, and at times one that tells it what it missed; for each answer
//! that is late, or that nobody waits for any more, one that waits for it; for each operation that
//! failed one that undoes it; and one that looks for operations that nobody ends. One looks at the
//! directory of plugins to launch, and each of those has one that keeps it running and two that
//! read what it writes.

mod adaptation;
mod api;
pub mod config;
mod events;
mod launch;
pub mod ledger;
mod limits;
pub mod merge;
mod operation;
mod registry;
mod reply;
mod session;
mod transport;

pub use adaptation::readiness::{Absence, Demand, Missing, NotReady};
pub use adaptation::{Adaptation, PluginStatus};
pub use api::error::{Cause, Failure, RelayError, StopError};
pub use api::source::{Source, SourceError, UpdatesFailed};
pub use api::{health, plugin, queue, request, snapshot};
pub use config::{Config, policy};
pub use events::{Happening, Metrics, NoMetrics};
pub use launch::{LaunchError, UntrustedPath};
pub use operation::{Known, Notice, Operation, Prior};
pub use plugin::Plugin;
pub use registry::admission::AdmitError;
pub use reply::dry_run;
pub use transport::socket;

#[cfg(test)]
mod tests;
