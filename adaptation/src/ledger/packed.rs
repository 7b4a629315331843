//! Changes that are kept as bytes, until someone reads them.

use std::sync::Arc;

use super::Change;
use super::Entry;
use super::Occasion;
use super::What;
use crate::merge::{Changed, packing};

/// What one reply changed in one container, or a part of that.
#[derive(Debug)]
pub(super) struct Packed {
    /// The number of the first one.
    pub(super) first: u64,
    pub(super) n_changes: usize,
    pub(super) occasion: Arc<Occasion>,
    pub(super) bytes: Box<[u8]>,
    /// What the bytes count as.
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
