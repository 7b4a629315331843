use super::{Translate, word};
use crate::api;
use crate::words::Mount;

word! {
    Mount as Mount { destination, source, options; type_ as kind }
}
