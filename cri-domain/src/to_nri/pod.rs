use nri_proto::{LinuxPod, Namespace, Pod};
use serde_json::Value;

use super::{json, merge_maps, spec};
use crate::model::{PodConfig, PodRecord, PodRef, PodStatus};

/// Converts the record of a pod. If the pod is unknown, only the id is set.
pub fn pod(pod: &PodRef) -> Pod {
    match pod {
        PodRef::Known(record) => known(record),
        PodRef::Unknown { id } => Pod { id: id.clone(), ..Pod::default() },
    }
}

fn known(record: &PodRecord) -> Pod {
    let PodRecord { id, config, spec, status, labels } = record;
    let PodConfig {
        name,
        uid,
        namespace,
        labels: asked_labels,
        annotations,
        runtime_handler,
        cgroup_parent,
        overhead,
        resources,
    } = config;
    let PodStatus { state: _, pid, ips, network_is_gone } = status;
    let spec = spec.as_deref().unwrap_or(&Value::Null);
    let section = json::section(spec, "linux").unwrap_or(&Value::Null);
    let linux = LinuxPod {
        overhead: overhead.clone(),
        pod_resources: resources.clone(),
        cgroup_parent: cgroup_parent.clone(),
        cgroups_path: json::text(section, "cgroupsPath"),
        namespaces: namespaces(section, *network_is_gone),
        resources: json::section(section, "resources").map(spec::resources),
        ..LinuxPod::default()
    };
    Pod {
        id: id.clone(),
        name: name.clone(),
        uid: uid.clone(),
        namespace: namespace.clone(),
        labels: merge_maps(labels.clone(), asked_labels),
        annotations: merge_maps(json::map(spec, "annotations"), annotations),
        runtime_handler: runtime_handler.clone(),
        linux: Some(linux),
        pid: *pid,
        ips: ips.clone(),
        ..Pod::default()
    }
}

/// Returns the namespaces of a pod. The network namespace is left out if it has no path, or if the
/// network was removed.
fn namespaces(linux: &Value, network_is_gone: bool) -> Vec<Namespace> {
    let mut namespaces = spec::namespaces(linux);
    namespaces.retain(|it| it.kind != "network" || !it.path.is_empty() && !network_is_gone);
    namespaces
}
