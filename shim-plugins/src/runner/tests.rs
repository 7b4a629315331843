//! Tests of the whole runner, in one process and without root.

mod ends;
#[cfg(feature = "grpc")]
mod grpc;
mod parsing;
mod serving;
mod sockets;
mod starts;
mod unneeded;

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use containerd_shim_protos::events::task::{TaskCreate, TaskExit};
use tokio::sync::{Semaphore, mpsc, watch};
use ttrpc::r#async::TtrpcContext;

use super::flags::Flags;
use super::*;
use crate::events::Publisher;
use crate::plugin::ErrorChain;
use crate::server::task::{Task, api};
use crate::{Clock, InitError, PUBLISHER, Plugin, Provided, SHUTDOWN, Shutdown, Slot, TASK};

/// A Task service that publishes what its caller asks for.
pub(super) struct Told {
    publisher: Arc<Publisher>,
    shutdown: Arc<Shutdown>,
    created: Arc<Semaphore>,
    ended: Arc<watch::Sender<u32>>,
}

#[async_trait]
impl Task for Told {
    /// Takes 50 ms, and then adds a permit to `created`.
    async fn create(&self, _: &TtrpcContext, _: api::CreateTaskRequest) -> ttrpc::Result<api::CreateTaskResponse> {
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.created.add_permits(1);
        Ok(api::CreateTaskResponse::new())
    }

    /// Publishes one create event, and as many exit events as the number of the signal.
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

    /// Waits until `ended` holds an exit status.
    async fn wait(&self, _: &TtrpcContext, _: api::WaitRequest) -> ttrpc::Result<api::WaitResponse> {
        let mut ended = self.ended.subscribe();
        let Ok(exit_status) = ended.wait_for(|status| *status != 0).await.map(|status| *status) else {
            return std::future::pending().await;
        };
        Ok(api::WaitResponse { exit_status, ..Default::default() })
    }

    async fn shutdown(&self, _: &TtrpcContext, _: api::ShutdownRequest) -> ttrpc::Result<api::Empty> {
        self.shutdown.request();
        Ok(api::Empty::new())
    }
}

/// Returns a shim with [`Told`]. The semaphore has a permit for each create that finished.
pub(super) fn shim(created: &Arc<Semaphore>) -> Shim {
    let created = Arc::clone(created);
    Shim::new("io.containerd.test.v1", "1.2.3").plugin(Plugin::at(TASK).asks((PUBLISHER, SHUTDOWN)).init(
        move |_, (publisher, shutdown)| {
            let (created, ended) = (Arc::clone(&created), Arc::default());
            let task: Arc<dyn Task + Send + Sync> = Arc::new(Told { publisher, shutdown, created, ended });
            async move { Ok(Provided::new(Arc::clone(&task)).task(task)) }
        },
    ))
}

/// Returns a shim that kills its containers at its end, and publishes their exits. A call of Wait
/// returns the status that `ended` receives.
pub(super) fn killing(ended: &Arc<watch::Sender<u32>>) -> Arc<Shim> {
    let ended = Arc::clone(ended);
    let task = Plugin::at(TASK).asks((PUBLISHER, SHUTDOWN)).init(move |_, (publisher, shutdown)| {
        let ended = Arc::clone(&ended);
        async move {
            let (tell, told) = (Arc::clone(&publisher), Arc::clone(&ended));
            let created = Arc::new(Semaphore::new(0));
            let task: Arc<dyn Task + Send + Sync> = Arc::new(Told { publisher, shutdown, created, ended });
            Ok(Provided::new(Arc::clone(&task)).task(task).on_shutdown(move || async move {
                tell.publish(&TaskExit { exit_status: 137, ..Default::default() }).unwrap();
                told.send_replace(137);
            }))
        }
    });
    Arc::new(Shim::new("io.containerd.test.v1", "1.2.3").plugin(task))
}

pub(super) fn simple() -> Arc<Shim> {
    Arc::new(shim(&Arc::new(Semaphore::new(0))))
}

const PROBLEM: Slot<()> = Slot::new("k", "problem");

/// Returns a shim with a plugin that has a given initialization.
pub(super) fn failing(init: fn() -> Result<Provided<()>, InitError>) -> Arc<Shim> {
    let plugin = Plugin::at(PROBLEM).init(move |_, ()| async move { init() });
    Arc::new(shim(&Arc::new(Semaphore::new(0))).plugin(plugin))
}

pub(super) fn why(error: &(dyn Error + 'static)) -> String {
    ErrorChain(error).to_string()
}
