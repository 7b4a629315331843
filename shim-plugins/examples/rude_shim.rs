//! A shim that prints wherever it can, for the test that prints never corrupt an answer.

#![allow(clippy::print_stdout, reason = "the prints are what is tested")]

use std::process::ExitCode;
use std::sync::Arc;

use shim_plugins::runner::CleanupReport;
use shim_plugins::task::{TASK, Task};
use shim_plugins::{Plugin, Provided, Shim};

/// A Task service without methods.
struct Nothing;

impl Task for Nothing {}

fn main() -> ExitCode {
    // Of all prints, only this one does harm.
    if std::env::var_os("RUDE").is_some() {
        println!("Starting my shim!");
    }
    let task = Plugin::at(TASK).init(|_, ()| async {
        println!("loading");
        let task: Arc<dyn Task + Send + Sync> = Arc::new(Nothing);
        Ok(Provided::new(Arc::clone(&task)).task(task).on_shutdown(|| async { println!("ending") }))
    });
    let cleanup = |_| async {
        println!("cleaning up");
        Ok(CleanupReport::default())
    };
    Shim::new("io.containerd.rude.v1", "0.1.0").plugin(task).on_delete(cleanup).run()
}
