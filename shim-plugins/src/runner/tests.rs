//! The whole runner, in one process and without root.

mod ends;
mod parsing;
mod serving;
mod starts;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use containerd_shim_protos::events::task::{TaskCreate, TaskExit};
use tokio::sync::Semaphore;
use ttrpc::r#async::TtrpcContext;

use super::*;
use crate::publisher::Publisher;
use crate::task::{Task, api};
use crate::{InitError, PUBLISHER, Provided, SHUTDOWN, Shutdown, Slot, TASK};

/// A Task service that tells what it is told to.
pub(super) struct Told {
    publisher: Arc<Publisher>,
    shutdown: Arc<Shutdown>,
    created: Arc<Semaphore>,
}

#[async_trait]
impl Task for Told {
    /// Takes a while, and says when it is done.
    async fn create(&self, _: &TtrpcContext, _: api::CreateTaskRequest) -> ttrpc::Result<api::CreateTaskResponse> {
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.created.add_permits(1);
        Ok(api::CreateTaskResponse::new())
    }

    /// Publishes a create, and exits with statuses from 0 on: as many as the signal.
    async fn kill(&self, _: &TtrpcContext, request: api::KillRequest) -> ttrpc::Result<api::Empty> {
        self.publisher.publish(&TaskCreate { container_id: request.id, ..Default::default() }).unwrap();
        for exit_status in 0..request.signal {
            self.publisher.publish(&TaskExit { exit_status, ..Default::default() }).unwrap();
        }
        Ok(api::Empty::new())
    }

    async fn pause(&self, _: &TtrpcContext, _: api::PauseRequest) -> ttrpc::Result<api::Empty> {
        panic!("not today")
    }

    async fn connect(&self, _: &TtrpcContext, request: api::ConnectRequest) -> ttrpc::Result<api::ConnectResponse> {
        Ok(api::ConnectResponse { version: request.id, ..Default::default() })
    }

    async fn wait(&self, _: &TtrpcContext, _: api::WaitRequest) -> ttrpc::Result<api::WaitResponse> {
        std::future::pending().await
    }

    async fn shutdown(&self, _: &TtrpcContext, _: api::ShutdownRequest) -> ttrpc::Result<api::Empty> {
        self.shutdown.request();
        Ok(api::Empty::new())
    }
}

/// A shim with that service; the semaphore has a permit for each create that came to its end.
pub(super) fn shim(created: &Arc<Semaphore>) -> Shim {
    let created = Arc::clone(created);
    Shim::new("io.containerd.test.v1", "1.2.3").plugin(Plugin::at(TASK).asks((PUBLISHER, SHUTDOWN)).init(
        move |_, (publisher, shutdown)| {
            let task: Arc<dyn Task + Send + Sync> =
                Arc::new(Told { publisher, shutdown, created: Arc::clone(&created) });
            async move { Ok(Provided::new(Arc::clone(&task)).task(task)) }
        },
    ))
}

pub(super) fn simple() -> Arc<Shim> {
    Arc::new(shim(&Arc::new(Semaphore::new(0))))
}

const PROBLEM: Slot<()> = Slot::new("k", "problem");

/// A shim with a plugin that fails.
pub(super) fn failing(init: fn() -> Result<Provided<()>, InitError>) -> Arc<Shim> {
    let plugin = Plugin::at(PROBLEM).init(move |_, ()| async move { init() });
    Arc::new(shim(&Arc::new(Semaphore::new(0))).plugin(plugin))
}

pub(super) fn why(error: &(dyn Error + 'static)) -> String {
    Chain(error).to_string()
}
