//! A fake containerd, which runs a shim in this process as any containerd would, without root.
//!
//! - `containerd`: the fake containerd in each version. `running`: a running shim.
//! - `launcher`, `output`, `events`: the server threads, captured output and received events.
//! - `grpc`: a gRPC client, with the feature `grpc`.
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
//! let plugin = Plugin::at(TASK).init(|_, ()| async {
//!     let task: Arc<dyn Task + Send + Sync> = Arc::new(Empty);
//!     Ok(Provided::new(Arc::clone(&task)).task(task))
//! });
//! let shim = Arc::new(Shim::new("io.containerd.empty.v1", "0.1").plugin(plugin));
//! for daemon in Daemon::ALL {
//!     let containerd = FakeContainerd::new(daemon)?;
//!     let running = containerd.start(&shim, "c1").await?;
//!     let paused = running.task::<_, api::Empty>("Pause", &api::PauseRequest::new()).await;
//!     assert!(paused.unwrap_err().to_string().contains("UNIMPLEMENTED"));
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
mod running;

pub use containerd::{Bundle, Daemon, FakeContainerd, NAMESPACE};
pub use events::RecordedEvent;
#[cfg(feature = "grpc")]
pub use grpc::GrpcClient;
pub use running::RunningShim;
