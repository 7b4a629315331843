//! The memory limits for one plugin.

use nri_proto::mux::{Limits, MAX_FRAME};

const MIB: usize = 1 << 20;

/// The most memory that one registered plugin can occupy for the messages that it sends and is
/// sent, in bytes.
const ALL: usize = 16 * MIB;

/// The limits of one connection.
pub(crate) const CONNECTION: Limits = Limits {
    frame: MAX_FRAME,
    // The largest message on each channel at a time, and what a single read may return beyond them.
    received: 2 * MAX_FRAME + (32 << 10),
    unsent: 4 * MIB,
    before_admission: 64 << 10,
    unknown_frames: 1000,
};

/// The limit, in bytes, for the journal of requests that a plugin has missed, in addition to the
/// other limits. Plugins share most of this memory: each request is stored once for all of them.
pub(crate) const JOURNAL: usize = 8 * MIB;

/// How many entries a plugin's requests may have in memory at a time, each of [`ENTRY`] bytes.
pub(crate) const ENTRIES: usize = 20 << 10;
/// The memory that an entry takes in addition to its encoded bytes.
const ENTRY: usize = 64;

/// How many bytes the requests of a plugin that wait for its admission may have.
pub(crate) const EARLY: usize = 512 << 10;

/// The most bytes that wait to be sent to a plugin. A single message may exceed the limit of the
/// queue.
const UNSENT: usize = if CONNECTION.unsent > MAX_FRAME { CONNECTION.unsent } else { MAX_FRAME };

/// How many bytes of an output line of a launched plugin are kept. The rest of the line is cut off.
pub(crate) const MAX_LINE: usize = 8 << 10;

/// The memory for the output of a launched plugin: the current line and the read buffer, for each
/// of its two streams.
const OUTPUT: usize = 2 * (2 * MAX_LINE + 4096);

// The capacity of a receive buffer may exceed its contents by a sixteenth.
const _: () = assert!(CONNECTION.received / 16 * 17 + UNSENT + ENTRIES * ENTRY + EARLY + OUTPUT <= ALL);

/// How many bytes of a text from a plugin are kept for errors, logs and events. No path is longer.
pub(crate) const TEXT: usize = 4096;

/// Cuts a text from a plugin to [`TEXT`] bytes.
pub(crate) fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT)].to_owned()
}
