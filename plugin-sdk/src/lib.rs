//! An SDK for plugins of the Node Resource Interface (NRI). A plugin is notified of events in the
//! life of pods and containers on a node, and can change containers at creation and while they run.
//!
//! A plugin is a type that implements [`Plugin`]: [`Plugin::events`] is its subscription, and each
//! event has a handler. Changes are plain Rust values: an [`Adjustment`] of a container that is
//! being created, an [`Update`] of an existing container, an [`Eviction`], or a [`Verdict`] of a
//! validator. [`run`] connects the plugin to its runtime: containerd, CRI-O, or a runtime on
//! `nri-adaptation`.
//!
//! ```
//! use nri_plugin::{
//!     Adjustment, Container, Context, CreateReply, EnvVar, Event, EventMask, Hook, Mount, Plugin,
//!     Pod, Refusal, Rlimit, async_trait,
//! };
//!
//! /// Mounts a cache into the containers of annotated pods, and tells them its size.
//! struct Cache;
//!
//! #[async_trait]
//! impl Plugin for Cache {
//!     fn events(&self) -> EventMask {
//!         Event::CreateContainer.into()
//!     }
//!
//!     async fn create_container(
//!         &self,
//!         _: &Context,
//!         pod: Pod,
//!         container: Container,
//!     ) -> Result<CreateReply, Refusal> {
//!         let Some(size) = pod.annotation("cache.example.org/size") else {
//!             return Ok(CreateReply::default());
//!         };
//!         let size: i64 = size.parse()?;
//!
//!         let mut adjustment = Adjustment::default();
//!         adjustment.env.set(EnvVar::new("CACHE_SIZE", size.to_string()))?;
//!         adjustment.env.remove("NO_CACHE");
//!         adjustment.mounts.set(Mount::bind("/var/cache/apps", "/cache", ["rw"]))?;
//!         adjustment.annotations.replace("cache.example.org/given-to", &*container.name)?;
//!         adjustment.rlimits.push(Rlimit::new("RLIMIT_MEMLOCK", 1 << 20, 1 << 20));
//!         let clean_up = Hook::new("/usr/bin/clean-cache", ["clean-cache"]);
//!         adjustment.hooks_mut().poststop.push(clean_up);
//!         adjustment.resources_mut().memory_mut().limit = Some(size + (64 << 20));
//!         adjustment.linux_mut().sysctl.set("net.core.somaxconn", "1024")?;
//!         Ok(adjustment.into())
//!     }
//! }
//!
//! # #[cfg(not(feature = "testing"))] fn main() {}
//! # #[cfg(feature = "testing")]
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // A program calls `nri_plugin::run(Cache, nri_plugin::Options::default()).await?` instead.
//!     // This example uses a runtime in the same process.
//!     use nri_plugin::testing::{Node, container, pod};
//!
//!     let (node, mut pod) = (Node::new(), pod("web"));
//!     node.join("10-cache", Cache).await?;
//!     pod.annotations.insert("cache.example.org/size".to_owned(), "1048576".to_owned());
//!     let created = node.create(&pod, &container("app", &pod)).await?;
//!     let mount = created.adjustment.mounts.get("/cache").unwrap();
//!     assert_eq!(mount.value().unwrap().source, "/var/cache/apps");
//!     let change = "10-cache set Env CACHE_SIZE: 1048576".to_owned();
//!     assert!(node.changes("app").contains(&change));
//!     Ok(())
//! }
//! ```
//!
//! Where to continue:
//!
//! - [`Plugin`] has a handler for each event. [`Context`] and [`Runtime`] are for calling the
//!   runtime, in a handler or at any time.
//! - [`Options`] are the identity, the connection and the limits of a plugin. The defaults are
//!   those of plugins on Go's stub: if a runtime launches the plugin, it sets `NRI_PLUGIN_NAME`,
//!   `NRI_PLUGIN_IDX` and `NRI_PLUGIN_SOCKET`. Otherwise, index and name come from the name of the
//!   program, such as `10-cache`, and the socket is `/var/run/nri/nri.sock`.
//! - `cli` (feature `cli`) has the flags that every plugin has, a log, and a `main`.
//! - `testing` (feature `testing`) has a runtime in the same process, for tests.
//! - `examples/` has `logger`, `ulimit-adjuster`, `device-injector` and `hook-injector`, which can
//!   replace upstream's plugins of these names.
//!
//! What the crate handles for a plugin:
//!
//! - Timeouts: each step of the registration has a timeout. If the runtime disconnects or breaks
//!   the protocol, [`run`] returns an error at once or reconnects. The memory that a runtime can
//!   make the plugin use is limited.
//! - Reconnection: after a restart of the runtime, the plugin reconnects with a back-off, and is
//!   synchronized again.
//! - Older runtimes: the plugin does not subscribe to events that the runtime does not support,
//!   since the runtime would reject the plugin. A warning names these events.
//! - Panics: if a handler panics, the request is refused.
//! - Shutdown: when the plugin is stopped, running handlers can finish, up to a timeout.
//!
//! # Tasks
//!
//! Each connection has the tasks of [`nri_proto::mux`] and [`nri_proto::call`], and a task that
//! serves the requests of the runtime, with one task per request. All of them have ended when
//! [`Runner::run`] returns, except handlers that take longer than [`Options::grace`].

// The order of these rooms is in docs/architecture.md: a room imports only from lower ones.
#[cfg(feature = "cli")]
pub mod cli;
mod connection;
mod plugin;
mod runner;
mod runtime;
mod service;
#[cfg(feature = "testing")]
pub mod testing;

pub use async_trait::async_trait;
pub use nri_proto as proto;
pub use nri_proto::model::*;
pub use nri_proto::{Event, EventMask, PluginId};

pub use connection::{ConnectError, Connection, DialFuture, Dialer, InheritedError, Stream};
pub use plugin::{Context, Introduction, Plugin, Refusal, chain};
pub use runner::{Backoff, IdentityError, Options, OptionsError, RunError, Runner, run, stop_signal};
pub use runtime::{Runtime, UpdateError};

#[cfg(test)]
mod tests;
