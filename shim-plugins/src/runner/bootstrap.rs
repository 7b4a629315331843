//! Parses what containerd sends to `start`, in all dialects, and encodes the answer.

use containerd_shim_protos::bootstrap_api::{BootstrapParams, BootstrapResult};
use protobuf::Message as _;
use protobuf::well_known_types::any::Any;

use super::mounts::Mounts;

/// The largest input that `start` accepts, in bytes.
pub(crate) const MAX_INPUT: usize = 10 << 20;

/// The version of the shim protocol that a [`Dialect::Message`] answer announces.
const VERSION: i32 = 3;

/// The input of `start` from containerd.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bootstrap {
    /// The dialect of the answer that containerd expects.
    pub dialect: Dialect,
    /// The ttrpc address of containerd, if it is in the input.
    pub ttrpc_address: Option<String>,
    /// The gRPC address of containerd, if it is in the input.
    pub grpc_address: Option<String>,
    /// The version of containerd, if it is in the input.
    pub containerd_version: Option<String>,
    /// The directory of sockets, if it is in the input.
    pub socket_dir: Option<String>,
    /// Whether containerd asks for debug output.
    pub debug: bool,
    /// The options of the runtime, and other extensions.
    pub extensions: Vec<Any>,
}

/// The form of the answer of `start`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The bare address, for containerd before 2.3. It implies version 2 of the shim protocol.
    #[default]
    Text,
    /// An encoded message with version and address, for containerd from 2.3 on.
    Message,
}

/// Why the input of `start` could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// The input is too long.
    #[error("standard input has more than {MAX_INPUT} bytes")]
    TooLong,

    /// The input names another container than the flags.
    #[error("standard input names container {id:?} in namespace {namespace:?}, unlike the flags")]
    OtherContainer {
        /// The id of the container.
        id: String,
        /// The namespace of the container.
        namespace: String,
    },

    /// The input is in no known dialect.
    #[error("standard input has neither shim parameters nor runtime options")]
    Unknown,
}

impl Bootstrap {
    /// Parses what containerd sends to the `start` of a container.
    ///
    /// The message of each dialect may also decode as the message of the other. So shim parameters
    /// are accepted only if they name the container and the namespace of the flags.
    pub fn parse(input: &[u8], id: &str, namespace: &str) -> Result<Self, BootstrapError> {
        if input.len() > MAX_INPUT {
            return Err(BootstrapError::TooLong);
        }
        if input.is_empty() {
            return Ok(Self::default());
        }
        let params = BootstrapParams::parse_from_bytes(input);
        if let Ok(params) = &params
            && params.instance_id == id
            && params.namespace == namespace
        {
            return Ok(Self::from_params(params));
        }
        match Any::parse_from_bytes(input) {
            Ok(options) if is_plain(&options) => Ok(Self { extensions: vec![options], ..Self::default() }),
            Ok(_) | Err(_) => match params {
                Ok(BootstrapParams { instance_id, namespace, .. }) if !instance_id.is_empty() => {
                    Err(BootstrapError::OtherContainer { id: instance_id, namespace })
                }
                Ok(_) | Err(_) => Err(BootstrapError::Unknown),
            },
        }
    }

    fn from_params(params: &BootstrapParams) -> Self {
        let non_empty = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        Self {
            dialect: Dialect::Message,
            ttrpc_address: non_empty(&params.containerd_ttrpc_address),
            grpc_address: non_empty(&params.containerd_grpc_address),
            containerd_version: non_empty(&params.containerd_version),
            socket_dir: params.socket_dir.as_ref().and_then(non_empty),
            debug: params.log_level.value() < 0,
            extensions: params.extensions.iter().filter_map(|extension| extension.value.as_ref().cloned()).collect(),
        }
    }
}

/// Returns whether a message has no fields but those of `Any`. Shim parameters have more fields.
fn is_plain(options: &Any) -> bool {
    !options.type_url.is_empty() && options.special_fields.unknown_fields().iter().next().is_none()
}

impl Dialect {
    /// Encodes the answer: the address of the shim, and the mounts that it performs itself.
    pub(crate) fn answer(self, address: &str, mounts: &Mounts) -> Vec<u8> {
        match self {
            Self::Text => address.as_bytes().to_vec(),
            Self::Message => {
                let mut result = BootstrapResult::new();
                result.version = VERSION;
                address.clone_into(&mut result.address);
                "ttrpc".clone_into(&mut result.protocol);
                mounts.attach_to(&mut result);
                result.write_to_bytes().expect("an answer is encoded into memory")
            }
        }
    }
}
