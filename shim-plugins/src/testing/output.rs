//! Captures the standard output of a shim.

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;

/// The captured output of a shim. Clones share it.
#[derive(Clone, Default)]
pub(super) struct CapturedOutput(Arc<Mutex<Vec<u8>>>);

impl CapturedOutput {
    /// Takes the output that was captured so far.
    pub(super) fn taken(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Write for CapturedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
