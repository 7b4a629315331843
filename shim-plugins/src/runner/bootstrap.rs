//! What containerd says to `start`, in all its dialects, and how it wants to be answered.

use containerd_shim_protos::bootstrap_api::{BootstrapParams, BootstrapResult};
use protobuf::Message as _;
use protobuf::well_known_types::any::Any;

use super::mounts::Mounts;

/// How much `start` reads.
pub(crate) const MAX_INPUT: usize = 10 << 20;

/// The version of the shim protocol that is announced to daemons that can hear it.
const VERSION: i32 = 3;

/// What containerd said to `start`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bootstrap {
    /// How it wants to be answered.
    pub dialect: Dialect,
    /// Where containerd serves ttrpc, if it said so here.
    pub ttrpc_address: Option<String>,
    /// Where containerd serves gRPC, if it said so here.
    pub grpc_address: Option<String>,
    /// Its version, if it said so.
    pub containerd_version: Option<String>,
    /// Where sockets go, if it said so.
    pub socket_dir: Option<String>,
    /// Whether it wants to hear more than usual.
    pub debug: bool,
    /// What else it said: the options of the runtime, and whatever else it has for us.
    pub extensions: Vec<Any>,
}

/// How containerd wants to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// With the address and nothing else: before 2.3. It means version 2 to all of them.
    #[default]
    Text,
    /// With a message: from 2.3 on.
    Message,
}

/// Why nothing can be made of what containerd said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BootstrapError {
    /// It said too much.
    #[error("standard input holds more than {MAX_INPUT} bytes")]
    TooLong,

    /// It is about another container.
    #[error("standard input is about container {id:?} in namespace {namespace:?}, and the flags are not")]
    OtherContainer {
        /// The container.
        id: String,
        /// Its namespace.
        namespace: String,
    },

    /// It is in no dialect that we know.
    #[error("standard input holds neither the parameters of a shim nor the options of a runtime")]
    Unknown,
}

impl Bootstrap {
    /// Takes apart what containerd said to the `start` of a container.
    ///
    /// The messages of the dialects can each be read as the other. So the parameters count as such only if they are
    /// about the container that the flags name.
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
        let said = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        Self {
            dialect: Dialect::Message,
            ttrpc_address: said(&params.containerd_ttrpc_address),
            grpc_address: said(&params.containerd_grpc_address),
            containerd_version: said(&params.containerd_version),
            socket_dir: params.socket_dir.as_ref().and_then(said),
            debug: params.log_level.value() < 0,
            extensions: params.extensions.iter().filter_map(|extension| extension.value.as_ref().cloned()).collect(),
        }
    }
}

/// Whether these are options and nothing else: the parameters of a shim have more fields.
fn is_plain(options: &Any) -> bool {
    !options.type_url.is_empty() && options.special_fields.unknown_fields().iter().next().is_none()
}

impl Dialect {
    /// The answer: where the shim listens, and what it mounts itself.
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
