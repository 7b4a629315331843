//! A plugin for the tests to launch: this test program, run by a script.
//!
//! The plugin writes its configuration to its standard output, and subscribes to no events but its
//! shutdown.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::call::{CallError, Client, Method, ServeLimits, serve};
use nri_proto::mux::{ChannelId, Limits, Mux};
use nri_proto::{api, service};
use protobuf::Message as _;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use ttrpc::r#async::TtrpcContext;

/// Returns a script that runs the plugin. The connection is passed as the standard input, which the
/// plugin can open without `unsafe`.
pub(crate) fn script() -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "#!/bin/sh\nexec {} plugin::it_is_a_plugin --exact --ignored --nocapture --test-threads=1 <&3 3<&-\n",
        program.display()
    )
}

struct Plugin;

#[async_trait]
impl service::Plugin for Plugin {
    async fn configure(
        &self,
        _: &TtrpcContext,
        request: api::ConfigureRequest,
    ) -> ttrpc::Result<api::ConfigureResponse> {
        write(&format!("configured with {:?}", request.config));
        Ok(api::ConfigureResponse::new())
    }

    async fn synchronize(
        &self,
        _: &TtrpcContext,
        _: api::SynchronizeRequest,
    ) -> ttrpc::Result<api::SynchronizeResponse> {
        Ok(api::SynchronizeResponse::new())
    }

    async fn run_pod_sandbox(
        &self,
        _: &TtrpcContext,
        request: api::RunPodSandboxRequest,
    ) -> ttrpc::Result<api::RunPodSandboxResponse> {
        if request.pod.id == "slow" {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(api::RunPodSandboxResponse::new())
    }

    async fn shutdown(&self, _: &TtrpcContext, _: api::Empty) -> ttrpc::Result<api::Empty> {
        write("told to go");
        Ok(api::Empty::new())
    }
}

/// Writes a line. Unlike `println`, this does not panic if the pipe is closed.
fn write(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(io::stdout(), "{line}");
}

#[tokio::test]
#[ignore = "it is a plugin, which other tests launch"]
async fn it_is_a_plugin() {
    let socket = std::os::unix::net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned().unwrap());
    socket.set_nonblocking(true).unwrap();
    let stream = UnixStream::from_std(socket).unwrap();
    // The name differs from the name of the program, which does not matter.
    connect(stream, "x", "somebody else").await.unwrap();
    write("it is over");
}

/// Serves a plugin on this connection until the connection ends. Returns an error if the plugin is
/// refused.
pub(crate) async fn connect(stream: UnixStream, index: &str, name: &str) -> Result<(), CallError> {
    let ids = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];
    let (mux, [served, requests]) = Mux::on_unix(stream, ids, Limits::default()).unwrap();
    mux.admit();
    let services = Arc::new(service::create_plugin(Arc::new(Plugin)));
    let serving = CancellationToken::new();
    tokio::spawn(serve(served, services, ServeLimits::default(), serving.clone()));
    let (plugin_name, plugin_idx) = (name.to_owned(), index.to_owned());
    let id = api::RegisterPluginRequest { plugin_name, plugin_idx, ..Default::default() };
    let method = Method { service: "nri.pkg.api.v1alpha1.Runtime", name: "RegisterPlugin" };
    let client = Client::new(requests);
    client.call(method, id.write_to_bytes().unwrap().into(), Duration::from_secs(5)).await?;
    mux.closed().await;
    Ok(())
}
