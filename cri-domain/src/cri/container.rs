use nri_proto::{ContainerState, Image, Mount, ProfileKind, SecurityProfile};

use super::{resources, v1};
use crate::model::{ContainerConfig, ContainerStatus, SeccompRequest};

/// Converts the configuration of a container that the kubelet requested.
///
/// The message does not have the digest of the image: the server finds it and sets
/// [`ContainerConfig::image`].
pub fn container_config(message: &v1::ContainerConfig) -> ContainerConfig {
    let v1::ContainerConfig { metadata, image, command, args, envs, mounts, labels, annotations, linux, cdi_devices } =
        message;
    let v1::LinuxContainerConfig { resources: limits, security_context } = linux.clone().unwrap_or_default();
    ContainerConfig {
        name: metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default(),
        labels: labels.clone(),
        annotations: annotations.clone(),
        args: command.iter().chain(args).cloned().collect(),
        env: envs.iter().map(variable).collect(),
        mounts: mounts.iter().map(mount).collect(),
        resources: limits.as_ref().map(resources),
        oom_score_adj: limits.as_ref().map(|limits| limits.oom_score_adj),
        image: image.as_ref().map(self::image),
        cdi_devices: cdi_devices.iter().map(|device| device.name.clone()).collect(),
        blockio_class: None,
        rdt_class: None,
        seccomp: security_context.as_ref().map(seccomp).unwrap_or_default(),
    }
}

fn variable(variable: &v1::KeyValue) -> String {
    format!("{}={}", variable.key, String::from_utf8_lossy(&variable.value))
}

fn image(image: &v1::ImageSpec) -> Image {
    let v1::ImageSpec { image, user_specified_image, image_ref } = image;
    let name = [user_specified_image, image].into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default();
    Image { name, digest: image_ref.clone(), ..Image::default() }
}

fn mount(mount: &v1::Mount) -> Mount {
    let v1::Mount { container_path, host_path, readonly, propagation, recursive_read_only } = mount;
    let propagation = match v1::MountPropagation::try_from(*propagation) {
        Ok(v1::MountPropagation::PropagationHostToContainer) => "rslave",
        Ok(v1::MountPropagation::PropagationBidirectional) => "rshared",
        Ok(v1::MountPropagation::PropagationPrivate) | Err(_) => "rprivate",
    };
    let access = match (readonly, recursive_read_only) {
        (_, true) => "rro",
        (true, false) => "ro",
        (false, false) => "rw",
    };
    let options = ["rbind", propagation, access].map(str::to_owned).to_vec();
    Mount {
        destination: container_path.clone(),
        kind: "bind".to_owned(),
        source: host_path.clone(),
        options,
        ..Mount::default()
    }
}

fn seccomp(context: &v1::LinuxContainerSecurityContext) -> SeccompRequest {
    let v1::LinuxContainerSecurityContext { privileged, seccomp_profile_path, seccomp } = context;
    SeccompRequest {
        profile: seccomp.as_ref().and_then(profile),
        deprecated_path: seccomp_profile_path.clone(),
        privileged: *privileged,
    }
}

/// Converts a seccomp profile. Returns `None` if its kind is unknown.
pub fn profile(message: &v1::SecurityProfile) -> Option<SecurityProfile> {
    use v1::security_profile::ProfileType;

    let kind = match message.profile_type.try_into().ok()? {
        ProfileType::RuntimeDefault => ProfileKind::RuntimeDefault,
        ProfileType::Unconfined => ProfileKind::Unconfined,
        ProfileType::Localhost => ProfileKind::Localhost,
    };
    Some(SecurityProfile { kind, localhost_ref: message.localhost_ref.clone(), ..SecurityProfile::default() })
}

/// Converts a seccomp profile to the message of the CRI.
pub fn to_profile(profile: &SecurityProfile) -> v1::SecurityProfile {
    use v1::security_profile::ProfileType;

    let profile_type = match profile.kind {
        ProfileKind::RuntimeDefault => ProfileType::RuntimeDefault.into(),
        ProfileKind::Unconfined => ProfileType::Unconfined.into(),
        ProfileKind::Localhost => ProfileType::Localhost.into(),
        ProfileKind::Unnamed(kind) => kind.number(),
    };
    v1::SecurityProfile { profile_type, localhost_ref: profile.localhost_ref.clone() }
}

/// Converts the status of a container. The message has no process id.
pub fn container_status(message: &v1::ContainerStatus) -> ContainerStatus {
    let state = match v1::ContainerState::try_from(message.state) {
        Ok(v1::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(v1::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(v1::ContainerState::ContainerExited) => ContainerState::Stopped,
        Ok(v1::ContainerState::ContainerUnknown) | Err(_) => ContainerState::Unknown,
    };
    ContainerStatus {
        state,
        pid: 0,
        created_at: message.created_at,
        started_at: message.started_at,
        finished_at: message.finished_at,
        exit_code: message.exit_code,
        reason: message.reason.clone(),
        message: message.message.clone(),
    }
}

/// Writes the status of a container into a message. A paused container is shown as running, because
/// the CRI has no such state.
pub fn to_container_status(message: &mut v1::ContainerStatus, status: &ContainerStatus) {
    let ContainerStatus { state, pid: _, created_at, started_at, finished_at, exit_code, reason, message: text } =
        status;
    message.state = match state {
        ContainerState::Created => v1::ContainerState::ContainerCreated,
        ContainerState::Running | ContainerState::Paused => v1::ContainerState::ContainerRunning,
        ContainerState::Stopped => v1::ContainerState::ContainerExited,
        ContainerState::Unknown | ContainerState::Unnamed(_) => v1::ContainerState::ContainerUnknown,
    }
    .into();
    message.created_at = *created_at;
    message.started_at = *started_at;
    message.finished_at = *finished_at;
    message.exit_code = *exit_code;
    message.reason.clone_from(reason);
    message.message.clone_from(text);
}
