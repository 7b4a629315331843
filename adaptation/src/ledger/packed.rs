//! Changes that are stored as bytes until someone reads them.

use std::sync::Arc;

use super::Change;
use super::Entry;
use super::Occasion;
use super::What;
use crate::merge::{Changed, packing};

/// The changes of one reply to one container, or a part of them.
#[derive(Debug)]
pub(super) struct Packed {
    /// The sequence number of the first change.
    pub(super) first: u64,
    pub(super) n_changes: usize,
    pub(super) occasion: Arc<Occasion>,
    pub(super) bytes: Box<[u8]>,
    /// The cost of the changes in bytes.
    pub(super) weight: usize,
}

impl Packed {
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        (self.first..).zip(packing::unpack(&self.bytes)).map(|(sequence, change)| {
            let (occasion, what) = (Arc::clone(&self.occasion), What::Changed(change.into()));
            Entry { sequence, occasion, what, is_cut: false }
        })
    }
}

impl From<Changed> for Change {
    fn from(changed: Changed) -> Self {
        let Changed { container: _, field, key, before, after } = changed;
        Self { field, key, before, after }
    }
}
