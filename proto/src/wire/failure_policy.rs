use super::{Translate, word};
use crate::api;
use crate::words::FailurePolicy;

word! {
    FailurePolicy as FailurePolicy { fail_request, keep_connected }
}
