//! The log of a shim: containerd creates a FIFO in the bundle, and copies its content to its own
//! log.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;
use tracing_subscriber::fmt::MakeWriter;

use super::flags::Flags;
use super::log_format::LineFormat;

/// The name of the FIFO.
const FIFO: &str = "log";

/// Opens the FIFO so that no write ever blocks.
///
/// The FIFO is also opened for reading, although nobody here reads. So it can be opened while no
/// containerd reads it, a write does not fail when containerd exits, and the data is there when
/// containerd is back. Lines are lost when the FIFO is full.
pub(crate) fn open(bundle: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(bundle.join(FIFO))?;
    if !file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the log in the bundle is not a FIFO"));
    }
    Ok(file)
}

/// Installs a subscriber that writes the log of this process to a file.
pub(crate) fn install(file: File, flags: &Flags) {
    let level = if flags.debug { tracing::Level::DEBUG } else { tracing::Level::INFO };
    let lines = LogWriter(Arc::new(file));
    // A subscriber that the author has installed stays.
    let subscriber = tracing_subscriber::fmt().with_writer(lines).with_max_level(level).with_ansi(false);
    let _ = subscriber.event_format(LineFormat::new(flags)).try_init();
}

/// Cuts a line that is too long for one atomic write.
fn cut(line: &[u8]) -> Cow<'_, [u8]> {
    if line.len() <= rustix::pipe::PIPE_BUF {
        return Cow::Borrowed(line);
    }
    const MARK: &[u8] = b" [cut]\n";
    let mut cut = line[..rustix::pipe::PIPE_BUF - MARK.len()].to_vec();
    // Do not cut a character in half.
    while std::str::from_utf8(&cut).is_err_and(|error| error.error_len().is_none()) {
        cut.pop();
    }
    cut.extend(MARK);
    Cow::Owned(cut)
}

/// Writes each line with one call, or drops it.
#[derive(Clone)]
struct LogWriter(Arc<File>);

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Linux writes up to `PIPE_BUF` bytes atomically, so a line that does not fit is lost as a
        // whole.
        let _ = (&*self.0).write(&cut(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn fifo() -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir().unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, dir.path().join(FIFO), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let file = open(dir.path()).unwrap();
        (dir, file)
    }

    #[test]
    fn a_log_that_is_no_fifo_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join(FIFO)).unwrap();
        open(dir.path()).unwrap_err();
        std::fs::remove_file(dir.path().join(FIFO)).unwrap();
        std::fs::hard_link(&victim, dir.path().join(FIFO)).unwrap();
        assert_eq!(open(dir.path()).unwrap_err().to_string(), "the log in the bundle is not a FIFO");
    }

    #[test]
    fn g17_a_log_that_nobody_reads_holds_nobody_up() {
        let (_dir, file) = fifo();
        let mut lines = LogWriter(Arc::new(file));
        for _ in 0..1000 {
            lines.write_all(&[b'x'; 1000]).unwrap();
        }
    }

    #[test]
    fn g17_a_line_is_written_whole_or_not_at_all_and_one_that_is_too_long_says_so() {
        let (_dir, file) = fifo();
        let mut lines = LogWriter(Arc::new(file.try_clone().unwrap()));
        let long = format!("{}\n", "ä".repeat(5000));
        for _ in 0..100 {
            lines.write_all(long.as_bytes()).unwrap();
        }
        let mut read = vec![0; 1 << 20];
        let n = (&file).read(&mut read).unwrap();
        let text = std::str::from_utf8(&read[..n]).unwrap();
        assert!(text.lines().count() > 10);
        assert!(text.lines().all(|line| line.ends_with("ä [cut]")), "a line was torn");
    }
}
