//! Standard output, with questions to the controller that wait for an answer on standard input.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::oneshot;

use crate::protocol::{Event, Request};

/// Writes whole lines.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Asked>>);

#[derive(Default)]
struct Asked {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<Request>>,
}

impl Lines {
    pub(crate) fn write(&self, line: &impl Serialize) {
        let mut text = serde_json::to_string(line).expect("lines are plain data");
        text.push('\n');
        let _one_at_a_time = self.asked();
        let mut out = std::io::stdout().lock();
        // If the controller has left, the end of standard input shows that.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Writes a question and waits for its answer. Returns `None` if the controller has left.
    pub(crate) async fn ask(&self, question: impl FnOnce(u64) -> Event) -> Option<Request> {
        let (sender, answer) = oneshot::channel();
        let seq = {
            let mut asked = self.asked();
            asked.last += 1;
            let seq = asked.last;
            asked.waiting.insert(seq, sender);
            seq
        };
        self.write(&question(seq));
        answer.await.ok()
    }

    pub(crate) fn answer(&self, request: Request) {
        let waiting = self.asked().waiting.remove(&request.seq);
        if let Some(waiting) = waiting {
            let _ = waiting.send(request);
        }
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
