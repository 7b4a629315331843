//! The API that a container runtime calls to support NRI plugins.
//!
//! - [`Nri`] is the entry point: settings, plugins, start and stop.
//! - A [`Domain`] is what the runtime implements: the pods and containers of one namespace, and how
//!   to update and stop them.
//! - A [`Handle`] is what the runtime calls: one method for each moment in the life of a pod or
//!   container. A runtime without pods has a [`PodlessHandle`].
//! - The feature `testing` adds the module `testing`: a domain in memory, and the contract of
//!   domains as checks (`cargo doc --features testing` shows it).
//!
//! Logs are written with [`tracing`](https://docs.rs/tracing).
//!
//! `docs/lifecycle.md` defines what the runtime and plugins may rely on at each moment.
//! `docs/guides/runtime-author.md` explains step by step how to integrate the crate.
//!
//! An example: a runtime in one file, with its own domain and a built-in plugin.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//!
//! use nri_api::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
//! use nri_api::proto::{CreateReply, EnvVar};
//! use nri_api::request::Request;
//! use nri_api::{
//!     Adjustment, Config, Container, ContainerState, Domain, DomainError, Event, EventMask,
//!     Eviction, Field, Inventory, KnownPod, Nri, Pod, PodState, Update, async_trait,
//! };
//!
//! /// The runtime: these maps contain its pods and containers.
//! #[derive(Default)]
//! struct Node {
//!     pods: Mutex<BTreeMap<String, Pod>>,
//!     containers: Mutex<BTreeMap<String, Container>>,
//! }
//!
//! #[async_trait]
//! impl Domain for Node {
//!     async fn inventory(&self) -> Inventory {
//!         let known = |pod: &Pod| KnownPod { pod: pod.clone(), state: PodState::Running };
//!         let pods = self.pods.lock().unwrap().values().map(known).collect();
//!         let containers = self.containers.lock().unwrap().values().cloned().collect();
//!         Inventory { pods, containers }
//!     }
//!     async fn update(&self, update: Update) -> Result<(), DomainError> {
//!         let mut containers = self.containers.lock().unwrap();
//!         let container = containers.get_mut(&update.container_id).ok_or(DomainError::Gone)?;
//!         if let Some(resources) = update.resources() {
//!             // A real runtime sets these limits first. Limits that are not set stay. Plugins
//!             // that join from now on are shown the new limits.
//!             container.resources_mut().update(resources.clone());
//!         }
//!         Ok(())
//!     }
//!     async fn evict(&self, eviction: Eviction) -> Result<(), DomainError> {
//!         let mut containers = self.containers.lock().unwrap();
//!         let container = containers.get_mut(&eviction.container_id).ok_or(DomainError::Gone)?;
//!         // A real runtime kills the container, and reports its exit like any other exit.
//!         container.state = ContainerState::Stopped;
//!         Ok(())
//!     }
//! }
//!
//! /// A built-in plugin: it sets the log level of containers.
//! struct Verbose;
//!
//! #[async_trait]
//! impl Plugin for Verbose {
//!     async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
//!         Ok(EventMask::from(Event::CreateContainer).into())
//!     }
//!     async fn ask(self: Arc<Self>, _: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
//!         let mut adjustment = Adjustment::default();
//!         adjustment.env.set(EnvVar::new("LOG_LEVEL", "debug")).expect("it has no dash");
//!         Ok(CreateReply::from(adjustment).into())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! // A real runtime listens for plugins and launches plugins: use `Config::default()`, or the
//! // operator's settings with `Config::from_toml`.
//! let nri = Nri::new(Config { socket: None, plugin_path: None, ..Config::default() });
//! let node = Arc::new(Node::default());
//! let handle = nri.register("example", node.clone())?;
//! nri.start().await?;
//! nri.admit("10-verbose".parse()?, Arc::new(Verbose)).await?;
//!
//! // Run a pod.
//! let pod = Pod { id: "pod0".to_owned(), name: "web".to_owned(), ..Pod::default() };
//! let run = handle.run_pod(pod.clone()).await?;
//! node.pods.lock().unwrap().insert(pod.id.clone(), pod.clone());
//! run.commit();
//!
//! // Create a container, with the changes that plugins want.
//! let mut container = Container {
//!     id: "web0".to_owned(),
//!     pod_id: "pod0".to_owned(),
//!     name: "web".to_owned(),
//!     ..Container::default()
//! };
//! let creation = handle.create_container(pod.clone(), container.clone()).await?;
//! for (name, change) in creation.adjustment().env.iter() {
//!     let owner = creation.owners().owner("web0", Field::Env, name).expect("a plugin has set it");
//!     println!("{name}: {change:?}, says {}", owner.plugins().collect::<Vec<_>>().join(" and "));
//!     # assert_eq!((name, owner.plugins().next()), ("LOG_LEVEL", Some("10-verbose")));
//! }
//! # assert_eq!(creation.container().env("LOG_LEVEL"), Some("debug"));
//! container.state = ContainerState::Created;
//! node.containers.lock().unwrap().insert(container.id.clone(), container.clone());
//! creation.created(container.clone()).await?;
//!
//! // Start the container.
//! let start = handle.start_container(pod.clone(), container.clone()).await?;
//! container.state = ContainerState::Running;
//! node.containers.lock().unwrap().insert(container.id.clone(), container.clone());
//! start.started(container.clone()).await?;
//!
//! // The container exits. Remove the pod and the container.
//! container.exit_code = 1;
//! handle.container_exited(pod.clone(), container.clone());
//! handle.remove_pod(pod.clone()).await?;
//! node.containers.lock().unwrap().clear();
//! node.pods.lock().unwrap().clear();
//!
//! nri.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! For each pod and container, an entry in a concurrent map contains a pure state machine
//! (`lifecycle/state.rs`). Under the lock of the entry, the state machine decides what plugins may
//! be told next. The request is sent right after that; from then on the queue of the pod in
//! `nri-adaptation` keeps the order. No lock is held across an await.
//!
//! The modules build on each other in this order, the lowest first: `mistake`, `error`, `domain`,
//! `lifecycle`, `instance`, `client`, `handle`, `nri`, and `testing`, which uses `domain` alone.
//! Each begins with a guide to its files.
//!
//! # Tasks
//!
//! The crate spawns a task for each exit, for each first start that fails, for each request in
//! whose replies plugins want evictions, and for each end whose caller has left. [`Nri::stop`]
//! waits for these tasks until its deadline. A create, a start, an update and the run of a pod have
//! a task each, which ends when the future of the request is dropped. The documentation of
//! `nri-adaptation` lists the adaptation's tasks.

mod client;
mod domain;
mod error;
mod handle;
mod instance;
mod lifecycle;
mod mistake;
mod nri;
#[cfg(feature = "testing")]
pub mod testing;

pub use client::create::{Creation, PodRun};
pub use client::start::Start;
pub use client::update::{ContainerUpdate, PodUpdate};
pub use domain::{Domain, DomainError, Inventory, KnownPod, PodState};
pub use error::{AdmitError, Error, ObjectKind, RegisterError, StartError};
pub use handle::Handle;
pub use handle::podless::PodlessHandle;
pub use instance::startup::LostExits;
pub use lifecycle::state::State;
#[cfg(feature = "mistakes")]
#[doc(hidden)]
pub use mistake::Mistake;
pub use nri::Nri;

pub use async_trait::async_trait;
pub use nri_adaptation::config;
pub use nri_adaptation::health::State as PluginState;
pub use nri_adaptation::ledger;
pub use nri_adaptation::plugin;
pub use nri_adaptation::policy;
pub use nri_adaptation::queue;
pub use nri_adaptation::request;
pub use nri_adaptation::snapshot;
pub use nri_adaptation::{
    Absence, Cause, Config, Demand, Failure, Happening, Metrics, Missing, NoMetrics, NotReady, Plugin, PluginStatus,
    RelayError,
};
pub use nri_proto as proto;
pub use nri_proto::{
    Adjustment, Container, ContainerState, Event, EventMask, Eviction, Field, LinuxContainer, LinuxPod, Owner, Owners,
    PluginId, Pod, Resources, Update,
};

/// The code of the guide for runtime authors, which must compile.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../docs/guides/runtime-author.md")]
mod guide {}
