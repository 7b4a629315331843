//! Serves the greeter over TCP to every process of this machine. The Task service is not served.

use std::net::{Ipv4Addr, TcpListener};
use std::{fs, sync::Arc};

use serde::Deserialize;
use shim_plugins::grpc::Services;
use shim_plugins::{Plugin, Provided, Slot};

use crate::greeter::{GREETER, create_hello};

const TCP: Slot<()> = Slot::new("io.containerd.grpc.v1", "hello");

/// The configuration `[plugins."io.containerd.grpc.v1.hello"]`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    /// The port. 0 means any free port.
    port: u16,
}

/// Returns the plugin that serves the greeter over TCP.
pub(crate) fn plugin() -> Plugin {
    Plugin::at(TCP).asks(GREETER).configured::<Config>().init(|init, greeter| async move {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, init.config.port))?;
        let address = listener.local_addr()?.to_string();
        fs::write(init.state_dir()?.join("address"), &address)?;
        let services = Services::new().ttrpc(create_hello(greeter));
        Ok(Provided::new(Arc::new(())).tcp(listener, services).export("address", address))
    })
}
