//! Conversions of mounts.

use super::{Translate, message};
use crate::model::Mount;
use crate::schema::api;

message! {
    Mount as Mount { destination, type_ as kind, source, options }, encode, decode
}
