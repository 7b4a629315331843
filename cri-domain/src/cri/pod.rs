use super::{resources, v1};
use crate::model::{PodConfig, PodState, PodStatus};

/// Converts the configuration of a pod that the kubelet requested.
pub fn pod_config(message: &v1::PodSandboxConfig, runtime_handler: &str) -> PodConfig {
    let v1::PodSandboxConfig { metadata, labels, annotations, linux } = message;
    let v1::PodSandboxMetadata { name, uid, namespace, attempt: _ } = metadata.clone().unwrap_or_default();
    let v1::LinuxPodSandboxConfig { cgroup_parent, overhead, resources: needed } = linux.clone().unwrap_or_default();
    PodConfig {
        name,
        uid,
        namespace,
        labels: labels.clone(),
        annotations: annotations.clone(),
        runtime_handler: runtime_handler.to_owned(),
        cgroup_parent,
        overhead: overhead.as_ref().map(resources),
        resources: needed.as_ref().map(resources),
    }
}

/// Converts the status of a pod. The message has no process id.
pub fn pod_status(message: &v1::PodSandboxStatus) -> PodStatus {
    let state = match v1::PodSandboxState::try_from(message.state) {
        Ok(v1::PodSandboxState::SandboxReady) => PodState::Ready,
        Ok(v1::PodSandboxState::SandboxNotready) => PodState::NotReady,
        Err(_) => PodState::Unknown,
    };
    let v1::PodSandboxNetworkStatus { ip, additional_ips } = message.network.clone().unwrap_or_default();
    let additional = additional_ips.into_iter().map(|v1::PodIp { ip }| ip);
    let ips = Some(ip).filter(|ip| !ip.is_empty()).into_iter().chain(additional).collect();
    PodStatus { state, ips, ..PodStatus::default() }
}

/// Writes the status of a pod into a message. An unknown state is shown as not ready, because the
/// CRI has no such state.
pub fn to_pod_status(message: &mut v1::PodSandboxStatus, status: &PodStatus) {
    let PodStatus { state, pid: _, ips, network_is_gone: _ } = status;
    message.state = match state {
        PodState::Ready => v1::PodSandboxState::SandboxReady,
        PodState::NotReady | PodState::Unknown => v1::PodSandboxState::SandboxNotready,
    }
    .into();
    let mut ips = ips.iter().cloned();
    message.network = ips
        .next()
        .map(|ip| v1::PodSandboxNetworkStatus { ip, additional_ips: ips.map(|ip| v1::PodIp { ip }).collect() });
}
