use super::{Translate, word};
use crate::model::{Hook, Hooks};
use crate::schema::api;

word! {
    Hooks as Hooks { prestart, create_runtime, create_container, start_container, poststart, poststop }
}

word! {
    Hook as Hook { path, args, env, timeout }
}
