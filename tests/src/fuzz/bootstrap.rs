//! The input of a shim's `start` from containerd: it is parsed in one of two dialects, or refused.

use protobuf::Message as _;
use shim_plugins::protos::bootstrap_api::BootstrapParams;
use shim_plugins::runner::{Bootstrap, BootstrapError, Dialect};

/// Parses the bytes as input for the `start` of a container that they may be about, and of one that
/// they are not about.
pub fn bootstrap(input: &[u8]) {
    let named = BootstrapParams::parse_from_bytes(input).ok();
    let (id, namespace) = named.map(|params| (params.instance_id, params.namespace)).unwrap_or_default();
    let _ = check(input, &id, &namespace);
    // No container has this name, so the input is never about it.
    let strange = format!("{id}\u{1}");
    if let Ok(bootstrap) = check(input, &strange, &namespace) {
        assert_eq!(bootstrap.dialect, Dialect::Text);
    }
}

fn check(input: &[u8], id: &str, namespace: &str) -> Result<Bootstrap, BootstrapError> {
    let said = Bootstrap::parse(input, id, namespace);
    if let Ok(bootstrap) = &said {
        match bootstrap.dialect {
            Dialect::Text => {
                assert!(bootstrap.extensions.len() <= 1);
                assert!(bootstrap.ttrpc_address.is_none() && bootstrap.socket_dir.is_none());
                assert_eq!(bootstrap.extensions.is_empty(), input.is_empty());
            }
            Dialect::Message => assert!(!input.is_empty()),
        }
    }
    said
}
