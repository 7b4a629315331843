//! What containers say: anything, and as much as they like.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

/// A line is cut after so many bytes.
const LONGEST: u64 = 16 << 10;

/// Reads lines to their end. What is no text in them is replaced, so that a container is never kept from saying more.
pub(crate) async fn lines(output: impl AsyncRead + Unpin, mut tell: impl FnMut(&str)) -> io::Result<()> {
    let mut output = BufReader::new(output);
    let mut line = vec![];
    while (&mut output).take(LONGEST).read_until(b'\n', &mut line).await? > 0 {
        tell(&String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)));
        line.clear();
    }
    Ok(())
}
