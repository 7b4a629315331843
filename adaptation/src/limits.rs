//! What one plugin can make us hold, as one sum.

use nri_proto::mux::{Limits, MAX_FRAME};

const MIB: usize = 1 << 20;

/// All of what it sends and what it is sent, once the plugin has registered.
const ALL: usize = 16 * MIB;

/// What it sends and what is sent to it.
pub(crate) const CONNECTION: Limits = Limits {
    frame: MAX_FRAME,
    // The largest message on both channels at a time, and what one read may bring behind them.
    received: 2 * MAX_FRAME + (32 << 10),
    unsent: 4 * MIB,
    before_admission: 64 << 10,
    unknown_frames: 1000,
};

/// What happens while it cannot be asked, beside that. Plugins share most of it: each request is
/// there once for all of them.
pub(crate) const JOURNAL: usize = 8 * MIB;

/// How many entries its requests to us may have at a time, of [`ENTRY`] bytes each.
pub(crate) const ENTRIES: usize = 20 << 10;
/// What an entry takes in memory beside its bytes.
const ENTRY: usize = 64;

/// How many bytes its requests may have that are kept until it is let in.
pub(crate) const EARLY: usize = 512 << 10;

/// What is queued may be one message that is larger than what else may be.
const UNSENT: usize = if CONNECTION.unsent > MAX_FRAME { CONNECTION.unsent } else { MAX_FRAME };

/// How much of a line that a launched plugin writes is kept. The rest of the line is cut off.
pub(crate) const MAX_LINE: usize = 8 << 10;

/// The lines of its standard output and error, if it was launched, and what is read of them at a
/// time.
const OUTPUT: usize = 2 * (2 * MAX_LINE + 4096);

// A buffer may be larger than what it holds by a sixteenth.
const _: () = assert!(CONNECTION.received / 16 * 17 + UNSENT + ENTRIES * ENTRY + EARLY + OUTPUT <= ALL);

/// How much of a plugin's text is kept, in bytes: it goes into errors, logs and the stream of what
/// happened. No path is longer.
pub(crate) const TEXT: usize = 4096;

/// As much of a plugin's text as is kept.
pub(crate) fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT)].to_owned()
}
