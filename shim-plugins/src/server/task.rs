//! The Task service of containerd, under both of its names.
//!
//! Versions 2 and 3 differ only in the name of their package. A daemon before 2.0 knows version 2
//! only; later daemons call the version that `start` announced.

use std::collections::HashMap;
use std::sync::Arc;

pub use containerd_shim_protos::api;
pub use containerd_shim_protos::shim_async::Task;
use containerd_shim_protos::shim_async::create_task;
use ttrpc::r#async::Service;

use crate::graph::Slot;

/// The slot of the Task service, if the shim has one.
pub const TASK: Slot<dyn Task + Send + Sync> = Slot::new("io.containerd.ttrpc.v1", "task");

/// The name of the Task service for daemons before 2.0.
pub const V2: &str = "containerd.task.v2.Task";

/// The name of the Task service for daemons from 2.0 on.
pub const V3: &str = "containerd.task.v3.Task";

/// Services that containerd may call on a shim.
///
/// A service of this list that no plugin contributes answers `UNIMPLEMENTED`. The ttrpc crate alone
/// would answer `INVALID_ARGUMENT`, which containerd does not accept as "not implemented".
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

/// Returns whether a method creates something. A shim that is ending refuses such a method.
pub(crate) fn is_creation(service: &str, method: &str) -> bool {
    match service {
        V2 | V3 => ["Create", "Start", "Exec"].contains(&method),
        SANDBOX => ["CreateSandbox", "StartSandbox"].contains(&method),
        _ => false,
    }
}

/// Returns whether a method returns only when a container or a sandbox ends. A shim that is ending
/// cannot wait for such a call before it ends its containers.
pub(crate) fn is_wait(service: &str, method: &str) -> bool {
    match service {
        V2 | V3 => method == "Wait",
        SANDBOX => method == "WaitSandbox",
        _ => false,
    }
}

/// Returns one implementation of Task as two services, one for each name.
pub fn services(task: Arc<dyn Task + Send + Sync>) -> HashMap<String, Service> {
    let mut services = HashMap::new();
    for name in [V2, V3] {
        let generated = create_task(Arc::clone(&task));
        services.extend(generated.into_values().map(|service| (name.to_owned(), service)));
    }
    services
}
