//! A shim with a ttrpc service of its own, and a Task service that runs processes without any
//! isolation.
//!
//! The shim consists of plugins, and runs under every containerd from 1.6 to 2.4:
//!
//! ```sh
//! cargo build --release --package shim-plugins --example hello_shim
//! ctr run --rm --runtime $PWD/target/release/examples/hello_shim --rootfs / hello echo hello
//! target/release/examples/hello_shim plugins ls
//! ```

mod bundle;
mod fault;
mod greeter;
mod group;
mod processes;

use std::process::ExitCode;

use shim_plugins::Shim;

fn main() -> ExitCode {
    Shim::new("io.containerd.hello.v1", env!("CARGO_PKG_VERSION"))
        .plugin(fault::plugin())
        .plugin(fault::stall())
        .plugin(greeter::plugin())
        .plugin(processes::plugin())
        .on_delete(bundle::clean_up)
        .run()
}
