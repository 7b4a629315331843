use super::{Translate, word};
use crate::model::FailurePolicy;
use crate::schema::api;

word! {
    FailurePolicy as FailurePolicy { fail_request, keep_connected }
}
