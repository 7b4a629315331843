//! Which mounts a shim performs itself.

use containerd_shim_protos::bootstrap_api::BootstrapResult;
use protobuf::{Message as _, UnknownFields};

/// The types of mounts, and the ways to prepare one, that a shim takes over from containerd 2.4.
///
/// A shim always says so, if only that there are none: a daemon that is not told asks again at each container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts {
    /// Types of mounts.
    pub types: Vec<String>,
    /// Ways to prepare a mount.
    pub transforms: Vec<String>,
}

/// The number of the extensions in an answer, which the generated message does not have yet.
const EXTENSIONS: u32 = 6;

const TYPE_NAME: &str = "containerd.types.MountCapabilities";

impl Mounts {
    pub(super) fn attach_to(&self, result: &mut BootstrapResult) {
        let mut capabilities = UnknownFields::new();
        for kind in &self.types {
            capabilities.add_length_delimited(1, kind.clone().into_bytes());
        }
        for transform in &self.transforms {
            capabilities.add_length_delimited(2, transform.clone().into_bytes());
        }
        let mut any = UnknownFields::new();
        any.add_length_delimited(1, TYPE_NAME.as_bytes().to_vec());
        any.add_length_delimited(2, encoded(capabilities));
        let mut extension = UnknownFields::new();
        extension.add_length_delimited(1, encoded(any));
        result.special_fields.mut_unknown_fields().add_length_delimited(EXTENSIONS, encoded(extension));
    }
}

/// A message that has only these fields.
fn encoded(fields: UnknownFields) -> Vec<u8> {
    let mut message = protobuf::well_known_types::empty::Empty::new();
    *message.special_fields.mut_unknown_fields() = fields;
    message.write_to_bytes().expect("a message is encoded into memory")
}
