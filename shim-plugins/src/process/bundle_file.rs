//! Small files in a bundle, which outlive the process that writes them.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 64 << 10;

/// Writes a file into a bundle atomically.
///
/// The file is written as `.NAME` and then renamed to `NAME`. A link at either name is replaced,
/// not followed.
pub(crate) fn write(bundle: &Path, name: &str, mode: u32, text: &[u8]) -> io::Result<()> {
    let unfinished = bundle.join(format!(".{name}"));
    // A process that was killed may have left an unfinished file.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let flags = flags(OFlags::NOFOLLOW)?;
    let mut file = File::options().write(true).create_new(true).mode(mode).custom_flags(flags).open(&unfinished)?;
    file.write_all(text)?;
    fs::rename(unfinished, bundle.join(name))
}

/// Reads a regular file of a bundle, up to a size limit.
pub(crate) fn read(bundle: &Path, name: &str) -> io::Result<Vec<u8>> {
    // NONBLOCK: opening a FIFO must not wait. The FIFO is refused afterwards.
    let flags = flags(OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
    let file = File::options().read(true).custom_flags(flags).open(bundle.join(name))?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut text = Vec::new();
    let n = file.take(MAX_FILE + 1).read_to_end(&mut text)?;
    if n as u64 > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {MAX_FILE} bytes")));
    }
    Ok(text)
}

fn flags(flags: OFlags) -> io::Result<i32> {
    i32::try_from(flags.bits()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_replaces_what_was_there_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let bundle = dir.path().join("bundle");
        fs::create_dir(&bundle).unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        // A link at the final name, and at the name under which the file is written.
        for name in ["address", ".address"] {
            symlink(&victim, bundle.join(name)).unwrap();
            write(&bundle, "address", 0o600, b"new").unwrap();
            assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
            let written = fs::symlink_metadata(bundle.join("address")).unwrap();
            assert!(written.is_file());
            assert_eq!(written.mode() & 0o7777, 0o600);
            assert_eq!(read(&bundle, "address").unwrap(), b"new");
            assert!(fs::symlink_metadata(bundle.join(".address")).is_err());
        }
        // A file with a second hard link is replaced, not written to.
        fs::hard_link(&victim, bundle.join(".exit.json")).unwrap();
        write(&bundle, "exit.json", 0o600, b"{}").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn only_a_regular_file_of_bounded_size_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("address");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(read(dir.path(), "address").unwrap_err().to_string(), "not a regular file");
        fs::remove_file(&path).unwrap();
        symlink("/etc/hostname", &path).unwrap();
        read(dir.path(), "address").unwrap_err();
        fs::remove_file(&path).unwrap();
        File::create(&path).unwrap().set_len(MAX_FILE + 1).unwrap();
        assert_eq!(read(dir.path(), "address").unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
