//! Builds containerd shims from plugins, and runs them under every containerd from 1.6 to 2.4.
//!
//! - [`Plugin`] is a part of a shim. Its [`Slot`] ties its name to the Rust type that it provides.
//!   A plugin asks for other plugins by their slots ([`Request`]), and its initialization returns
//!   what it contributes ([`Provided`]): ttrpc services, interceptors, shutdown hooks.
//! - [`graph`] puts plugins in order, or returns everything that is wrong with them. It is pure.
//! - [`Shim`] is the program, with the actions `start`, `delete`, `serve`, `plugins ls` and
//!   `plugins graph`, and the flags `-info` and `-v`. All that a shim reads from its process is an
//!   [`Environment`](runner::Environment), so a shim can be tested in one process, with the fake
//!   containerd of `testing`.
//! - Every shim has three plugins: the [`Publisher`] of events, the [`Shutdown`] service and the
//!   [`Reaper`] of processes.
//!
//! The modules, lowest first; each uses only those before it: [`graph`], [`config`], [`process`],
//! [`events`], `server`, `plugin`, `load`, [`runner`], `testing`.
//!
//! A complete shim, which runs nothing:
//!
//! ```
//! use std::sync::Arc;
//!
//! use shim_plugins::task::{Task, api};
//! use shim_plugins::{Configuration, Plugin, Provided, Registry, Shim, Slot};
//! use shim_plugins::{SHUTDOWN, Shutdown, TASK};
//! use shim_plugins::ttrpc::{self, r#async::TtrpcContext};
//!
//! /// The Task service of containerd. A method that is not written answers `UNIMPLEMENTED`.
//! struct Nothing(Arc<Shutdown>);
//!
//! #[async_trait::async_trait]
//! impl Task for Nothing {
//!     async fn shutdown(
//!         &self,
//!         _: &TtrpcContext,
//!         _: api::ShutdownRequest,
//!     ) -> ttrpc::Result<api::Empty> {
//!         self.0.request();
//!         Ok(api::Empty::new())
//!     }
//! }
//!
//! fn shim() -> Shim {
//!     let task = Plugin::at(TASK).asks(SHUTDOWN).init(|_, shutdown| async {
//!         let task: Arc<dyn Task + Send + Sync> = Arc::new(Nothing(shutdown));
//!         Ok(Provided::new(Arc::clone(&task)).task(task))
//!     });
//!     Shim::new("io.containerd.nothing.v1", "0.1.0").plugin(task)
//! }
//! // fn main() -> std::process::ExitCode { shim().run() }
//!
//! // Plugins can be loaded, inspected and ended without a shim.
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! const CLOCK: Slot<str> = Slot::new("io.example.clock.v1", "wall");
//! let clock = Plugin::at(CLOCK).init(|_, ()| async { Ok(Provided::new(Arc::from("noon"))) });
//! let registry = Registry::new().with(clock);
//! let mut loaded = registry.load(&Configuration::default(), Arc::default()).await.unwrap();
//! assert_eq!(loaded.outcome(&CLOCK.uri()).unwrap().to_string(), "ok");
//! loaded.end().await;
//! # }
//! ```
//!
//! With the feature `grpc`, services are also available over gRPC, and over TCP where a plugin asks
//! for it: see the module `grpc`.
//!
//! This crate contains nothing about runc.
//!
//! # Tasks
//!
//! The server of a shim runs these tasks: one that sends events, one that collects orphans, one for
//! each process that is awaited, one for each call, one for the debug socket, and the tasks of the
//! ttrpc server; with gRPC, one for each connection and one for each TCP listener. All tasks end
//! with the server, or are abandoned after a limit. All run on one thread, which is not the first
//! thread: Linux gives orphans to the first thread, which only waits (see [`Reaper`]).

pub mod config;
pub mod events;
pub mod graph;
mod load;
mod plugin;
pub mod process;
pub mod runner;
mod server;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[doc(inline)]
pub use config::Configuration;
#[doc(inline)]
pub use events::{PUBLISHER, Publisher};
#[doc(inline)]
pub use graph::{AllOfKind, Interface, Kind, LoadAfter, OneOfKind, OptionalSlot, Slot, Uri};
pub use load::{EndOutcome, LoadError, Loaded, Registry};
pub use plugin::{
    DEFAULT_HOOK_LIMIT, DEFAULT_INIT_LIMIT, DependencyError, FailurePolicy, InitContext, InitError, InitFailure,
    LoadOutcome, LoadedValues, Plugin, PluginBuilder, Provided, Request, ShimContext,
};
#[doc(inline)]
pub use process::{Clock, ExitRecord, REAPER, Reaper, SHUTDOWN, Shutdown};
#[doc(inline)]
pub use runner::Shim;
#[cfg(feature = "grpc")]
pub use server::grpc;
pub use server::task::{self, TASK};
pub use server::{Call, Interceptor, Next};
pub use {containerd_shim_protos as protos, protobuf, ttrpc};

/// The code of the guide for authors, which must compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/shim-author.md")]
mod guide {}
