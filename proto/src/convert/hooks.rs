//! Conversions of OCI hooks.

use super::{Translate, message};
use crate::model::{Hook, Hooks};
use crate::schema::api;

message! {
    Hooks as Hooks {
        prestart, create_runtime, create_container, start_container, poststart, poststop
    }, encode, decode
}

message! {
    Hook as Hook { path, args, env, timeout }, encode, decode
}
