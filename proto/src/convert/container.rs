//! Conversions of containers.

use protobuf::EnumOrUnknown;

use super::{Translate, message, numbers};
use crate::model::{Container, ContainerState, Image, Rlimit, Unnamed, User};
use crate::schema::api;

message! {
    Container as Container {
        id, pod_sandbox_id as pod_id, name, state, labels, annotations, args, env, mounts, hooks, linux,
        pid, rlimits, created_at, started_at, finished_at, exit_code, status_reason, status_message,
        CDI_devices as cdi_devices, user, image
    }, encode
}

numbers! {
    api::ContainerState as ContainerState {
        CONTAINER_UNKNOWN as Unknown,
        CONTAINER_CREATED as Created,
        CONTAINER_PAUSED as Paused,
        CONTAINER_RUNNING as Running,
        CONTAINER_STOPPED as Stopped,
    }
}

message! {
    Image as Image { name, digest, config_digest }, encode
}

message! {
    User as User { uid, gid, additional_gids }, encode
}

message! {
    POSIXRlimit as Rlimit { type_ as kind, hard, soft }, encode, decode
}
