//! How a container ended, written down in its bundle.
//!
//! The server may be gone when containerd asks: after a restart of the daemon, or after kill -9. `delete` finds the record, and
//! tells the truth in place of "137, just now".

use std::io;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::bundle_file;
use super::reaper::Exit;

const FILE: &str = "exit.json";

/// How the first process of a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitRecord {
    /// The process.
    pub pid: u32,
    /// How it ended.
    pub exit: Exit,
}

#[derive(Serialize, Deserialize)]
struct RecordFile {
    pid: u32,
    status: u32,
    at: SystemTime,
}

impl ExitRecord {
    /// Writes it into a bundle, all of it or nothing.
    pub fn write(&self, bundle: &Path) -> io::Result<()> {
        let Self { pid, exit: Exit { status, at } } = *self;
        bundle_file::write(bundle, FILE, 0o600, &serde_json::to_vec(&RecordFile { pid, status, at })?)
    }

    /// Reads it from a bundle; `None` if it is not there, or is none.
    pub fn read(bundle: &Path) -> Option<Self> {
        let RecordFile { pid, status, at } = serde_json::from_slice(&bundle_file::read(bundle, FILE).ok()?).ok()?;
        Some(Self { pid, exit: Exit { status, at } })
    }
}
