//! Keeps processors from halting. In a virtual machine, waking a halted processor takes longer than
//! most of the measured operations, and is not part of them.

use std::io::{Read, stdin};
use std::process::{Child, Command, Stdio};
use std::{hint, io, thread};

use anyhow::{Context, Result};

/// A process that runs on every processor with the lowest priority. It ends when this is dropped,
/// or with the process that started it.
pub(crate) struct Awake(Child);

impl Awake {
    pub(crate) fn start() -> Result<Self> {
        let mut command = Command::new("chrt");
        command.args(["--idle", "0"]).arg(std::env::current_exe()?).arg("awake").stdin(Stdio::piped());
        Ok(Self(command.spawn().context("could not start chrt")?))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Keeps the processors busy until standard input ends.
pub(crate) fn stay() -> io::Result<()> {
    for _ in 0..thread::available_parallelism()?.get() {
        thread::spawn(|| {
            loop {
                hint::spin_loop();
            }
        });
    }
    stdin().read_to_end(&mut Vec::new()).map(drop)
}
