//! A containerd shim with a ttrpc service of its own, and a Task service that runs processes
//! without any isolation.
//!
//! - `greeter.rs`: the service of `proto/greeter.proto`. Change it, or add others like it.
//! - `processes.rs`: the Task service, with `bundle.rs` and `group.rs`. Replace what it runs.

#[path = "../../../shim-plugins/examples/hello_shim/bundle.rs"]
mod bundle;
mod greeter;
#[path = "../../../shim-plugins/examples/hello_shim/group.rs"]
mod group;
#[path = "../../../shim-plugins/examples/hello_shim/processes.rs"]
mod processes;

use std::process::ExitCode;

use shim_plugins::Shim;

fn shim() -> Shim {
    Shim::new("io.containerd.template.v1", env!("CARGO_PKG_VERSION"))
        .plugin(greeter::plugin())
        .plugin(processes::plugin())
        .on_delete(bundle::clean_up)
}

fn main() -> ExitCode {
    shim().run()
}

#[cfg(test)]
mod tests;
