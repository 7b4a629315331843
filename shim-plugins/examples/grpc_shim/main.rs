//! `hello_shim` over gRPC as well: all services on its socket, and the greeter over TCP.
//!
//! ```sh
//! cargo build --package shim-plugins --features grpc --example grpc_shim
//! ctr run -d --runtime $PWD/target/debug/examples/grpc_shim --rootfs / hello sleep 1000
//! ```
//!
//! The TCP address of the greeter is in the file `io.containerd.grpc.v1.hello/address` in the
//! bundle of the container.

#[path = "../hello_shim/bundle.rs"]
mod bundle;
#[path = "../hello_shim/greeter.rs"]
mod greeter;
#[path = "../hello_shim/group.rs"]
mod group;
#[path = "../hello_shim/processes.rs"]
mod processes;
mod tcp;

use std::process::ExitCode;

use shim_plugins::Shim;

fn main() -> ExitCode {
    Shim::new("io.containerd.grpc.v1", env!("CARGO_PKG_VERSION"))
        .plugin(greeter::plugin())
        .plugin(tcp::plugin())
        .plugin(processes::plugin())
        .on_delete(bundle::clean_up)
        .run()
}
