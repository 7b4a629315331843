//! Bytes of a connection, built by hand.

use nri_proto::mux::ChannelId;
use protobuf::Message;
use ttrpc::proto::{MESSAGE_TYPE_REQUEST, MESSAGE_TYPE_RESPONSE};

/// The service that plugins call.
pub const RUNTIME: &str = "nri.pkg.api.v1alpha1.Runtime";

/// Returns a frame of the multiplexer.
#[must_use]
pub fn frame(channel: u32, payload: &[u8]) -> Vec<u8> {
    [&channel.to_be_bytes()[..], &length(payload), payload].concat()
}

/// Returns a ttrpc message.
#[must_use]
pub fn message(kind: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    [&length(payload)[..], &id.to_be_bytes(), &[kind, 0], payload].concat()
}

/// Returns a plugin's request to the runtime, in a frame.
#[must_use]
pub fn request(id: u32, service: &str, method: &str, payload: Vec<u8>) -> Vec<u8> {
    let request =
        ttrpc::Request { service: service.to_owned(), method: method.to_owned(), payload, ..Default::default() };
    frame(ChannelId::RUNTIME_SERVICE.get(), &message(MESSAGE_TYPE_REQUEST, id, &encode(&request)))
}

/// Returns a plugin's answer to the runtime, in a frame.
#[must_use]
pub fn response(id: u32, payload: Vec<u8>) -> Vec<u8> {
    let response = ttrpc::Response { payload, ..Default::default() };
    frame(ChannelId::PLUGIN_SERVICE.get(), &message(MESSAGE_TYPE_RESPONSE, id, &encode(&response)))
}

/// Encodes a message.
#[must_use]
pub fn encode(message: &impl Message) -> Vec<u8> {
    message.write_to_bytes().expect("encoding to memory does not fail")
}

fn length(payload: &[u8]) -> [u8; 4] {
    u32::try_from(payload.len()).expect("nobody sends four gigabytes").to_be_bytes()
}
