//! Write a plugin for the Node Resource Interface (NRI): it is told what happens to the pods and containers of a node, and
//! changes containers as they are created and while they run.
//!
//! A plugin is a type that says what it wants to hear of ([`Plugin::events`]) and what it does then, one method for each event. What it
//! changes is plain Rust: an [`Adjustment`] of a container that is being created, an [`Update`] of one that exists, an [`Eviction`], a
//! [`Verdict`] about what all plugins want. [`run`] connects it to the runtime, whichever that is: containerd, CRI-O, or one on
//! `nri-adaptation`.
//!
//! ```
//! use nri_plugin::{
//!     Adjustment, Container, Context, CreateReply, EnvVar, Event, EventMask, Hook, Mount, Plugin, Pod, Refusal, Rlimit, async_trait,
//! };
//!
//! /// Gives containers of pods that ask for it a cache, and lets them know.
//! struct Cache;
//!
//! #[async_trait]
//! impl Plugin for Cache {
//!     fn events(&self) -> EventMask {
//!         Event::CreateContainer.into()
//!     }
//!
//!     async fn create_container(&self, _: &Context, pod: Pod, container: Container) -> Result<CreateReply, Refusal> {
//!         let Some(size) = pod.annotation("cache.example.org/size") else { return Ok(CreateReply::default()) };
//!         let size: i64 = size.parse()?;
//!
//!         let mut adjustment = Adjustment::default();
//!         adjustment.env.set(EnvVar::new("CACHE_SIZE", size.to_string()))?;
//!         adjustment.env.remove("NO_CACHE");
//!         adjustment.mounts.set(Mount::bind("/var/cache/apps", "/cache", ["rw"]))?;
//!         adjustment.annotations.replace("cache.example.org/given-to", &*container.name)?;
//!         adjustment.rlimits.push(Rlimit::new("RLIMIT_MEMLOCK", 1 << 20, 1 << 20));
//!         adjustment.hooks_mut().poststop.push(Hook::new("/usr/bin/clean-cache", ["clean-cache"]));
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
//!     // In a program this is `nri_plugin::run(Cache, nri_plugin::Options::default()).await?`. Here a runtime in the same process asks it.
//!     use nri_plugin::testing::{Node, container, pod};
//!
//!     let (node, mut pod) = (Node::new(), pod("web"));
//!     node.join("10-cache", Cache).await?;
//!     pod.annotations.insert("cache.example.org/size".to_owned(), "1048576".to_owned());
//!     let created = node.create(&pod, &container("app", &pod)).await?;
//!     assert_eq!(created.adjustment.mounts.get("/cache").unwrap().value().unwrap().source, "/var/cache/apps");
//!     assert!(node.changes("app").contains(&"10-cache set Env CACHE_SIZE: 1048576".to_owned()));
//!     Ok(())
//! }
//! ```
//!
//! Where to go on:
//!
//! - [`Plugin`]: all that a plugin can hear and say. [`Context`] and [`Runtime`]: to ask the runtime for something, in a handler or at any time.
//! - [`Options`]: who the plugin is and how it reaches its runtime. By default that is as with Go's plugins: `NRI_PLUGIN_NAME`, `NRI_PLUGIN_IDX` and
//!   `NRI_PLUGIN_SOCKET` of a runtime that launches it, or the program's name, such as `10-cache`, and `/var/run/nri/nri.sock`.
//! - `cli` (feature `cli`): the flags that every plugin has, a log, and a `main`.
//! - `testing` (feature `testing`): a runtime in the same process, for tests.
//! - `examples/`: `logger`, `ulimit-adjuster`, `device-injector` and `hook-injector`, in the place of upstream's plugins of these names.
//!
//! What the crate does by itself:
//!
//! - Each step of getting in has a limit, and a runtime that leaves or talks nonsense is an error at once. What a runtime can make the plugin hold has a
//!   bound in bytes.
//! - A runtime that restarts is connected to again, with a back-off, and tells anew what there is.
//! - A runtime that is too old for an event is not asked for it, and that is logged: it would refuse the plugin otherwise.
//! - A handler that panics is an answer that says no. One that runs when the plugin is told to stop is waited for, up to a limit.
//!
//! # Tasks
//!
//! For each connection: those of [`nri_proto::mux`] and [`nri_proto::call`], and one that serves what the runtime asks, with a task for each
//! request. All of them have ended when [`Runner::run`] returns, but for a handler that takes longer than [`Options::grace`].

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
pub use nri_proto::words::*;
pub use nri_proto::{Event, EventMask, PluginId};

pub use connection::{ConnectError, Connection, DialFuture, Dialer, InheritedError, Stream};
pub use plugin::{Context, Introduction, Plugin, Refusal, chain};
pub use runner::{Backoff, IdentityError, Options, OptionsError, RunError, Runner, run, stop_signal};
pub use runtime::{Runtime, UpdateError};

#[cfg(test)]
mod tests;
