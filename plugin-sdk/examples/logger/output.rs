//! The output of the log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use nri_plugin::Refusal;
use tracing_subscriber::fmt::MakeWriter;

/// The output: a file once one is opened, and stderr until then.
#[derive(Clone, Default)]
pub(crate) struct Output(Arc<Mutex<Option<File>>>);

impl Output {
    /// Switches the output to a file, and appends to it.
    pub(crate) fn open(&self, path: &str) -> Result<(), Refusal> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|error| Refusal::new(format_args!("failed to open log file {path:?}: {error}")))?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => file.write(bytes),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Output {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
