//! Benchmarks of single steps, without plugins.

use std::hint::black_box;
use std::ops::Deref;
use std::time::Instant;

use anyhow::{Result, bail};
use nri_proto::encode::Writer;
use nri_proto::{Container, CreateReply, Pod, api};
use protobuf::Message;

use crate::clock::Used;
use crate::payload::Payload;
use crate::protocol::{Latency, Request, Run};

/// The initial capacity of an encoded request, as in the adaptation.
const ROOM: usize = 8 << 10;
const READS: &str = "what was written can be read";

/// Runs a step many times.
pub(crate) fn micro(request: &Request, payload: &Payload) -> Result<Run> {
    let pod = payload.pod(0, "");
    let container = payload.container(0, &pod, &request.payload);
    let reply = payload.adjustment(0)?;
    let (asked, adjusted) = (encode(&pod, &container), encode_reply(&reply));
    Ok(match request.op.as_str() {
        "marshal_create_request" | "marshal_start_request" => measure(request, || encode(&pod, &container)),
        "marshal_envelope" => {
            let mut envelope = ttrpc::Request::new();
            envelope.service = "nri.pkg.api.v1alpha1.Plugin".to_owned();
            envelope.method = "CreateContainer".to_owned();
            envelope.timeout_nano = 1_999_990_000;
            envelope.payload = asked.into();
            measure(request, || envelope.write_to_bytes())
        }
        "unmarshal_envelope" => {
            let mut envelope = ttrpc::Response::new();
            envelope.payload = adjusted;
            let bytes = envelope.write_to_bytes()?;
            measure(request, || ttrpc::Response::parse_from_bytes(&bytes).expect(READS))
        }
        "unmarshal_create_request" => measure(request, || {
            let message = api::CreateContainerRequest::parse_from_bytes(&asked).expect(READS);
            (Pod::from(message.pod.unwrap_or_default()), Container::from(message.container.unwrap_or_default()))
        }),
        "marshal_create_response" => measure(request, || encode_reply(&reply)),
        "unmarshal_create_response" => measure(request, || {
            CreateReply::from(api::CreateContainerResponse::parse_from_bytes(&adjusted).expect(READS))
        }),
        "clone_create_request" => measure(request, || (pod.clone(), container.clone())),
        other => bail!("unknown micro op {other:?}"),
    })
}

fn encode(pod: &Pod, container: &Container) -> impl Deref<Target = [u8]> + Into<Vec<u8>> {
    let mut out = Writer::with_capacity(ROOM);
    out.model(2, container);
    out.model(1, pod);
    out.into_bytes()
}

fn encode_reply(reply: &CreateReply) -> Vec<u8> {
    let message = api::CreateContainerResponse::from(reply.clone());
    message.write_to_bytes().expect("encoding to memory does not fail")
}

fn measure<T>(request: &Request, mut step: impl FnMut() -> T) -> Run {
    for _ in 0..request.warmup {
        black_box(step());
    }
    let (before, begun) = (Used::now(), Instant::now());
    for _ in 0..request.n {
        black_box(step());
    }
    let wall = begun.elapsed();
    let mut used = Used::default();
    used.add_since(before);
    let wall_ns = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
    let count = request.n.max(1);
    Run {
        op: request.op.clone(),
        n: request.n,
        callers: 1,
        wall_ns,
        ops_per_s: request.n as f64 / wall.as_secs_f64().max(1e-9),
        lat_ns: Latency { mean: wall_ns / count as u64, ..Latency::default() },
        utime_us: used.user_us,
        stime_us: used.system_us,
        cpu_us_per_op: (used.user_us + used.system_us) as f64 / count as f64,
        ..Run::default()
    }
}
