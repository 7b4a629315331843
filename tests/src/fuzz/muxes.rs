//! Two multiplexers over a stream that cuts, delays and ends at random.

use nri_proto::mux::{Channel, ChannelId, Limits, Mux};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::faulty::Faulty;
use super::script::Script;
use super::story;

const IDS: [ChannelId; 2] = [ChannelId::PLUGIN_SERVICE, ChannelId::RUNTIME_SERVICE];

/// Writes messages on all channels, in both directions concurrently. The received data equals the
/// sent data, or a prefix of it if the stream ended.
pub fn muxes(input: &[u8]) {
    let mut script = Script(input);
    let capacity = 1 + script.number() % 5000;
    let plans = [(); 4].map(|()| {
        let length = usize::from(script.byte() % 16);
        script.bytes(length)
    });
    let ends = script.byte() % 4 == 0;
    let lifetimes = [(); 4].map(|()| if ends { script.number() } else { usize::MAX });
    let streams = [(); 4].map(|()| messages(&mut script));
    story(async move {
        let (here, there) = tokio::io::duplex(capacity);
        let (near, [a, b]) = mux(here, [plans[0], plans[1]], [lifetimes[0], lifetimes[1]]);
        let (far, [c, d]) = mux(there, [plans[2], plans[3]], [lifetimes[2], lifetimes[3]]);
        let [to_c, to_d, to_a, to_b] = &streams;
        tokio::join!(
            exchange(a, to_c, to_a, ends),
            exchange(b, to_d, to_b, ends),
            exchange(c, to_a, to_c, ends),
            exchange(d, to_b, to_d, ends)
        );
        near.close();
        near.closed().await;
        far.closed().await;
    });
}

fn mux(stream: DuplexStream, plans: [&[u8]; 2], lifetimes: [usize; 2]) -> (Mux, [Channel; 2]) {
    let (reader, writer) = tokio::io::split(stream);
    let limits = Limits { before_admission: usize::MAX, ..Limits::default() };
    Mux::over(Faulty::new(reader, plans[0], lifetimes[0]), Faulty::new(writer, plans[1], lifetimes[1]), IDS, limits)
}

/// Returns some ttrpc messages, one after the other.
fn messages(script: &mut Script<'_>) -> Vec<u8> {
    let count = script.byte() % 4;
    let mut stream = Vec::new();
    for _ in 0..count {
        let (length, fill) = (script.number() % 10_000, script.byte());
        stream.extend(u32::try_from(length).expect("it is small").to_be_bytes());
        stream.extend([0, 0, 0, 1, 1, 0]);
        stream.resize(stream.len() + length, fill);
    }
    stream
}

async fn exchange(channel: Channel, send: &[u8], expect: &[u8], ends: bool) {
    let (mut reader, mut writer) = tokio::io::split(channel);
    let reading = async {
        let mut received = vec![0; expect.len()];
        let mut filled = 0;
        while filled < expect.len() {
            match reader.read(&mut received[filled..]).await {
                Ok(0) | Err(_) => break,
                Ok(read) => filled += read,
            }
        }
        assert!(received[..filled] == expect[..filled], "the stream was changed on its way");
        assert!(ends || filled == expect.len(), "only {filled} of {} bytes arrived", expect.len());
    };
    let writing = async {
        let written = async {
            writer.write_all(send).await?;
            writer.flush().await
        }
        .await;
        assert!(ends || written.is_ok(), "could not write: {written:?}");
    };
    tokio::join!(reading, writing);
}
