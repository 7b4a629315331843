//! Where a shim's log goes: containerd makes a FIFO in the bundle, and copies what it reads there into its own log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;
use tracing_subscriber::fmt::MakeWriter;

/// The name of the FIFO.
const FIFO: &str = "log";

/// Opens the FIFO so that nothing ever waits for its reader.
///
/// It is opened for reading too, though nobody reads here: so it may be opened while containerd is away, a write does not
/// fail when it goes, and what was written is there when it comes back. When the FIFO is full, lines are lost.
pub(crate) fn open(bundle: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(bundle.join(FIFO))
}

/// Sends the log of this process to a file.
pub(crate) fn install(file: File, debug: bool) {
    let level = if debug { tracing::Level::DEBUG } else { tracing::Level::INFO };
    let lines = Lines(Arc::new(file));
    // If there is a subscriber already, it is the author's, and stays.
    let _ = tracing_subscriber::fmt().with_writer(lines).with_max_level(level).with_ansi(false).try_init();
}

#[derive(Clone)]
struct Lines(Arc<File>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A line that does not fit is lost as a whole.
        let _ = (&*self.0).write(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
