//! What a shim writes to standard output.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Default)]
pub(super) struct CapturedOutput(Arc<Mutex<Vec<u8>>>);

impl CapturedOutput {
    pub(super) fn taken(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for CapturedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
