//! Changes that are stored as bytes until someone reads them.

use std::sync::Arc;

use nri_proto::encode::Writer;

use super::Change;
use super::Entry;
use super::EntryKind;
use super::Occasion;
use super::cost;
use crate::merge::{Changed, packing};

/// The changes of one reply to one container, or a part of them.
#[derive(Debug)]
pub(super) struct Packed {
    /// The sequence number of the first change.
    pub(super) first: u64,
    pub(super) n_changes: u64,
    pub(super) occasion: Arc<Occasion>,
    pub(super) bytes: Box<[u8]>,
    /// Whether this is one change, without its values.
    pub(super) is_cut: bool,
}

impl Packed {
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        (self.first..).zip(packing::unpack(&self.bytes)).map(|(sequence, change)| {
            let (occasion, what) = (Arc::clone(&self.occasion), EntryKind::Changed(change.into()));
            Entry { sequence, occasion, what, is_cut: self.is_cut }
        })
    }
}

impl Change {
    pub(super) fn pack(&self) -> Writer {
        let Self { field, key, before, after } = self;
        let mut packed = Writer::of_known(key.len());
        packing::pack(*field, key, before.as_ref(), after.as_ref(), &mut packed);
        packed
    }

    /// Returns the change without its values, and with a short key.
    pub(super) fn shortened(&self) -> Self {
        Self { field: self.field, key: cost::shortened(&self.key).to_owned(), before: None, after: None }
    }
}

impl From<Changed> for Change {
    fn from(changed: Changed) -> Self {
        let Changed { container: _, field, key, before, after } = changed;
        Self { field, key, before, after }
    }
}
