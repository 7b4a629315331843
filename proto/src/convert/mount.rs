//! Conversions of mounts.

use super::{Translate, message};
use crate::model::Mount;
use crate::schema::api;

message! {
    Mount as Mount { destination, source, options; type_ as kind }
}
