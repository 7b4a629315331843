//! The snapshot of pods and containers, which arrives in parts.

use bytes::Bytes;
use nri_proto::bounded::{self, BoundedError};
use nri_proto::{Container, Pod, api};
use thiserror::Error;

/// The weight of a pod or container itself, in entries: even an empty one takes memory.
const OBJECT_WEIGHT: usize = 8;
/// The minimum number of encoded bytes per entry. Real snapshots have more bytes per entry, and
/// snapshots made to exhaust memory have far fewer.
const BYTES_PER_ENTRY: usize = 8;
/// The number of entries that are accepted regardless of the size.
const FEW_ENTRIES: usize = 16 << 10;

/// The parts of a snapshot that were received so far.
#[derive(Debug, Default)]
pub(crate) struct SnapshotParts {
    pub(crate) pods: Vec<Pod>,
    pub(crate) containers: Vec<Container>,
    /// The encoded size of the parts.
    bytes: usize,
    /// The weight of the parts, in entries.
    weight: usize,
}

/// Errors from receiving a part of a snapshot. The parts before it are dropped.
#[derive(Debug, Error)]
pub(crate) enum SnapshotError {
    #[error("the snapshot is larger than the plugin's limit of {0} bytes")]
    TooLarge(usize),
    #[error("could not decode the snapshot")]
    Unread(#[from] BoundedError),
}

impl SnapshotParts {
    /// Adds a part, and returns the whole snapshot after the last one.
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

    /// Adds a part, and returns whether it is the last.
    fn add(&mut self, part: &Bytes, limit: usize) -> Result<bool, SnapshotError> {
        let bytes = self.bytes.saturating_add(part.len());
        if bytes > limit {
            return Err(SnapshotError::TooLarge(limit));
        }
        self.bytes = bytes;
        // The limit is for all parts together, since many small parts can exhaust memory as well.
        let entries = (FEW_ENTRIES + bytes / BYTES_PER_ENTRY).saturating_sub(self.weight);
        let (weight, part) = bounded::weigh::<api::SynchronizeRequest>(part, OBJECT_WEIGHT, entries)?;
        self.weight += weight;
        let api::SynchronizeRequest { pods, containers, more, special_fields: _ } = part.parse()?;
        self.pods.extend(pods.into_iter().map(Pod::from));
        self.containers.extend(containers.into_iter().map(Container::from));
        Ok(!more)
    }
}
