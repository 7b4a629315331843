use super::{Translate, word};
use crate::api;
use crate::words::{Hook, Hooks};

word! {
    Hooks as Hooks { prestart, create_runtime, create_container, start_container, poststart, poststop }
}

word! {
    Hook as Hook { path, args, env, timeout }
}
