//! The messages around a call's payload, as bytes.

use bytes::Bytes;
use protobuf::rt::WireType;
use protobuf::{CodedInputStream, CodedOutputStream, Message};
use ttrpc::proto::{MESSAGE_TYPE_REQUEST, MESSAGE_TYPE_RESPONSE};
use ttrpc::{Code, Request, Response, Status};

use super::{CallError, HEADER_LENGTH, Method};

/// The header of a request.
pub(super) fn request_header(stream: u32, length: usize) -> [u8; HEADER_LENGTH] {
    header(stream, length, MESSAGE_TYPE_REQUEST)
}

/// The header of a response.
pub(super) fn response_header(stream: u32, length: usize) -> [u8; HEADER_LENGTH] {
    header(stream, length, MESSAGE_TYPE_RESPONSE)
}

fn header(stream: u32, length: usize, kind: u8) -> [u8; HEADER_LENGTH] {
    let [a, b, c, d] = u32::try_from(length).expect("lengths are checked against MAX_MESSAGE").to_be_bytes();
    let [e, f, g, h] = stream.to_be_bytes();
    [a, b, c, d, e, f, g, h, kind, 0]
}

/// A request up to and including the length of its payload, which follows as it is.
pub(super) fn request_head(method: Method, timeout_nano: i64, payload: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(method.service.len() + method.name.len() + 32);
    let mut out = CodedOutputStream::vec(&mut head);
    let written = (|| {
        out.write_string(1, method.service)?;
        out.write_string(2, method.name)?;
        out.write_int64(4, timeout_nano)?;
        if payload > 0 {
            out.write_tag(3, WireType::LengthDelimited)?;
            out.write_raw_varint64(payload as u64)?;
        }
        out.flush()
    })();
    written.expect("writing to a vector does not fail");
    drop(out);
    head
}

/// Takes a response apart: its payload is a view of `message`, not a copy.
pub(super) fn reply(message: &Bytes) -> Result<Bytes, CallError> {
    let (status, payload) =
        parse_response(message).map_err(|_| CallError::Malformed { breach: "it is not a ttrpc response" })?;
    match status {
        Some(status) if status.code() != Code::OK || status.code.enum_value().is_err() => {
            Err(CallError::Refused { code: status.code.enum_value().unwrap_or(Code::UNKNOWN), message: status.message })
        }
        _ => Ok(payload),
    }
}

fn parse_response(message: &Bytes) -> protobuf::Result<(Option<Status>, Bytes)> {
    const STATUS: u32 = (1 << 3) | WireType::LengthDelimited as u32;
    const PAYLOAD: u32 = (2 << 3) | WireType::LengthDelimited as u32;
    let mut input = CodedInputStream::from_tokio_bytes(message);
    let mut status: Option<Status> = None;
    let mut payload = Bytes::new();
    while let Some(tag) = input.read_raw_tag_or_eof()? {
        match tag {
            STATUS => input.merge_message(status.get_or_insert_default())?,
            PAYLOAD => payload = input.read_tokio_bytes()?,
            other => protobuf::rt::skip_field_for_tag(other, &mut input)?,
        }
    }
    Ok((status, payload))
}

/// Reads a request.
pub(super) fn request(message: &Bytes) -> protobuf::Result<Request> {
    Request::parse_from_tokio_bytes(message)
}

/// A response that says no.
pub(super) fn refusal(code: Code, message: impl ToString) -> Response {
    let mut response = Response::new();
    response.set_status(ttrpc::get_status(code, message));
    response
}
