//! Runtimes that hang, die or send invalid data while a plugin joins: the plugin reports that
//! within its time limit, and ends.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::call::{ServeLimits, Services};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;
use tokio::time::{Instant, timeout};
use ttrpc::r#async::{MethodHandler, Service, TtrpcContext};
use ttrpc::{Request, Response};

use super::examples::example;
use crate::peer::{Connection, Serving, pattern};

/// How long a plugin waits in each step, and the margin for a busy machine.
const STEP: Duration = Duration::from_secs(5);
const SLACK: Duration = Duration::from_secs(5);

/// A plugin that connects to the test, and the listener of the test.
struct Visit {
    plugin: tokio::task::JoinHandle<(ExitStatus, String, Duration)>,
    listener: UnixListener,
    _folder: TempDir,
}

/// Starts the example `logger`.
fn visit() -> Visit {
    let folder = TempDir::new().unwrap();
    let listener = UnixListener::bind(folder.path().join("nri.sock")).unwrap();
    let mut command = Command::new(example("logger"));
    command.args(["--idx", "10", "--socket"]).arg(folder.path().join("nri.sock")).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let plugin = tokio::spawn(async move {
        let begun = Instant::now();
        let ended = timeout(4 * STEP, command.output()).await.expect("it does not end").unwrap();
        (ended.status, String::from_utf8(ended.stderr).unwrap(), begun.elapsed())
    });
    Visit { plugin, listener, _folder: folder }
}

impl Visit {
    async fn accept(&self) -> UnixStream {
        self.listener.accept().await.unwrap().0
    }

    /// Checks that the plugin ends by itself within the limit, with this error message.
    async fn ended(self, words: &str, limit: Duration) {
        let (status, said, elapsed) = self.plugin.await.unwrap();
        let last = said.lines().last().unwrap_or_default();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(last.starts_with("logger: ") && last.contains(words), "{said}");
        assert!(elapsed < limit + SLACK, "{elapsed:?}: {said}");
    }
}

/// Acts as a runtime that lets a plugin register and does nothing else.
async fn register(visit: &Visit) -> Serving {
    let method: Box<dyn MethodHandler + Send + Sync> = Box::new(Register);
    let service = Service { methods: [("RegisterPlugin".to_owned(), method)].into(), streams: Default::default() };
    let services = Services::from([("nri.pkg.api.v1alpha1.Runtime".to_owned(), service)]);
    Connection::over(visit.accept().await).serving(services, ServeLimits { requests: 8, bytes: 1 << 20 })
}

struct Register;

#[async_trait]
impl MethodHandler for Register {
    async fn handler(&self, _: TtrpcContext, _: Request) -> ttrpc::Result<Response> {
        Ok(Response::new())
    }
}

/// The cases run concurrently, because each of them takes as long as a plugin waits.
#[tokio::test]
async fn one_that_hangs_in_any_step() {
    let (unaccepted, unanswered, unconfigured) = (visit(), visit(), visit());
    let _silent = unanswered.accept().await;
    let serving = register(&unconfigured).await;
    unaccepted.ended("could not register", STEP).await;
    unanswered.ended("could not register", STEP).await;
    unconfigured.ended("did not configure", STEP).await;
    serving.end().await;
}

#[tokio::test]
async fn one_that_leaves_at_once() {
    let visit = visit();
    drop(visit.accept().await);
    visit.ended("could not register", Duration::ZERO).await;
}

#[tokio::test]
async fn one_that_talks_nonsense() {
    let visit = visit();
    let mut stream = visit.accept().await;
    // The plugin may end before it has read all of this.
    let _ = stream.write_all(&pattern(1 << 20)).await;
    visit.ended("could not register", Duration::ZERO).await;
}

#[tokio::test]
async fn one_that_leaves_in_the_middle_of_an_answer() {
    let visit = visit();
    let mut stream = visit.accept().await;
    let mut request = [0; 64];
    stream.read_exact(&mut request).await.unwrap();
    stream.write_all(&[0, 0, 0, 2, 0, 0, 0, 100, 0, 0]).await.unwrap();
    drop(stream);
    visit.ended("could not register", Duration::ZERO).await;
}

#[tokio::test]
async fn one_that_leaves_before_it_configures() {
    let visit = visit();
    let serving = register(&visit).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    serving.end().await;
    visit.ended("left before", Duration::ZERO).await;
}
