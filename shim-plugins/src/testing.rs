//! A containerd that is none: runs a shim in this process as any containerd would, without root.
//!
//! ```
//! # use std::sync::Arc;
//! # use shim_plugins::{Plugin, Provided, Shim, TASK};
//! # use shim_plugins::task::{Task, api};
//! # use shim_plugins::testing::{Daemon, FakeContainerd};
//! # struct Empty;
//! # impl Task for Empty {}
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shim = Arc::new(Shim::new("io.containerd.empty.v1", "0.1").plugin(Plugin::at(TASK).init(|_, ()| async {
//!     let task: Arc<dyn Task + Send + Sync> = Arc::new(Empty);
//!     Ok(Provided::new(Arc::clone(&task)).task(task))
//! })));
//! for daemon in Daemon::ALL {
//!     let containerd = FakeContainerd::new(daemon)?;
//!     let running = containerd.start(&shim, "c1").await?;
//!     let refusal = running.task::<_, api::Empty>("Pause", &api::PauseRequest::new()).await.unwrap_err();
//!     assert!(refusal.to_string().contains("UNIMPLEMENTED"));
//!     running.terminate().await?;
//! }
//! # Ok(())
//! # }
//! ```

mod containerd;
mod events;
#[cfg(feature = "grpc")]
mod grpc;
mod launcher;
mod output;

pub use containerd::{Bundle, Daemon, FakeContainerd, NAMESPACE, RunningShim};
pub use events::RecordedEvent;
#[cfg(feature = "grpc")]
pub use grpc::GrpcClient;
