//! The output of plugins in the log of the runtime.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use nri_proto::{Event, Eviction, Update};
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

use super::fake::{Diary, FakePlugin, Manner, SECOND, adaptation, at_once, container, pod};
use crate::Notice;
use crate::session::unsolicited::UnsolicitedChanges;

/// The warnings of this thread, one line each.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.lock().unwrap().last_mut().unwrap().push_str(&format!(" {field}={value:?}"));
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        self.0.lock().unwrap().push(String::new());
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Log {
    #[track_caller]
    fn check(&self, part: &str) {
        let lines = self.0.lock().unwrap();
        let about = lines.iter().filter(|line| line.contains(part));
        assert_eq!(about.count(), 1, "{part:?} is not in one line: {lines:?}");
        for line in &*lines {
            assert!(!line.contains(char::is_control) && line.len() < 4096, "{line}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_says_is_one_line_of_the_log_and_not_a_long_one() {
    let (diary, log) = (Diary::default(), Log::default());
    let _guard = tracing::subscriber::set_default(log.clone());
    let judge = FakePlugin::new("10-judge", Event::ValidateContainerAdjustment.into(), at_once(), &diary);
    judge.reject(&format!("no\n2026-11-18 ERROR all is lost\x1b[2J{}", "\n".repeat(1 << 20)));
    let nri = adaptation("", &[("10-judge", &judge)]).await;
    nri.begin(pod("p")).create_container(container("c")).await.unwrap_err();
    log.check(r"no\n2026-11-18 ERROR all is lost\x1b[2J\n");
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_may_not_change_is_one_warning_however_much_it_is() {
    let (diary, log) = (Diary::default(), Log::default());
    let plugin = FakePlugin::new("10-a", Event::StopPodSandbox.into(), at_once(), &diary);
    let nri = adaptation("[plugins.a]\nnamespaces = ['shop']", &[("10-a", &plugin)]).await;
    let _guard = tracing::subscriber::set_default(log.clone());
    let id = |n: usize| format!("{n}\n{}", "x".repeat(5000));
    let updates = (0..1000).map(|n| Update::of(id(n))).collect();
    let evictions = (0..1000).map(|n| Eviction::new(id(n), "")).collect();
    let (plugin, roster) = ("10-a".parse().unwrap(), nri.shared.roster());
    let policy = roster.config().policies.effective(&plugin, Default::default()).policy;
    let wanted = UnsolicitedChanges { updates, evictions };
    let undone = wanted.apply(&nri.shared.services, &plugin, &policy).await.unwrap_err();
    log.check("and 1990 more");
    assert_eq!(log.0.lock().unwrap().len(), 1);
    assert!(undone.to_string().len() < 4096, "{undone}");
}

#[tokio::test(start_paused = true)]
async fn the_warning_about_a_late_answer_does_not_claim_that_nothing_of_it_is_applied() {
    let (diary, log) = (Diary::default(), Log::default());
    let plugin = FakePlugin::new("10-a", Event::RunPodSandbox.into(), Manner::After(SECOND * 3), &diary);
    let nri = adaptation("", &[("10-a", &plugin)]).await;
    let _guard = tracing::subscriber::set_default(log.clone());
    nri.begin(pod("p")).notify(Notice::RunPod).await.unwrap();
    sleep(SECOND * 2).await;
    log.check("plugin answered too late for its request, parts of its answer may still be applied");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_asks_again_and_again_for_what_fails_does_not_flood_the_log() {
    let (diary, log) = (Diary::default(), Log::default());
    let plugin = FakePlugin::new("10-a", Event::StopPodSandbox.into(), at_once(), &diary);
    let nri = adaptation("[plugins.a]\nallow.changes = ['Updates']\nnamespaces = ['shop']", &[("10-a", &plugin)]).await;
    let _guard = tracing::subscriber::set_default(log.clone());
    let (plugin, roster) = ("10-a".parse().unwrap(), nri.shared.roster());
    let policy = roster.config().policies.effective(&plugin, Default::default()).policy;
    let ask = async |evictions: Vec<Eviction>, count: usize| {
        for _ in 0..count {
            let wanted = UnsolicitedChanges { updates: vec![Update::of("c")], evictions: evictions.clone() };
            wanted.apply(&nri.shared.services, &plugin, &policy).await.unwrap_err();
        }
    };
    ask(vec![Eviction::new("c", "")], 1000).await;
    ask(Vec::new(), 1000).await;
    log.check("plugin request denied by policy");
    log.check("plugin request denied: the containers are in pods that the plugin may not see");
    assert_eq!(log.0.lock().unwrap().len(), 2);
    tokio::time::advance(std::time::Duration::from_secs(10)).await;
    ask(vec![Eviction::new("c", "")], 1).await;
    log.check("suppressed=999");
}
