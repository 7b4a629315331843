//! What a containerd shim is assembled from: plugins that ask for each other, and a runner that serves them under every
//! containerd from 1.6 to 2.4.
//!
//! - [`Plugin`] is a piece of a shim. It stands at a [`Slot`], which ties its name to the Rust type that it provides, asks for
//!   others by their slots ([`Request`]), and returns what it contributes ([`Provided`]): ttrpc services, interceptors, what
//!   to do at the end.
//! - [`graph`] puts plugins in order, or says everything that is wrong with them. It is pure.
//! - [`Shim`] is the program: `start`, `delete`, `serve`, `-info`, `-v`, `plugins ls` and `plugins graph`. What it is run with
//!   is an [`Environment`](runner::Environment), so all of it can be tested in one process, with the containerd of `testing`.
//! - Every shim has three plugins: the [`Publisher`] of events, the [`Shutdown`] service and the [`Reaper`] of processes.
//!
//! The whole of a shim, though one that runs nothing:
//!
//! ```
//! use std::sync::Arc;
//!
//! use shim_plugins::task::{Task, api};
//! use shim_plugins::{Configuration, Plugin, Provided, Registry, SHUTDOWN, Shim, Shutdown, Slot, TASK};
//! use shim_plugins::ttrpc::{self, r#async::TtrpcContext};
//!
//! /// Containerd's Task service. What it does not have is answered with "unimplemented".
//! struct Nothing(Arc<Shutdown>);
//!
//! #[async_trait::async_trait]
//! impl Task for Nothing {
//!     async fn shutdown(&self, _: &TtrpcContext, _: api::ShutdownRequest) -> ttrpc::Result<api::Empty> {
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
//! // Plugins need no shim: they can be loaded, looked at and ended alone.
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! const CLOCK: Slot<str> = Slot::new("io.example.clock.v1", "wall");
//! let clock = Plugin::at(CLOCK).init(|_, ()| async { Ok(Provided::new(Arc::from("noon"))) });
//! let mut loaded = Registry::new().with(clock).load(&Configuration::default(), Arc::default()).await.unwrap();
//! assert_eq!(loaded.outcome(&CLOCK.uri()).unwrap().to_string(), "ok");
//! loaded.end().await;
//! # }
//! ```
//!
//! With the feature `grpc` its services are to be had over gRPC too, and where a plugin says so over TCP: see the module
//! `grpc`.
//!
//! What is not here: anything about runc.
//!
//! # Tasks
//!
//! In the server: one that sends events, one that collects orphans, one for each process that is waited for, one for each call,
//! one at the debug socket, and those of the ttrpc server; with gRPC, one for each connection and for each address of TCP. All
//! end with the server, or are given up when their time is over. All run on one thread, which is not the first: that one gets
//! the orphans (see [`Reaper`]) and only waits.

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
pub use graph::{Interface, Kind, Slot, Uri};
pub use load::{EndOutcome, LoadError, Loaded, Registry};
pub use plugin::{
    AllOfKind, DEFAULT_HOOK_LIMIT, DEFAULT_INIT_LIMIT, DependencyError, FailurePolicy, InitContext, InitError,
    InitFailure, LoadAfter, LoadOutcome, LoadedValues, OneOfKind, OptionalSlot, Plugin, PluginBuilder, Provided,
    Request, ShimContext,
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

/// The code of the guide, which must compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/shim-author.md")]
mod guide {}
