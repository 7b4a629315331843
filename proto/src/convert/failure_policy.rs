//! Conversions of a plugin's failure policy.

use super::{Translate, message};
use crate::model::FailurePolicy;
use crate::schema::api;

message! {
    FailurePolicy as FailurePolicy { fail_request, keep_connected }
}
