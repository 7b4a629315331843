//! What there is, told in parts.

use bytes::Bytes;
use nri_proto::bounded::{self, BoundedError};
use nri_proto::{Container, Pod, api};
use thiserror::Error;

/// What a pod or container weighs beside what it contains, in entries: it is large even if it is empty.
const OBJECT_WEIGHT: usize = 8;
/// How many entries may come with this many bytes: fewer than real ones have, and many more than a flood may have.
const BYTES_PER_ENTRY: usize = 8;
/// How many entries may come in any case.
const FEW_ENTRIES: usize = 16 << 10;

/// The parts that have come so far.
#[derive(Debug, Default)]
pub(crate) struct SnapshotParts {
    pub(crate) pods: Vec<Pod>,
    pub(crate) containers: Vec<Container>,
    bytes: usize,
    /// What they weigh, in entries.
    weight: usize,
}

/// Why a part was not taken. Those before it are dropped.
#[derive(Debug, Error)]
pub(crate) enum SnapshotError {
    #[error("what there is has more than {0} bytes, which is more than this plugin takes in")]
    TooLarge(usize),
    #[error("could not read what there is")]
    Unread(#[from] BoundedError),
}

impl SnapshotParts {
    /// Takes a part. The last one returns all of them.
    pub(crate) fn take(&mut self, part: &Bytes, limit: usize) -> Result<Option<Self>, SnapshotError> {
        match self.add(part, limit) {
            Ok(true) => Ok(Some(std::mem::take(self))),
            Ok(false) => Ok(None),
            Err(error) => {
                *self = Self::default();
                Err(error)
            }
        }
    }

    /// Adds a part, and returns whether it was the last.
    fn add(&mut self, part: &Bytes, limit: usize) -> Result<bool, SnapshotError> {
        let bytes = self.bytes.saturating_add(part.len());
        if bytes > limit {
            return Err(SnapshotError::TooLarge(limit));
        }
        self.bytes = bytes;
        // Of all parts together: many small ones may be a flood, too.
        let entries = (FEW_ENTRIES + bytes / BYTES_PER_ENTRY).saturating_sub(self.weight);
        let (weight, part) = bounded::weigh::<api::SynchronizeRequest>(part, OBJECT_WEIGHT, entries)?;
        self.weight += weight;
        let api::SynchronizeRequest { pods, containers, more, special_fields: _ } = part.parse()?;
        self.pods.extend(pods.into_iter().map(Pod::from));
        self.containers.extend(containers.into_iter().map(Container::from));
        Ok(!more)
    }
}
