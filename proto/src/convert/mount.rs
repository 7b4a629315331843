use super::{Translate, word};
use crate::model::Mount;
use crate::schema::api;

word! {
    Mount as Mount { destination, source, options; type_ as kind }
}
