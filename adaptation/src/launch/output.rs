//! Writes the output of launched plugins to the log, line by line.

use std::time::Duration;

use nri_proto::PluginId;
use nri_proto::quote::quoted;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::limits::MAX_LINE;

/// How many lines of a stream are logged per interval. Further lines are left out, so that the
/// plugin never waits for the log.
const LINES: u32 = 500;
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the rest of the output is read after the plugin has ended. A child process of the
/// plugin may keep the pipe open for longer.
const DRAIN: Duration = Duration::from_millis(100);

/// Logs the lines from a pipe until its end, or until shortly after the plugin has `ended`.
pub(super) async fn forward(
    mut pipe: impl AsyncRead + Unpin,
    plugin: PluginId,
    stream: &'static str,
    ended: CancellationToken,
) {
    let over = async {
        ended.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::pin!(over);
    let mut log = OutputLog { plugin, stream, quota: Quota::new(Instant::now()) };
    let (mut lines, mut buffer) = (LineSplitter::default(), [0; 4096]);
    loop {
        let n_read = tokio::select! {
            n_read = pipe.read(&mut buffer) => n_read.unwrap_or(0),
            () = &mut over => 0,
        };
        if n_read == 0 {
            break;
        }
        lines.push(&buffer[..n_read], |line, n_cut| log.write(line, n_cut));
    }
    lines.finish(|line, n_cut| log.write(line, n_cut));
    log.finish();
}

struct OutputLog {
    plugin: PluginId,
    stream: &'static str,
    quota: Quota,
}

impl OutputLog {
    fn write(&mut self, line: &[u8], n_cut: usize) {
        let (may, n_left_out) = self.quota.take(Instant::now());
        self.left_out(n_left_out);
        if may {
            let (plugin, stream, line) = (&self.plugin, self.stream, quoted_line(line));
            match n_cut {
                0 => info!(target: "nri_plugin", %plugin, stream, %line, "output"),
                _ => info!(target: "nri_plugin", %plugin, stream, n_cut, %line, "output"),
            }
        }
    }

    fn finish(&mut self) {
        let n_left_out = std::mem::take(&mut self.quota.n_left_out);
        self.left_out(n_left_out);
    }

    fn left_out(&self, n_left_out: u64) {
        if n_left_out > 0 {
            let (plugin, stream) = (&self.plugin, self.stream);
            warn!(target: "nri_plugin", %plugin, stream, n_left_out, "plugin writes too many lines; some were not logged");
        }
    }
}

/// Returns a line for the log, in quotes: it cannot look like several lines, or like fields of the
/// log. Invisible characters are escaped.
fn quoted_line(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    quoted(text.trim_end_matches('\r')).to_string()
}

/// Splits the output of a plugin into lines of bounded length.
#[derive(Debug, Default)]
struct LineSplitter {
    line: Vec<u8>,
    /// How many bytes of the current line were cut off.
    n_cut: usize,
}

impl LineSplitter {
    /// Adds bytes, and passes each complete line to `take`, with the number of bytes that were cut
    /// off.
    fn push(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8], usize)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_whole) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let room = MAX_LINE - self.line.len();
            let kept = &text[..text.len().min(room)];
            self.line.extend_from_slice(kept);
            self.n_cut += text.len() - kept.len();
            if is_whole {
                self.hand_out(&mut take);
            }
        }
    }

    /// Passes the last line to `take`, if it does not end with a line break.
    fn finish(&mut self, mut take: impl FnMut(&[u8], usize)) {
        if !self.line.is_empty() {
            self.hand_out(&mut take);
        }
    }

    fn hand_out(&mut self, take: &mut impl FnMut(&[u8], usize)) {
        take(&self.line, std::mem::take(&mut self.n_cut));
        self.line.clear();
    }
}

/// Limits the number of logged lines per interval.
#[derive(Debug)]
struct Quota {
    since: Instant,
    n_taken: u32,
    n_left_out: u64,
}

impl Quota {
    fn new(now: Instant) -> Self {
        Self { since: now, n_taken: 0, n_left_out: 0 }
    }

    /// Returns whether one more line may be logged. If a new interval begins, also returns how many
    /// lines were left out in the previous one.
    fn take(&mut self, now: Instant) -> (bool, u64) {
        let mut n_left_out = 0;
        if now.saturating_duration_since(self.since) >= INTERVAL {
            n_left_out = std::mem::replace(self, Self::new(now)).n_left_out;
        }
        let may = self.n_taken < LINES;
        match may {
            true => self.n_taken += 1,
            false => self.n_left_out += 1,
        }
        (may, n_left_out)
    }
}

#[cfg(test)]
mod tests;
