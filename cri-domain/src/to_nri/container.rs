use std::collections::{BTreeMap, BTreeSet};

use nri_proto::{CdiDevice, Container, ContainerState, LinuxContainer, Resources};
use serde_json::Value;

use super::{json, merge_maps, profile, spec};
use crate::model::{ContainerConfig, ContainerRecord, ContainerStatus, ServerSettings};

/// Converts the record of a container.
pub fn container(record: &ContainerRecord, settings: &ServerSettings) -> Container {
    let ContainerRecord { id, pod_id, config, spec, status, labels, removed_annotations } = record;
    let ContainerConfig {
        name,
        labels: asked_labels,
        annotations,
        args,
        env,
        mounts,
        resources: _,
        oom_score_adj: _,
        image,
        cdi_devices,
        blockio_class: _,
        rdt_class: _,
        seccomp: _,
    } = config;
    let ContainerStatus { state, pid, created_at, started_at, finished_at, exit_code, reason, message } = status;
    let spec = spec.as_deref();
    let document = spec.unwrap_or(&Value::Null);
    let process = json::section(document, "process").unwrap_or(&Value::Null);
    Container {
        id: id.clone(),
        pod_id: pod_id.clone(),
        name: name.clone(),
        state: *state,
        labels: merge_maps(labels.clone(), asked_labels),
        annotations: merge_maps(json::map(document, "annotations"), &visible(annotations, removed_annotations)),
        args: spec.map_or_else(|| args.clone(), |_| json::texts(process, "args")),
        env: spec.map_or_else(|| env.clone(), |_| json::texts(process, "env")),
        mounts: spec.map_or_else(|| mounts.clone(), spec::mounts),
        hooks: json::section(document, "hooks").map(spec::hooks),
        linux: Some(linux(config, spec, settings)),
        pid: *pid,
        rlimits: spec::rlimits(process),
        created_at: *created_at,
        started_at: *started_at,
        finished_at: *finished_at,
        exit_code: *exit_code,
        status_reason: reason_of(*state, *exit_code, reason),
        status_message: message.clone(),
        cdi_devices: cdi(cdi_devices, annotations),
        user: json::section(process, "user").and_then(spec::user),
        image: image.clone(),
        ..Container::default()
    }
}

fn visible(annotations: &BTreeMap<String, String>, removed: &BTreeSet<String>) -> BTreeMap<String, String> {
    let shown = annotations.iter().filter(|(key, _)| !removed.contains(*key));
    shown.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn linux(config: &ContainerConfig, spec: Option<&Value>, settings: &ServerSettings) -> LinuxContainer {
    let document = spec.unwrap_or(&Value::Null);
    let process = json::section(document, "process").unwrap_or(&Value::Null);
    let linux = json::section(document, "linux").unwrap_or(&Value::Null);
    let oom_score_adj = match spec {
        Some(_) => json::signed(process, "oomScoreAdj"),
        None => config.oom_score_adj,
    };
    LinuxContainer {
        namespaces: spec::namespaces(linux),
        devices: spec::devices(linux),
        resources: resources(config, spec, linux),
        oom_score_adj,
        cgroups_path: json::text(linux, "cgroupsPath"),
        io_priority: json::section(process, "ioPriority").and_then(spec::io_priority),
        seccomp_profile: profile(&config.seccomp, settings),
        seccomp_policy: json::section(linux, "seccomp").map(super::seccomp::policy),
        sysctl: json::map(linux, "sysctl"),
        net_devices: spec::net_devices(linux),
        scheduler: json::section(process, "scheduler").and_then(spec::scheduler),
        rdt: json::section(linux, "intelRdt").map(spec::rdt),
        ..LinuxContainer::default()
    }
}

/// Returns the resources of a container. The names of classes come from the config, because a spec
/// has only their settings.
fn resources(config: &ContainerConfig, spec: Option<&Value>, linux: &Value) -> Option<Resources> {
    let found = match spec {
        Some(_) => json::section(linux, "resources").map(spec::resources),
        None => config.resources.clone(),
    };
    let has_class = config.blockio_class.is_some() || config.rdt_class.is_some();
    let mut resources = found.or_else(|| has_class.then(Resources::default))?;
    resources.blockio_class.clone_from(&config.blockio_class);
    resources.rdt_class.clone_from(&config.rdt_class);
    Some(resources)
}

fn reason_of(state: ContainerState, exit_code: i32, reason: &str) -> String {
    match (state, exit_code) {
        _ if !reason.is_empty() => reason.to_owned(),
        (ContainerState::Stopped, 0) => "Completed".to_owned(),
        (ContainerState::Stopped, _) => "Error".to_owned(),
        _ => String::new(),
    }
}

/// The prefix of annotations that request CDI devices. Their values are names with commas in
/// between.
const CDI: &str = "cdi.k8s.io/";

fn cdi(asked: &[String], annotations: &BTreeMap<String, String>) -> Vec<CdiDevice> {
    let annotated = annotations.iter().filter(|(key, _)| key.starts_with(CDI)).flat_map(|(_, names)| names.split(','));
    let mut devices: Vec<CdiDevice> = vec![];
    for name in asked.iter().map(String::as_str).chain(annotated.map(str::trim).filter(|name| !name.is_empty())) {
        if devices.iter().all(|known| known.name != name) {
            devices.push(CdiDevice::new(name));
        }
    }
    devices
}
