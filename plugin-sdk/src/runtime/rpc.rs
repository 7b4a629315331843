//! The RPCs of the runtime's service, which plugins call.

use std::time::Duration;

use bytes::Bytes;
use nri_proto::bounded::{self, BoundedError};
use nri_proto::call::{CallError, Client, Method};
use nri_proto::{Update, api};
use protobuf::Message;

/// The name of the service that plugins call.
const RUNTIME: &str = "nri.pkg.api.v1alpha1.Runtime";
/// The maximum number of entries in a reply: failed updates and their fields.
const MAX_ENTRIES: usize = 64 << 10;

/// Registers the plugin with the runtime.
pub(crate) async fn register(
    client: &Client,
    request: api::RegisterPluginRequest,
    timeout: Duration,
) -> Result<(), CallError> {
    client.call(method("RegisterPlugin"), encode(&request), timeout).await.map(drop)
}

pub(super) fn method(name: &'static str) -> Method {
    Method { service: RUNTIME, name }
}

/// Decodes the failed updates from a reply.
pub(super) fn failed_updates(answer: &Bytes) -> Result<Vec<Update>, BoundedError> {
    let api::UpdateContainersResponse { failed, special_fields: _ } = bounded::parse(answer, MAX_ENTRIES)?;
    Ok(failed.into_iter().map(Update::from).collect())
}

/// Encodes a message.
pub(crate) fn encode(message: &impl Message) -> Bytes {
    message.write_to_bytes().expect("the messages of NRI have no required fields").into()
}
