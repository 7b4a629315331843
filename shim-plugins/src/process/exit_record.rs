//! Records in the bundle how a container ended.
//!
//! The server may be gone when containerd asks, after a restart of the daemon or after `kill -9`.
//! The action `delete` then reads the record and answers with the real exit, instead of status 137
//! and the current time.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::bundle_file;
use super::reaper::Exit;

const FILE: &str = "exit.json";

/// How the first process of a container ended.
///
/// A record in the bundle lets `delete` report the exit even if the server is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitRecord {
    /// The process id.
    pub pid: u32,
    /// The exit of the process.
    pub exit: Exit,
}

#[derive(Serialize, Deserialize)]
struct RecordFile {
    pid: u32,
    status: u32,
    at: SystemTime,
}

impl ExitRecord {
    /// Writes the record into a bundle atomically.
    pub fn write(&self, bundle: &Path) -> io::Result<()> {
        let Self { pid, exit: Exit { status, at } } = *self;
        bundle_file::write(bundle, FILE, 0o600, &serde_json::to_vec(&RecordFile { pid, status, at })?)
    }

    /// Reads the record of a bundle, or returns `None` if it is absent or invalid.
    pub fn read(bundle: &Path) -> Option<Self> {
        let RecordFile { pid, status, at } = serde_json::from_slice(&bundle_file::read(bundle, FILE).ok()?).ok()?;
        Some(Self { pid, exit: Exit { status, at } })
    }
}
