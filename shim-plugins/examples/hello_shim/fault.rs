//! A plugin that fails when it is told to, so that tests can see what becomes of it.

use std::sync::Arc;

use serde::Deserialize;
use shim_plugins::{InitError, Plugin, Provided, Slot};

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
        }
        Ok(Provided::new(Arc::new(())))
    })
}
