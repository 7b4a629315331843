//! Containerd's Task service, for both names that it has.
//!
//! Versions 2 and 3 differ in the name of their package, and in nothing else. A daemon before 2.0 knows version 2 only;
//! later ones call the version that `start` announced.

use std::collections::HashMap;
use std::sync::Arc;

pub use containerd_shim_protos::api;
pub use containerd_shim_protos::shim_async::Task;
use containerd_shim_protos::shim_async::create_task;
use ttrpc::r#async::Service;

use crate::graph::Slot;

/// The slot of the Task service, if the shim has one.
pub const TASK: Slot<dyn Task + Send + Sync> = Slot::new("io.containerd.ttrpc.v1", "task");

/// The Task service as daemons before 2.0 call it.
pub const V2: &str = "containerd.task.v2.Task";

/// The Task service as daemons from 2.0 on call it.
pub const V3: &str = "containerd.task.v3.Task";

/// Other services that a containerd may ask a shim for. Where no plugin serves one, the answer is that it is not
/// implemented; the ttrpc crate alone would say that the argument is invalid, and containerd would not go on without it.
pub(crate) const KNOWN_SERVICES: [&str; 8] = [
    V2,
    V3,
    SANDBOX,
    "containerd.services.streaming.v1.Streaming",
    "containerd.services.transfer.v1.Transfer",
    "containerd.services.transfer.v1.TTRPCTransfer",
    "containerd.services.content.v1.Content",
    "containerd.services.events.ttrpc.v1.Events",
];

const SANDBOX: &str = "containerd.runtime.sandbox.v1.Sandbox";

/// Whether a method makes something: a shim that ends refuses it.
pub(crate) fn is_creation(service: &str, method: &str) -> bool {
    match service {
        V2 | V3 => ["Create", "Start", "Exec"].contains(&method),
        SANDBOX => ["CreateSandbox", "StartSandbox"].contains(&method),
        _ => false,
    }
}

/// Whether a method is answered when something ends: the end of a shim cannot come after it.
pub(crate) fn is_wait(service: &str, method: &str) -> bool {
    match service {
        V2 | V3 => method == "Wait",
        SANDBOX => method == "WaitSandbox",
        _ => false,
    }
}

/// One implementation, under both names.
pub fn services(task: Arc<dyn Task + Send + Sync>) -> HashMap<String, Service> {
    let mut services = HashMap::new();
    for name in [V2, V3] {
        let generated = create_task(Arc::clone(&task));
        services.extend(generated.into_values().map(|service| (name.to_owned(), service)));
    }
    services
}
