//! What a container runtime calls to have NRI plugins.
//!
//! - [`Nri`] is the layer: the settings, the plugins, the beginning and the end.
//! - A [`Domain`] is what the runtime implements: the pods and containers of one of its namespaces, and how to update and stop them.
//! - A [`Handle`] is what it calls: a method for each moment in the life of a pod or container. [`PodlessHandle`] is that of a runtime without pods.
//! - With the feature `testing`, `testing` has a domain in memory, and the contract of domains as tests (`cargo doc --features testing` shows it).
//!
//! What goes on is logged by way of [`tracing`](https://docs.rs/tracing).
//!
//! What is promised of each moment, to the runtime and to plugins, is in `docs/lifecycle.md`; how to integrate it step by step, in
//! `docs/guides/runtime-author.md`.
//!
//! A runtime in one file, with a domain of its own and a plugin that is built in:
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
//!     Adjustment, Config, Container, ContainerState, Domain, DomainError, Event, EventMask, Eviction, Field, Inventory, KnownPod,
//!     Nri, Pod, PodState, Update, async_trait,
//! };
//!
//! /// The runtime: what it runs is in these maps.
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
//!             // A real one sets these first. Who joins from now on is shown them, and what was not set stays.
//!             container.resources_mut().update(resources.clone());
//!         }
//!         Ok(())
//!     }
//!     async fn evict(&self, eviction: Eviction) -> Result<(), DomainError> {
//!         let mut containers = self.containers.lock().unwrap();
//!         let container = containers.get_mut(&eviction.container_id).ok_or(DomainError::Gone)?;
//!         // A real one kills it. That it has ended is said by whoever watches processes, as of any other.
//!         container.state = ContainerState::Stopped;
//!         Ok(())
//!     }
//! }
//!
//! /// A plugin that is built in: it tells containers how much to log.
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
//! // A real one lets plugins connect and launches others: `Config::default()`, or what the operator says, `Config::from_toml`.
//! let nri = Nri::new(Config { socket: None, plugin_path: None, ..Config::default() });
//! let node = Arc::new(Node::default());
//! let handle = nri.register("example", node.clone())?;
//! nri.start().await?;
//! nri.admit("10-verbose".parse()?, Arc::new(Verbose)).await?;
//!
//! // A pod is there.
//! let pod = Pod { id: "pod0".to_owned(), name: "web".to_owned(), ..Pod::default() };
//! let run = handle.run_pod(pod.clone()).await?;
//! node.pods.lock().unwrap().insert(pod.id.clone(), pod.clone());
//! run.commit();
//!
//! // A container is created as plugins want it.
//! let mut container =
//!     Container { id: "web0".to_owned(), pod_id: "pod0".to_owned(), name: "web".to_owned(), ..Container::default() };
//! let creation = handle.create_container(pod.clone(), container.clone()).await?;
//! for (name, change) in creation.adjustment().env.iter() {
//!     let owner = creation.owners().owner("web0", Field::Env, name).expect("someone has set it");
//!     println!("{name}: {change:?}, says {}", owner.plugins().collect::<Vec<_>>().join(" and "));
//!     # assert_eq!((name, owner.plugins().next()), ("LOG_LEVEL", Some("10-verbose")));
//! }
//! # assert_eq!(creation.container().env("LOG_LEVEL"), Some("debug"));
//! container.state = ContainerState::Created;
//! node.containers.lock().unwrap().insert(container.id.clone(), container.clone());
//! creation.created(container.clone()).await?;
//!
//! // It runs.
//! let start = handle.start_container(pod.clone(), container.clone()).await?;
//! container.state = ContainerState::Running;
//! node.containers.lock().unwrap().insert(container.id.clone(), container.clone());
//! start.started(container.clone()).await?;
//!
//! // It has exited, and all of it is removed.
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
//! For each pod and container an entry in a concurrent map says where it is in its life. What may be told next is decided by a small machine that
//! knows nothing else (`lifecycle/state.rs`), under the lock of that entry; the request is made right after, and from then on the queue of its pod in
//! `nri-adaptation` keeps the order. No lock is held while anyone waits.
//!
//! # Tasks
//!
//! One per exit; one per start that failed; one per request in which plugins want something stopped; one per end whose caller has left. All of them are waited for by
//! [`Nri::stop`], until its deadline. Those of the adaptation are in its own documentation.

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

/// The code of the guide, which must compile.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../docs/guides/runtime-author.md")]
mod guide {}
