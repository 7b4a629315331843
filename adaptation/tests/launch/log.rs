//! The output of launched plugins.

use std::io;
use std::sync::{Arc, Mutex};

use nri_adaptation::Happening;
use tokio::net::UnixStream;
use tracing::subscriber::NoSubscriber;

use crate::node::{Node, PATIENCE};
use crate::plugin;

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Installs a log for this thread until the guard is dropped.
fn log() -> (Log, impl Sized) {
    // If only one subscriber exists, tracing caches for all threads whether an event is wanted, as
    // the first thread that reaches the event decides. The other tests have no subscriber, so this
    // log would miss events. A second subscriber prevents the cache.
    let other = tracing::Dispatch::new(NoSubscriber::default());
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_writer(move || writer.clone()).without_time().with_ansi(false).finish();
    (log, (tracing::subscriber::set_default(subscriber), other))
}

/// Runs on one thread, for which the log is installed.
#[tokio::test]
async fn an_orderly_stop_warns_of_no_plugin() {
    let (log, _guard) = log();
    // A plugin that does not hear of the shutdown in time causes a warning.
    let mut node = Node::with_grace(PATIENCE);
    node.put("10-a", plugin::script());
    node.put("20-b", plugin::script());
    node.launch().await;
    assert_eq!(node.plugins(), ["10-a", "20-b"]);
    node.stop().await;
    let happened = node.happened();
    assert_eq!(happened.iter().filter(|line| line.contains("closed: ")).count(), 2, "{happened:?}");

    let text = log.text();
    let closed = text.lines().filter(|line| line.contains(" INFO ") && line.contains("plugin is closed"));
    assert_eq!(closed.count(), 2, "{text}");
    assert!(!text.contains("WARN") && !text.contains("ERROR"), "{text}");
}

/// Runs on one thread, for which the log is installed.
#[tokio::test]
async fn an_orderly_stop_warns_of_no_peer_that_is_about_to_be_a_plugin() {
    let (log, _guard) = log();
    let node = Node::new();
    node.nri.listen().unwrap();
    node.put("10-launched", node.script("exec sleep 1000"));
    let _connected = UnixStream::connect(node.path("nri.sock")).await.unwrap();
    let (_attached, ours) = tokio::io::duplex(1024);
    let (reader, writer) = tokio::io::split(ours);
    node.nri.attach(reader, writer);
    let mut happenings = node.nri.watch_plugins();
    tokio::select! {
        launched = node.nri.launch() => panic!("a plugin that does not register was launched: {launched:?}"),
        happened = happenings.recv() => assert!(matches!(happened, Ok(Happening::Launched { .. })), "{happened:?}"),
    }
    node.stop().await;

    let text = log.text();
    let left = text.lines().filter(|line| line.contains(" INFO ") && line.contains("a peer did not become a plugin"));
    assert_eq!(left.count(), 2, "{text}");
    assert!(!text.contains("WARN") && !text.contains("ERROR"), "{text}");
}

/// Runs on one thread, for which the log is installed.
#[tokio::test]
async fn what_a_plugin_writes_is_in_the_log_line_by_line_with_its_name() {
    let (log, _guard) = log();
    let mut node = Node::new();
    let commands = r#"echo one; echo two >&2
        printf '\033[31mred\n'
        printf '" plugin=10-other line="forged\n'
        printf '\342\200\256turned\342\200\250\nnot ended'
        head -c 100000 /dev/zero | tr '\0' x >&2; echo >&2
        exit 3"#;
    node.put("10-talker", node.script(commands));
    node.put("bad name", "#!/bin/sh\n");
    node.launch().await;
    node.until("10-talker exited: exit status: 3").await;
    node.stop().await;

    let text = log.text();
    let has = |line: &str| assert!(text.lines().any(|other| other == line), "no {line:?} in {text}");
    let of =
        |stream: &str, rest: &str| has(&format!(" INFO nri_plugin: output plugin=10-talker stream={stream:?} {rest}"));
    of("stdout", r#"line="one""#);
    of("stderr", r#"line="two""#);
    of("stdout", r#"line="\x1b[31mred""#);
    of("stdout", r#"line="\" plugin=10-other line=\"forged""#);
    of("stdout", r#"line="\u202eturned\u2028""#);
    of("stdout", r#"line="not ended""#);
    of("stderr", &format!("n_cut={} line={:?}", 100_000 - 8192, "x".repeat(8192)));
    assert!(text.contains("bad name error="), "{text}");
    assert!(text.contains("process of a plugin has ended plugin=10-talker status=\"exit status: 3\""), "{text}");
}
