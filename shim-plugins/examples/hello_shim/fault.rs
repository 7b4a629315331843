//! Plugins that fail if their configuration says so, for tests of failures.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use shim_plugins::ttrpc::{self, Response};
use shim_plugins::{Call, InitError, Interceptor, Next, Plugin, Provided, Slot};

const FAULT: Slot<()> = Slot::new("io.containerd.internal.v1", "fault");

/// The fault to cause.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Fault {
    #[default]
    None,
    /// The initialization returns an error.
    Error,
    /// The initialization panics.
    Panic,
    /// The initialization never ends.
    Hang,
    /// The process of the shim exits.
    Exit,
    /// The process of the shim is aborted.
    Kill,
    /// Calls of Create never return.
    HoldCreate,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    fault: Fault,
}

/// Returns a plugin that causes the configured fault.
#[expect(clippy::panic, reason = "the fault under test is a panic")]
pub(crate) fn plugin() -> Plugin {
    let limit = std::time::Duration::from_secs(2);
    Plugin::at(FAULT).configured::<Config>().limit(limit).init(|init, ()| async move {
        match init.config.fault {
            Fault::None => {}
            Fault::Error => return Err(InitError::failed("told to fail")),
            Fault::Panic => panic!("told to panic"),
            Fault::Hang => std::future::pending().await,
            Fault::Exit => std::process::exit(3),
            Fault::Kill => std::process::abort(),
            Fault::HoldCreate => return Ok(Provided::new(Arc::new(())).interceptor(Arc::new(HoldCreate))),
        }
        Ok(Provided::new(Arc::new(())))
    })
}

/// An interceptor that never answers Create.
struct HoldCreate;

#[async_trait]
impl Interceptor for HoldCreate {
    async fn call(&self, call: Call, next: Next) -> ttrpc::Result<Response> {
        if call.request.method == "Create" {
            std::future::pending().await
        }
        next.run(call).await
    }
}

const STALL: Slot<()> = Slot::new("io.containerd.internal.v1", "stall");

#[derive(Default, Deserialize)]
#[serde(default)]
struct StallConfig {
    stall: bool,
}

/// Returns a plugin whose initialization outlasts all timeouts, if its configuration says so.
pub(crate) fn stall() -> Plugin {
    let limit = std::time::Duration::from_secs(600);
    Plugin::at(STALL).configured::<StallConfig>().limit(limit).init(|init, ()| async move {
        if init.config.stall {
            std::future::pending().await
        }
        Ok(Provided::new(Arc::new(())))
    })
}
