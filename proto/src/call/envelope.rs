//! The ttrpc messages around the payload of a call: building requests, and parsing both kinds.

use bytes::Bytes;
use protobuf::rt::{WireType, skip_field_for_tag};
use protobuf::{CodedInputStream, CodedOutputStream, Enum};
use ttrpc::proto::{MESSAGE_TYPE_REQUEST, MESSAGE_TYPE_RESPONSE};
use ttrpc::{Code, Request, Response};

use super::{CallError, MESSAGE_HEADER_LENGTH, Method};

/// Returns the header of a request.
pub(super) fn request_header(stream: u32, length: usize) -> [u8; MESSAGE_HEADER_LENGTH] {
    header(stream, length, MESSAGE_TYPE_REQUEST)
}

/// Returns the header of a response.
pub(super) fn response_header(stream: u32, length: usize) -> [u8; MESSAGE_HEADER_LENGTH] {
    header(stream, length, MESSAGE_TYPE_RESPONSE)
}

fn header(stream: u32, length: usize, kind: u8) -> [u8; MESSAGE_HEADER_LENGTH] {
    let [a, b, c, d] = u32::try_from(length).expect("lengths are checked against MAX_MESSAGE").to_be_bytes();
    let [e, f, g, h] = stream.to_be_bytes();
    [a, b, c, d, e, f, g, h, kind, 0]
}

/// Returns the beginning of an encoded request, up to and including the length of the payload.
///
/// The payload itself is appended unchanged.
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

/// Parses a response. The payload is a view of `message`, not a copy. A refusal can have a payload.
pub(super) fn reply(message: &Bytes) -> Result<Bytes, CallError> {
    let (status, payload) =
        parse_response(message).map_err(|_| CallError::Malformed { breach: "it is not a ttrpc response" })?;
    match status {
        Some((code, message)) if code != Code::OK as i32 => {
            Err(CallError::Refused { code: Code::from_i32(code).unwrap_or(Code::UNKNOWN), message, payload })
        }
        _ => Ok(payload),
    }
}

/// Returns the tag of a length-delimited field.
const fn field(number: u32) -> u32 {
    (number << 3) | WireType::LengthDelimited as u32
}

// Envelopes are parsed field by field, because decoding can take many times the size of the
// message. A peer can repeat empty entries of the metadata and of a status' details.

fn parse_response(message: &Bytes) -> protobuf::Result<(Option<(i32, String)>, Bytes)> {
    const STATUS: u32 = field(1);
    const PAYLOAD: u32 = field(2);
    let mut input = CodedInputStream::from_tokio_bytes(message);
    let (mut status, mut payload) = (None, Bytes::new());
    while let Some(tag) = input.read_raw_tag_or_eof()? {
        match tag {
            STATUS => status = Some(parse_status(&input.read_tokio_bytes()?)?),
            PAYLOAD => payload = input.read_tokio_bytes()?,
            other => skip_field_for_tag(other, &mut input)?,
        }
    }
    Ok((status, payload))
}

fn parse_status(message: &Bytes) -> protobuf::Result<(i32, String)> {
    const CODE: u32 = (1 << 3) | WireType::Varint as u32;
    const MESSAGE: u32 = field(2);
    let mut input = CodedInputStream::from_tokio_bytes(message);
    let (mut code, mut text) = (0, String::new());
    while let Some(tag) = input.read_raw_tag_or_eof()? {
        match tag {
            CODE => code = input.read_int32()?,
            MESSAGE => text = input.read_string()?,
            other => skip_field_for_tag(other, &mut input)?,
        }
    }
    Ok((code, text))
}

/// The number of metadata entries of a request that are kept. NRI uses none.
const MAX_METADATA: usize = 256;

/// Parses a request.
pub(super) fn request(message: &Bytes) -> protobuf::Result<Request> {
    const SERVICE: u32 = field(1);
    const METHOD: u32 = field(2);
    const PAYLOAD: u32 = field(3);
    const TIMEOUT: u32 = (4 << 3) | WireType::Varint as u32;
    const METADATA: u32 = field(5);
    let mut input = CodedInputStream::from_tokio_bytes(message);
    let mut request = Request::new();
    while let Some(tag) = input.read_raw_tag_or_eof()? {
        match tag {
            SERVICE => request.service = input.read_string()?,
            METHOD => request.method = input.read_string()?,
            PAYLOAD => request.payload = input.read_bytes()?,
            TIMEOUT => request.timeout_nano = input.read_int64()?,
            METADATA if request.metadata.len() < MAX_METADATA => request.metadata.push(input.read_message()?),
            other => skip_field_for_tag(other, &mut input)?,
        }
    }
    Ok(request)
}

/// Returns a response that refuses the request.
pub(super) fn refusal(code: Code, message: impl ToString) -> Response {
    let mut response = Response::new();
    response.set_status(ttrpc::get_status(code, message));
    response
}
