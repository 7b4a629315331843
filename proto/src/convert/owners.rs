//! Conversions of owners. On the wire, a dash marks the owner of a removal.

use super::{Translate, message};
use crate::model::marker;
use crate::model::{EntryOwners, FieldOwners, Owner, Owners};
use crate::schema::api;

message! {
    OwningPlugins as Owners { owners as containers }
}

message! {
    FieldOwners as FieldOwners { simple, compound }
}

message! {
    CompoundFieldOwners as EntryOwners { owners as entries }
}

impl Translate<Owner> for String {
    fn translate(self) -> Owner {
        match marker::removed(&self) {
            Some(plugins) => Owner::new(plugins, true),
            None => Owner::new(&self, false),
        }
    }
}

impl Translate<String> for Owner {
    fn translate(self) -> String {
        if self.is_removed() { marker::mark(self.as_str()) } else { self.as_str().to_owned() }
    }
}
