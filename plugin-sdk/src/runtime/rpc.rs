//! The RPCs that plugins call.

use std::time::Duration;

use bytes::Bytes;
use nri_proto::bounded::{self, BoundedError};
use nri_proto::call::{CallError, Client, Method};
use nri_proto::{Update, api};
use protobuf::Message;

/// The service that plugins call.
const RUNTIME: &str = "nri.pkg.api.v1alpha1.Runtime";
/// How many entries a runtime's answer may have: updates that failed, and what they consist of.
const MAX_ENTRIES: usize = 64 << 10;

/// Introduces the plugin.
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

/// The updates that an answer says have failed.
pub(super) fn failed_updates(answer: &Bytes) -> Result<Vec<Update>, BoundedError> {
    let api::UpdateContainersResponse { failed, special_fields: _ } = bounded::parse(answer, MAX_ENTRIES)?;
    Ok(failed.into_iter().map(Update::from).collect())
}

pub(crate) fn encode(message: &impl Message) -> Bytes {
    message.write_to_bytes().expect("words have no required fields that could be missing").into()
}
