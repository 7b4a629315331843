//! Late answers, and whether their changes are applied once the outcome of the request is known.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nri_proto::event::WireEvents;
use nri_proto::mux::Closed;
use nri_proto::{Container, CreateReply, Eviction, FailurePolicy, PluginId, Resources, StopReply, Update, UpdateReply};
use tokio::time::{Instant, sleep};

use crate::Adaptation;
use crate::Config;
use crate::Operation;
use crate::Source;
use crate::UpdatesFailed;
use crate::api::plugin::{Introduction, Plugin, PluginError, Reply, Subscription};
use crate::api::request::Request;
use crate::api::snapshot::Snapshot;
use crate::tests::fake::{LIFE, SECOND, container, pod, reply};
use crate::tests::schedules::Random;

/// A slow plugin. Each answer asks for an update of a container that no other answer touches, named
/// after the request.
struct Tardy {
    random: Mutex<Random>,
    /// When each request was received and answered.
    asked: Mutex<HashMap<String, (Instant, Instant)>>,
}

#[async_trait]
impl Plugin for Tardy {
    async fn configure(&self, _: Introduction) -> Result<Subscription, PluginError> {
        Ok(Subscription { events: WireEvents { known: LIFE, unknown: 0 }, declared: FailurePolicy::default() })
    }

    async fn synchronize(&self, _: Snapshot) -> Result<Vec<Update>, PluginError> {
        Ok(Vec::new())
    }

    async fn ask(self: Arc<Self>, request: Arc<Request>, _: Duration) -> Result<Reply, PluginError> {
        let begun = Instant::now();
        let is_slow = self.random.lock().unwrap().below(4) == 0;
        let time = self.random.lock().unwrap().millis(if is_slow { 7000 } else { 100 });
        // Never zero, so that the times tell which answers were late.
        sleep(time + Duration::from_millis(1)).await;
        let about = request.container().map_or(&request.pod().id, |container| &container.id);
        let what = format!("{} {about}", request.event().rpc());
        self.asked.lock().unwrap().insert(what.clone(), (begun, Instant::now()));
        let updates = vec![Update::new(what, Resources::default())];
        Ok(match reply(request.event()) {
            Reply::Create(_) => Reply::Create(Box::new(CreateReply { updates, ..CreateReply::default() })),
            Reply::Update(_) => Reply::Update(UpdateReply { updates, ..UpdateReply::default() }),
            Reply::Stop(_) => Reply::Stop(StopReply { updates, ..StopReply::default() }),
            other @ (Reply::Heard | Reply::Verdict(_)) => other,
        })
    }

    async fn gone(&self) -> Closed {
        std::future::pending().await
    }
}

/// A runtime that records the updates that it is asked for outside requests, with their times.
#[derive(Default)]
struct Applications(Mutex<Vec<(String, Instant)>>);

#[async_trait]
impl Source for Applications {
    async fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }

    async fn apply(&self, _: &PluginId, updates: Vec<Update>, _: Vec<Eviction>) -> Result<Vec<Update>, UpdatesFailed> {
        let now = Instant::now();
        self.0.lock().unwrap().extend(updates.into_iter().map(|update| (update.container_id, now)));
        Ok(Vec::new())
    }
}

/// A request that the runtime made.
struct Question {
    what: String,
    made: Instant,
    returned: Instant,
    /// When the outcome was committed, if it was.
    committed: Option<Instant>,
    /// Whether the runtime's reply contained the plugin's update.
    was_answered: bool,
}

/// Makes a request about a container. Returns the updates that plugins ask for, or `None` if the
/// request failed.
async fn ask(operation: &Operation, event: &str, container: Container) -> Option<Vec<Update>> {
    match event {
        "CreateContainer" => operation.create_container(container).await.ok().map(|merged| merged.updates),
        "UpdateContainer" => operation.update_container(container, None).await.ok().map(|merged| merged.others),
        _ => Some(
            operation
                .stop_container(container)
                .await
                .map_or_else(|error| error.merged.updates, |merged| merged.updates),
        ),
    }
}

/// Makes the requests in the life of a container.
async fn live(nri: Arc<Adaptation>, id: String, mut random: Random) -> Vec<Question> {
    let mut questions = Vec::new();
    for event in ["CreateContainer", "UpdateContainer", "StopContainer"] {
        sleep(random.millis(5000)).await;
        let made = Instant::now();
        let operation = nri.begin(pod(&id));
        let wanted = ask(&operation, event, container(&id)).await;
        let (returned, what) = (Instant::now(), format!("{event} {id}"));
        let was_answered = wanted.iter().flatten().any(|update| update.container_id == what);
        sleep(random.millis(4000)).await;
        // A stop is final, whatever the outcome of the operation.
        let stopped = (event == "StopContainer").then_some(returned);
        let is_done = wanted.is_some() && random.below(4) > 0;
        let committed = stopped.or_else(|| is_done.then(Instant::now));
        questions.push(Question { what, made, returned, committed, was_answered });
        if is_done {
            operation.commit();
        } else if event == "CreateContainer" {
            // No rollback, because the replies to it would interfere.
            operation.abandon();
            break;
        }
    }
    questions
}

/// Runs one schedule. Returns an error text if a promise is broken.
///
/// The update of a late answer is applied exactly once if the request was committed, and never
/// otherwise.
pub(super) async fn schedule(seed: u64) -> Option<String> {
    let mut random = Random::of(seed);
    let policy = format!(
        "[plugins.tardy]\nstrikes = 1000\non_timeout = '{}'\nconcurrency = '{}'",
        ["skip", "skip", "fail"][usize::try_from(random.below(3)).unwrap()],
        ["serial", "per-pod"][usize::try_from(random.below(2)).unwrap()],
    );
    let config = Config { socket: None, ..Config::from_toml(&policy).unwrap() };
    let applied = Arc::new(Applications::default());
    let nri = Arc::new(Adaptation::new(config, Arc::clone(&applied) as Arc<dyn Source>));
    let asked = Mutex::default();
    let plugin = Arc::new(Tardy { random: Mutex::new(Random(random.below(u64::MAX) | 1)), asked });
    nri.admit("10-tardy".parse().unwrap(), Arc::clone(&plugin) as Arc<dyn Plugin>).await.unwrap();
    let lives: Vec<_> = (0..2 + random.below(8))
        .map(|number| tokio::spawn(live(Arc::clone(&nri), format!("c{number}"), Random(random.below(u64::MAX) | 1))))
        .collect();
    let mut questions = Vec::new();
    for life in lives {
        questions.extend(life.await.unwrap());
    }
    sleep(SECOND * 300).await;
    let (applied, asked) = (applied.0.lock().unwrap().clone(), plugin.asked.lock().unwrap().clone());
    let wrong = questions.iter().find_map(|question| check(question, &applied, &asked));
    nri.stop().await;
    wrong.map(|wrong| format!("{wrong}; {policy}"))
}

fn check(
    question: &Question,
    applied: &[(String, Instant)],
    asked: &HashMap<String, (Instant, Instant)>,
) -> Option<String> {
    let Question { what, made, returned, committed, was_answered } = question;
    let applied: Vec<_> = applied.iter().filter(|(about, _)| about == what).map(|(_, when)| *when).collect();
    let answered = asked.get(what);
    let is_in_time = answered.is_some_and(|(begun, ended)| begun >= made && ended <= returned);
    let is_due = committed.is_some() && answered.is_some() && !is_in_time;
    let when = |time: Option<Instant>| time.map(|time| time - *made);
    let wrong = if *was_answered != is_in_time {
        "the answer came in time, and the runtime did not get it"
    } else if is_due && applied.is_empty() {
        "the answer came late, and what it wants was lost"
    } else if !is_due && !applied.is_empty() {
        "what the answer wants was applied, although nothing came of the request or the runtime had the answer"
    } else if applied.len() > 1 {
        "what the answer wants was applied more than once"
    } else if applied.first().is_some_and(|applied| committed.is_none_or(|committed| *applied < committed)) {
        "what the answer wants was applied before what it is about had happened"
    } else {
        return None;
    };
    Some(format!(
        "{what}: {wrong}; returned {:?}, asked {:?}, answered {:?}, happened {:?}",
        when(Some(*returned)),
        when(answered.map(|(begun, _)| *begun)),
        when(answered.map(|(_, ended)| *ended)),
        when(*committed),
    ))
}
