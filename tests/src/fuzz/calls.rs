//! The client, against a peer that answers with the input.

use std::time::Duration;

use bytes::Bytes;
use nri_proto::call::{CallError, Client, Method};
use nri_proto::mux::{ChannelId, Limits, Mux};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::script::Script;
use super::story;

const METHOD: Method = Method { service: "a.Service", name: "Method" };
const TIMEOUT: Duration = Duration::from_secs(2);

/// Makes some calls concurrently, and answers with bytes from the input: as they are, or in frames
/// or responses. Every call ends by its deadline, and stream ids only grow.
pub fn calls(input: &[u8]) {
    let mut script = Script(input);
    let callers = 1 + usize::from(script.byte() % 4);
    let capacity = 1 + script.number();
    story(async move {
        let (here, there) = tokio::io::duplex(capacity);
        let (reader, writer) = tokio::io::split(here);
        let limits = Limits { before_admission: usize::MAX, ..Limits::default() };
        let (mux, [channel]) = Mux::over(reader, writer, [ChannelId::PLUGIN_SERVICE], limits);
        let client = Client::new(channel);
        let calling = async {
            let calls = (0..callers).map(|caller| call(&client, caller * 3000));
            futures_util::future::join_all(calls).await;
            drop(client);
            mux.close();
            mux.closed().await;
        };
        tokio::join!(calling, peer(there, script));
    });
}

async fn call(client: &Client, length: usize) {
    let before = tokio::time::Instant::now();
    let outcome = client.call(METHOD, Bytes::from(vec![7; length]), TIMEOUT).await;
    let took = before.elapsed();
    assert!(took <= TIMEOUT, "a call took {took:?}");
    if let Err(error) = outcome {
        assert!(took == TIMEOUT || !matches!(error, CallError::TimedOut), "timed out after {took:?}");
    }
}

/// Reads requests, and answers as the script determines.
async fn peer(stream: DuplexStream, mut script: Script<'_>) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let reading = async {
        let mut received = Vec::new();
        let _ = reader.read_to_end(&mut received).await;
        check_ids(&received);
    };
    let answering = async {
        while !script.is_over() {
            if writer.write_all(&answer(&mut script)).await.is_err() {
                break;
            }
        }
    };
    tokio::join!(reading, answering);
}

/// Returns bytes, a frame, or a response.
fn answer(script: &mut Script<'_>) -> Vec<u8> {
    let kind = script.byte() % 4;
    let length = usize::from(script.byte());
    let stream = u32::from(script.byte() % 10);
    let bytes = script.bytes(length);
    let length = u32::try_from(bytes.len()).expect("it is small");
    let response = [&length.to_be_bytes()[..], &stream.to_be_bytes(), &[2, 0], bytes].concat();
    match kind {
        0 => bytes.to_vec(),
        1 => frame(bytes),
        2 => frame(&response),
        // A valid response, with the bytes as its payload.
        _ => {
            let payload =
                [&[0x12, u8::try_from(bytes.len() % 128).expect("it is small")], &bytes[..bytes.len() % 128]].concat();
            let length = u32::try_from(payload.len()).expect("it is small");
            frame(&[&length.to_be_bytes()[..], &stream.to_be_bytes(), &[2, 0], &payload].concat())
        }
    }
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is small");
    [&1u32.to_be_bytes()[..], &length.to_be_bytes(), payload].concat()
}

/// Checks the stream ids of the requests in these bytes, of which the last request may be
/// incomplete.
fn check_ids(mut wire: &[u8]) {
    let mut stream = Vec::new();
    while let Some((header, rest)) = wire.split_first_chunk::<8>() {
        let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
        assert_eq!(header[..4], [0, 0, 0, 1]);
        stream.extend_from_slice(&rest[..length.min(rest.len())]);
        wire = &rest[length.min(rest.len())..];
    }
    let mut rest = &stream[..];
    let mut last = None;
    while let Some((header, after)) = rest.split_first_chunk::<10>() {
        let length = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        assert!(id % 2 == 1 && last.is_none_or(|last| last < id), "id {id} after {last:?}");
        last = Some(id);
        rest = &after[length.min(after.len())..];
    }
}
