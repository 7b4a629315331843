//! Checks whether the server behind a socket answers.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use protobuf::Message as _;
use ttrpc::Request;

use super::handshake::is_end;
use crate::server::task;

/// The length of a ttrpc header: message length, stream, type and flags.
const HEADER: usize = 10;

/// The type of a request message.
const REQUEST: u8 = 1;

/// Returns whether a server answers: calls a method that does not exist, and accepts any response.
///
/// Returns `false` if the server closed the connection, so it does not serve and will not.
pub(super) fn is_served(mut stream: UnixStream, limit: Duration) -> io::Result<bool> {
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let mut request = Request::new();
    task::V3.clone_into(&mut request.service);
    "IsServed".clone_into(&mut request.method);
    let request = request.write_to_bytes().map_err(io::Error::other)?;
    let length = u32::try_from(request.len()).map_err(io::Error::other)?;
    let mut message = length.to_be_bytes().to_vec();
    message.extend(1_u32.to_be_bytes());
    message.extend([REQUEST, 0]);
    message.extend(request);
    let mut header = [0; HEADER];
    match stream.write_all(&message).and_then(|()| stream.read_exact(&mut header)) {
        Ok(()) => Ok(true),
        Err(error) if is_end(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
