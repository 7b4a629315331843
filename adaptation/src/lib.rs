//! The runtime side of the Node Resource Interface (NRI). A container runtime links this crate to
//! notify plugins of the life of its pods and containers, and to ask them for changes.
//!
//! - [`Adaptation`] manages the plugins: programs that it launches ([`Adaptation::launch`]),
//!   processes that connect to a socket ([`Adaptation::listen`]), and plugins that are part of the
//!   runtime ([`Adaptation::admit`], [`Plugin`]).
//! - [`Operation`] is one action of the runtime, and the only way to send requests to plugins.
//!   Requests about one pod run one after the other, requests about different pods overlap. A
//!   request to a plugin takes a *lane*: the permit to ask that plugin now.
//! - [`health`] is the state machine for plugins that do not answer. [`policy`] holds the
//!   operator's settings for plugins, and [`Config`] is the whole configuration, which an operator
//!   writes as one TOML table.
//! - [`Source`] is the interface of the runtime that the adaptation needs. A plugin may join at any
//!   time: the plugin receives a snapshot of pods and containers, and then the events that happened
//!   meanwhile.
//! - [`merge`] combines the replies of several plugins about one container. [`ledger`] records
//!   which plugin changed what ([`Adaptation::ledger`]). [`dry_run`] merges replies without
//!   plugins. All three are pure: they do no I/O.
//!
//! A runtime in one file, with a built-in plugin:
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
//! The crate spawns the tasks below. [`Adaptation::stop`] waits for all of them.
//!
//! - One for the socket: accepts connections.
//! - One per connection: registers the plugin, then serves the plugin's calls.
//! - One per plugin: waits until the plugin is closed or has disconnected, and removes it.
//! - One per plugin that was replaced: closes the plugin when the operations that it takes part in
//!   have ended.
//! - One per plugin that catches up: closes the plugin if no progress is made. One per suspended
//!   plugin: waits for the end of the pause. One per missed event: delivers the event.
//! - One per answer that is late, or whose caller has left: waits for the answer. Another one
//!   applies the changes of a late answer.
//! - One per request that is sent to all plugins even if one fails, such as a stop or a removal.
//! - One per failed operation: rolls the operation back.
//! - One for all operations: reports operations that stay open for too long.
//! - One for the directory of plugins: launches new programs. One per launched program: keeps the
//!   program running. Two per process: forward its output to the log.

mod adaptation;
mod api;
pub mod config;
mod events;
mod launch;
pub mod ledger;
mod limits;
pub mod merge;
mod mistake;
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
pub use operation::{KnownState, KnownStates, Notice, Operation};
pub use plugin::Plugin;
pub use registry::admission::AdmitError;
pub use reply::dry_run;
pub use session::log_throttle::PluginLogThrottle;
pub use transport::socket;

#[cfg(test)]
mod tests;
