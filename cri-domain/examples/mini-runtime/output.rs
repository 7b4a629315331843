//! Reads the output of containers, which may have any content and any size.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

/// The largest length of a line, in bytes. Longer lines are split.
const LONGEST: u64 = 16 << 10;

/// Passes on each line of the output. Invalid UTF-8 is replaced. Reading continues to the end, so
/// that a container never blocks on its output.
pub(crate) async fn lines(output: impl AsyncRead + Unpin, mut handle_line: impl FnMut(&str)) -> io::Result<()> {
    let mut output = BufReader::new(output);
    let mut line = vec![];
    while (&mut output).take(LONGEST).read_until(b'\n', &mut line).await? > 0 {
        handle_line(&String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)));
        line.clear();
    }
    Ok(())
}
