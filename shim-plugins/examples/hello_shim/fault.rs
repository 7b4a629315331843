//! Plugins that fail when they are told to, so that tests can see what becomes of it.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use shim_plugins::ttrpc::{self, Response};
use shim_plugins::{Call, InitError, Interceptor, Next, Plugin, Provided, Slot};

const FAULT: Slot<()> = Slot::new("io.containerd.internal.v1", "fault");

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Fault {
    #[default]
    None,
    /// Its initialisation returns an error.
    Error,
    /// It panics.
    Panic,
    /// It never ends.
    Hang,
    /// The whole process ends.
    Exit,
    /// The process is killed.
    Kill,
    /// No container is ever created.
    HoldCreate,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    fault: Fault,
}

#[expect(clippy::panic, reason = "this is what it is for")]
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
            Fault::HoldCreate => return Ok(Provided::new(Arc::new(())).interceptor(Arc::new(Hold))),
        }
        Ok(Provided::new(Arc::new(())))
    })
}

/// Lets no Create come through.
struct Hold;

#[async_trait]
impl Interceptor for Hold {
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
struct Stall {
    stall: bool,
}

/// A plugin that takes longer than anybody waits, if it is told to.
pub(crate) fn stall() -> Plugin {
    let limit = std::time::Duration::from_secs(600);
    Plugin::at(STALL).configured::<Stall>().limit(limit).init(|init, ()| async move {
        if init.config.stall {
            std::future::pending().await
        }
        Ok(Provided::new(Arc::new(())))
    })
}
