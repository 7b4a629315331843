//! Reads files from directories that other programs write to: only regular files, and within
//! limits.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

use super::CdiError;

/// The largest number of files in one directory.
const MOST_FILES: usize = 1024;
/// The largest size of one file, in bytes. A vendor's file with many devices has some 100,000
/// bytes.
const LARGEST_FILE: u64 = 4 << 20;
/// The largest size of all files together, in bytes.
const LARGEST_SUM: u64 = 32 << 20;

/// Reads files, and counts how many bytes it may still read.
pub(super) struct FileReader {
    left: u64,
}

impl FileReader {
    pub(super) fn new() -> Self {
        Self { left: LARGEST_SUM }
    }

    /// Returns the text of a regular file. Links are followed, but a pipe or device is not opened.
    pub(super) fn text(&mut self, path: &Path) -> Result<String, CdiError> {
        let failed = |source| CdiError::Io { path: path.to_owned(), source };
        let irregular = || CdiError::Irregular { path: path.to_owned() };
        // Opening a device may have an effect of its own.
        if !fs::metadata(path).map_err(failed)?.is_file() {
            return Err(irregular());
        }
        // Another program may replace the file with a pipe in the meantime. Opening it would then
        // block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?);
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(irregular());
        }
        let limit = LARGEST_FILE.min(self.left);
        let mut bytes = vec![];
        let n_read = file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
        self.left = self.left.saturating_sub(u64::try_from(n_read).unwrap_or(u64::MAX));
        if u64::try_from(n_read).is_ok_and(|n_read| n_read <= limit) {
            return String::from_utf8(bytes).map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Err(CdiError::TooLarge { path: path.to_owned(), largest: LARGEST_FILE, sum: LARGEST_SUM })
    }
}

/// Returns the CDI files of a directory, sorted by name. Fails if the directory has too many files:
/// reading a part of them would select devices at random.
pub(super) fn files(directory: &Path) -> Result<Vec<PathBuf>, CdiError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(source) => return Err(CdiError::Io { path: directory.to_owned(), source }),
    };
    let is_ours = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json" || extension == "yaml");
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(is_ours);
    let mut found: Vec<PathBuf> = paths.take(MOST_FILES + 1).collect();
    if found.len() > MOST_FILES {
        return Err(CdiError::TooMany { path: directory.to_owned(), most: MOST_FILES });
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    fn text(path: &Path) -> Result<String, CdiError> {
        FileReader::new().text(path)
    }

    #[test]
    fn a_pipe_a_socket_a_device_and_a_directory_are_refused_at_once_also_behind_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        mknodat(CWD, at("pipe.json"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = UnixListener::bind(at("socket.json")).unwrap();
        fs::create_dir(at("directory.json")).unwrap();
        for (link, target) in [("link.json", at("pipe.json")), ("null.json", "/dev/null".into())] {
            symlink(target, at(link)).unwrap();
        }
        for name in ["pipe.json", "socket.json", "directory.json", "link.json", "null.json"] {
            let error = text(&at(name)).unwrap_err();
            assert!(matches!(error, CdiError::Irregular { .. }), "{name}: {error:?}");
            assert_eq!(error.to_string(), format!("{} is not a regular file", at(name).display()));
        }
        for (link, target) in [("loop.json", at("loop.json")), ("nowhere.json", at("nothing"))] {
            symlink(target, at(link)).unwrap();
            assert!(matches!(text(&at(link)), Err(CdiError::Io { .. })), "{link}");
        }
    }

    #[test]
    fn a_link_to_a_regular_file_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link.json"));
        fs::write(&file, "{}").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(text(&link).unwrap(), "{}");
    }

    #[test]
    fn no_file_is_read_beyond_its_limit_nor_all_of_them_beyond_theirs() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |size: u64, reading: &mut FileReader| {
            file.as_file().set_len(size).unwrap();
            reading.text(file.path()).map(|text| text.len() as u64)
        };
        let mut reading = FileReader::new();
        assert_eq!(read(LARGEST_FILE, &mut reading).unwrap(), LARGEST_FILE);
        // Only the bytes that are read count, even if the file claims to have a terabyte.
        for size in [LARGEST_FILE + 1, 1 << 40] {
            let error = read(size, &mut reading).unwrap_err();
            assert!(matches!(error, CdiError::TooLarge { .. }), "{error:?}");
        }
        for _ in 0..LARGEST_SUM / LARGEST_FILE {
            _ = read(LARGEST_FILE, &mut reading);
        }
        assert!(matches!(read(1, &mut reading), Err(CdiError::TooLarge { .. })), "{} bytes are left", reading.left);
    }

    #[test]
    fn a_directory_with_too_many_files_has_none() {
        let directory = tempfile::tempdir().unwrap();
        let make = |n: usize| fs::write(directory.path().join(format!("{n}.json")), "").unwrap();
        (0..MOST_FILES).for_each(make);
        fs::write(directory.path().join("README"), "").unwrap();
        assert_eq!(files(directory.path()).unwrap().len(), MOST_FILES);
        make(MOST_FILES);
        let error = files(directory.path()).unwrap_err();
        assert_eq!(error.to_string(), format!("{} has more than 1024 files", directory.path().display()));
    }
}
