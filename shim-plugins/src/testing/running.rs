//! A running shim, as containerd sees it: calls, signals, and its end.

use std::time::Duration;

use protobuf::Message;
use ttrpc::asynchronous::Client;
use ttrpc::{Code, Request};

use super::launcher::ServerThread;
use crate::runner::{ControlSignal, Mounts, ServeError};
use crate::server::task;

/// The timeout of a call.
const CALL_LIMIT: Duration = Duration::from_secs(20);

/// A running shim, with a connection to it.
pub struct RunningShim {
    /// The address that `start` returned.
    pub address: String,
    /// The version of the shim protocol that `start` returned.
    pub version: i32,
    /// The mounts that the shim performs itself, as far as containerd knows; `None` before 2.3, and
    /// if the shim does not announce them.
    pub mounts: Option<Mounts>,
    pub(super) client: Client,
    pub(super) server: Option<ServerThread>,
}

impl RunningShim {
    /// Calls a method of the Task service, in the version that `start` returned.
    pub async fn task<Q: Message, A: Message>(&self, method: &str, request: &Q) -> ttrpc::Result<A> {
        let service = if self.version == 3 { task::V3 } else { task::V2 };
        self.call(service, method, request).await
    }

    /// Calls a method of any service.
    pub async fn call<Q: Message, A: Message>(&self, service: &str, method: &str, request: &Q) -> ttrpc::Result<A> {
        let mut call = Request::new();
        service.clone_into(&mut call.service);
        method.clone_into(&mut call.method);
        call.timeout_nano = i64::try_from(CALL_LIMIT.as_nanos()).unwrap_or(i64::MAX);
        call.payload = request.write_to_bytes().map_err(|error| ttrpc::Error::Others(error.to_string()))?;
        let response = self.client.request(call).await?;
        match response.status.as_ref() {
            Some(status) if status.code() != Code::OK => Err(ttrpc::Error::RpcStatus(status.clone())),
            Some(_) | None => {
                A::parse_from_bytes(&response.payload).map_err(|error| ttrpc::Error::Others(error.to_string()))
            }
        }
    }

    /// Sends a signal to the server, if this `start` launched it.
    pub async fn signal(&self, signal: ControlSignal) {
        if let Some(server) = &self.server {
            let _ = server.signals.send(signal).await;
        }
    }

    /// Waits for the end of the server, if this `start` launched it.
    pub async fn ended(self) -> Result<(), ServeError> {
        match self.server {
            Some(server) => server.ended().await,
            None => Ok(()),
        }
    }

    /// Ends the server in order, and waits for its end.
    pub async fn terminate(self) -> Result<(), ServeError> {
        self.signal(ControlSignal::End).await;
        self.ended().await
    }

    /// Kills the server, as `kill -9` does.
    pub async fn kill(self) {
        if let Some(server) = self.server {
            server.kill().await;
        }
    }
}
