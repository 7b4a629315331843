//! Conversions of containers.

use protobuf::EnumOrUnknown;

use super::{Translate, message, numbers};
use crate::model::{Container, ContainerState, Image, Rlimit, Unnamed, User};
use crate::schema::api;

message! {
    Container as Container {
        id, name, state, labels, annotations, args, env, mounts, hooks, linux, pid, rlimits,
        created_at, started_at, finished_at, exit_code, status_reason, status_message, user, image;
        pod_sandbox_id as pod_id, CDI_devices as cdi_devices
    }
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
    Image as Image { name, digest, config_digest }
}

message! {
    User as User { uid, gid, additional_gids }
}

message! {
    POSIXRlimit as Rlimit { hard, soft; type_ as kind }
}
