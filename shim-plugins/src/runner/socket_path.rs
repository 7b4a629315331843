//! The paths of sockets, named as in Go's shim, and their addresses.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Returns the path of the socket of a group of containers.
///
/// The file name is a hash, as in Go's shim, so that any group name fits.
pub(crate) fn path(dir: &Path, grpc_address: &str, namespace: &str, group: &str) -> PathBuf {
    let text = if group.contains('/') {
        unambiguous("shim", grpc_address, namespace, group)
    } else {
        format!("{grpc_address}/{namespace}/{group}")
    };
    dir.join(hashed(&text))
}

/// Returns the path of the debug socket of a group of containers, also named as in Go's shim.
pub(crate) fn debug_path(dir: &Path, grpc_address: &str, namespace: &str, group: &str) -> PathBuf {
    let text = if group.contains('/') {
        unambiguous("debug", grpc_address, namespace, group)
    } else {
        format!("{grpc_address}/{namespace}/{group}/debug")
    };
    dir.join(hashed(&text))
}

/// Returns the text to hash for a group with a slash in its name.
///
/// In Go's shim, the socket of group `a/debug` is the debug socket of group `a`. The name of a
/// group comes from an annotation, so it can be anything. This text begins with NUL, as no address
/// does, so it never equals a text that is hashed as in Go.
fn unambiguous(purpose: &str, grpc_address: &str, namespace: &str, group: &str) -> String {
    format!("\0{purpose}\0{grpc_address}\0{namespace}\0{group}")
}

fn hashed(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether a file name has the form that sockets of shims have.
pub(crate) fn is_socket_name(path: &Path) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    path.file_name().is_some_and(|name| name.len() == 64 && name.as_encoded_bytes().iter().all(is_digit))
}

/// Returns the address of a socket, given its path.
pub(crate) fn address(path: &Path) -> String {
    format!("unix://{}", path.display())
}

/// Returns the path of a socket, given its address.
pub(crate) fn path_of(address: &str) -> Option<PathBuf> {
    address.trim().strip_prefix("unix://").map(PathBuf::from)
}
