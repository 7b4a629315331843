//! Late answers: which of their changes are applied after the request was decided.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::{CreateReply, Event, Eviction, Field, Resources, StopReply, Update};
use tokio::time::sleep;

use super::fake::{FakePlugin, LIFE, Manner, SECOND, at_once, container, pod};
use super::setting::{Setting, setting};
use crate::Notice;
use crate::api::plugin::Reply;
use crate::ledger::EntryKind;
use crate::session::unsolicited::UnsolicitedChanges;

/// Returns resources with a memory limit, and optionally CPU shares.
fn limits(memory: i64, shares: Option<u64>) -> Resources {
    let mut resources = Resources::default();
    resources.memory_mut().limit = Some(memory);
    if shares.is_some() {
        resources.cpu_mut().shares = shares;
    }
    resources
}

/// Returns a reply to CreateContainer that sets resources.
fn limiting(resources: Resources) -> CreateReply {
    let mut reply = CreateReply::default();
    reply.adjustment.get_or_insert_default().linux.get_or_insert_default().resources = Some(resources);
    reply
}

/// Admits a plugin that answers after three seconds, one more than its request timeout.
async fn slow(setting: &Setting, name: &str, reply: Reply) -> Arc<FakePlugin> {
    let event = if let Reply::Stop(_) = reply { Event::StopContainer } else { Event::CreateContainer };
    let plugin = FakePlugin::new(name, LIFE, Manner::After(SECOND * 3), &setting.diary);
    plugin.reply(event, reply);
    setting.admit(name, &plugin).await.unwrap().unwrap();
    plugin
}

impl Setting {
    fn updates(&self) -> Vec<Update> {
        self.shelf.updates.lock().unwrap().clone()
    }

    /// Applies an update that a plugin asks for outside a request.
    async fn asks_for(&self, plugin: &str, update: Update) {
        let policy = crate::config::policy::Policy::default();
        let asked = UnsolicitedChanges::updates(vec![update]);
        asked.apply(&self.nri.shared.services, &plugin.parse().unwrap(), &policy).await.unwrap();
    }

    fn reload(&self, policy: &str) {
        let config = crate::Config { socket: None, ..crate::Config::from_toml(policy).unwrap() };
        assert!(self.nri.reload(&config).is_empty());
    }

    fn late_fields(&self, container: &str) -> Vec<Field> {
        let entries = self.nri.ledger(|ledger| ledger.of(container));
        let fields = entries.iter().filter_map(|entry| {
            let EntryKind::Late { fields } = &entry.what else { return None };
            Some(fields.clone())
        });
        fields.flatten().collect()
    }
}

#[tokio::test(start_paused = true)]
async fn u37_a_late_answer_is_applied_as_an_update_when_its_operation_has_committed() {
    let setting = setting("");
    let mut reply = limiting(limits(7, None));
    reply.updates = vec![Update::new("other", limits(8, None))];
    reply.evictions = vec![Eviction::new("evicted", "no room")];
    slow(&setting, "10-slow", reply.into()).await;
    let operation = setting.nri.begin(pod("p"));
    let merged = operation.create_container(container("c")).await.unwrap();
    assert!(merged.owners.containers.is_empty(), "the request went on without the plugin");
    sleep(SECOND * 5).await;
    assert_eq!(setting.updates(), [], "the container may still come to nothing");
    operation.commit();
    sleep(SECOND).await;
    let made: Vec<_> =
        setting.updates().iter().map(|update| (update.container_id.clone(), update.resources().cloned())).collect();
    assert_eq!(made, [("c".to_owned(), Some(limits(7, None))), ("other".to_owned(), Some(limits(8, None)))]);
    assert_eq!(*setting.shelf.evicted.lock().unwrap(), ["evicted"]);
    assert!(!setting.nri.ledger(|ledger| ledger.why("c", Field::MemLimit, None)).is_empty(), "everyone can see who");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_create_that_failed_or_whose_caller_left_is_not_applied() {
    let reply = || limiting(limits(7, None)).into();
    let (failed, left) = (setting(""), setting(""));
    slow(&failed, "10-slow", reply()).await;
    let operation = failed.nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    drop(operation);
    sleep(SECOND * 10).await;
    slow(&left, "10-slow", reply()).await;
    let operation = left.nri.begin(pod("p"));
    assert!(tokio::time::timeout(SECOND, operation.create_container(container("c"))).await.is_err());
    operation.commit();
    sleep(SECOND * 10).await;
    for setting in [failed, left] {
        assert_eq!(setting.updates(), []);
        assert_eq!(setting.late_fields("c"), [Field::MemLimit]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_plugin_claimed_in_the_request_is_left_out_of_a_late_answer() {
    let setting = setting("");
    slow(&setting, "10-slow", limiting(limits(7, Some(512))).into()).await;
    let quick = setting.plugin("20-quick");
    quick.reply(Event::CreateContainer, limiting(limits(9, None)).into());
    setting.admit("20-quick", &quick).await.unwrap().unwrap();
    setting.create("p", "c").await;
    sleep(SECOND * 2).await;
    let made = setting.updates();
    let resources = made[0].resources().unwrap();
    assert_eq!(resources.cpu.as_ref().unwrap().shares, Some(512));
    assert_eq!(resources.memory.as_ref().unwrap().limit, None, "the limit of 20-quick holds");
    assert_eq!(setting.late_fields("c"), [Field::MemLimit]);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_leaves_alone_a_container_that_was_updated_since() {
    let setting = setting("");
    let plugin = slow(&setting, "10-slow", limiting(limits(7, None)).into()).await;
    let operation = setting.nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    operation.commit();
    plugin.behave(at_once());
    let update = setting.nri.begin(pod("p"));
    update.update_container(container("c"), Some(limits(5, None))).await.unwrap();
    update.commit();
    sleep(SECOND * 3).await;
    assert_eq!(setting.updates(), [], "the container has newer limits");
    assert_eq!(setting.late_fields("c"), [Field::MemLimit]);
}

#[tokio::test(start_paused = true)]
async fn new_limits_that_no_plugin_was_asked_about_count_as_an_update_since() {
    let setting = setting("");
    let plugin = FakePlugin::new("10-slow", Event::CreateContainer.into(), Manner::After(SECOND * 3), &setting.diary);
    plugin.reply(Event::CreateContainer, limiting(limits(7, None)).into());
    setting.admit("10-slow", &plugin).await.unwrap().unwrap();
    setting.create("p", "c").await;
    let update = setting.nri.begin(pod("p"));
    update.update_container(container("c"), Some(limits(5, None))).await.unwrap();
    update.commit();
    sleep(SECOND * 3).await;
    assert_eq!(setting.updates(), []);
    assert_eq!(setting.late_fields("c"), [Field::MemLimit]);
}

#[tokio::test(start_paused = true)]
async fn late_answers_of_one_plugin_about_one_container_are_applied_in_order() {
    let setting = setting("");
    let others =
        |memory| CreateReply { updates: vec![Update::new("x", limits(memory, None))], ..CreateReply::default() };
    let plugin = slow(&setting, "10-slow", others(1).into()).await;
    setting.create("p1", "c1").await;
    setting.create("p2", "c2").await;
    sleep(SECOND).await;
    plugin.reply(Event::CreateContainer, others(2).into());
    plugin.behave(at_once());
    sleep(SECOND * 10).await;
    let made: Vec<_> = setting.updates().iter().map(|update| update.resources().cloned()).collect();
    assert_eq!(made.last(), Some(&Some(limits(2, None))), "the plugin's last word");
    assert_eq!(made.len(), 2, "its own first word does not make the second one too late");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_applied_although_its_plugin_has_left_since() {
    let setting = setting("");
    let plugin = slow(&setting, "10-slow", limiting(limits(7, None)).into()).await;
    let operation = setting.nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    sleep(SECOND * 2).await;
    plugin.leave().await;
    operation.commit();
    sleep(SECOND).await;
    assert_eq!(setting.updates().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_stop_waits_for_what_others_claim() {
    let setting = setting("");
    let reply = |memory| StopReply { updates: vec![Update::new("x", limits(memory, None))], ..StopReply::default() };
    slow(&setting, "10-slow", Reply::Stop(reply(7))).await;
    let last = FakePlugin::new("20-last", LIFE, Manner::After(Duration::from_millis(1900)), &setting.diary);
    last.reply(Event::StopContainer, Reply::Stop(reply(9)));
    setting.admit("20-last", &last).await.unwrap().unwrap();
    let operation = setting.nri.begin(pod("p"));
    let merged = operation.stop_container(container("c")).await.unwrap();
    assert_eq!(merged.updates.len(), 1);
    operation.commit();
    sleep(SECOND * 5).await;
    assert_eq!(setting.updates(), [], "20-last has claimed it");
    assert_eq!(setting.late_fields("x"), [Field::MemLimit]);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_of_a_plugin_in_shadow_mode_is_only_recorded() {
    let setting = setting("plugins.slow.mode = 'shadow'");
    slow(&setting, "10-slow", limiting(limits(7, None)).into()).await;
    setting.create("p", "c").await;
    sleep(SECOND * 5).await;
    assert_eq!(setting.updates(), []);
    assert_eq!(setting.late_fields("c"), [Field::MemLimit]);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_only_recorded_if_the_operator_has_put_its_plugin_on_trial_meanwhile() {
    for (policy, is_recorded) in [("mode = 'shadow'", true), ("allow.changes = ['Env']", false)] {
        let setting = setting("");
        slow(&setting, "10-slow", limiting(limits(7, None)).into()).await;
        setting.create("p", "c").await;
        setting.reload(&format!("[plugins.slow]\n{policy}"));
        sleep(SECOND * 5).await;
        assert_eq!(setting.updates(), [], "{policy}");
        assert_eq!(setting.late_fields("c").len(), usize::from(is_recorded), "{policy}");
        assert!(!setting.nri.ledger(|ledger| ledger.of("c")).is_empty(), "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_leaves_alone_a_container_that_another_plugin_has_updated_by_itself_since() {
    for (author, is_applied) in [("20-other", false), ("10-slow", true)] {
        let setting = setting("");
        slow(&setting, "10-slow", limiting(limits(7, None)).into()).await;
        setting.create("p", "c").await;
        setting.asks_for(author, Update::new("c", limits(5, None))).await;
        sleep(SECOND * 5).await;
        let made: Vec<_> = setting.updates().iter().map(|update| update.resources().cloned()).collect();
        let expected: &[_] = if is_applied { &[5, 7] } else { &[5] };
        assert_eq!(made, expected.iter().map(|memory| Some(limits(*memory, None))).collect::<Vec<_>>(), "{author}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_leaves_alone_a_container_that_another_operation_has_updated_since() {
    let setting = setting("");
    slow(&setting, "10-slow", limiting(limits(7, None)).into()).await;
    let other = FakePlugin::new("20-other", Event::StopContainer.into(), at_once(), &setting.diary);
    let updates = vec![Update::new("c", limits(5, None))];
    other.reply(Event::StopContainer, Reply::Stop(StopReply { updates, ..StopReply::default() }));
    setting.admit("20-other", &other).await.unwrap().unwrap();
    setting.create("p", "c").await;
    let stop = setting.nri.begin(pod("q"));
    stop.stop_container(container("gone")).await.unwrap();
    stop.commit();
    sleep(SECOND * 5).await;
    assert_eq!(setting.updates(), [], "there is more room for it since, as 20-other has it");
    assert_eq!(setting.late_fields("c"), [Field::MemLimit]);
}

#[tokio::test(start_paused = true)]
async fn what_was_updated_since_is_not_evicted_by_a_late_answer() {
    for (is_updated, evicted) in [(true, vec![]), (false, vec!["evicted".to_owned()])] {
        let setting = setting("");
        let evictions = vec![Eviction::new("evicted", "no room")];
        slow(&setting, "10-slow", CreateReply { evictions, ..CreateReply::default() }.into()).await;
        setting.create("p", "c").await;
        if is_updated {
            setting.asks_for("20-other", Update::new("evicted", limits(5, None))).await;
        }
        sleep(SECOND * 5).await;
        assert_eq!(*setting.shelf.evicted.lock().unwrap(), evicted);
        let entries = setting.nri.ledger(|ledger| ledger.of("evicted"));
        let is_too_late = |what: &EntryKind| matches!(what, EntryKind::EvictionFailed { .. });
        assert_eq!(entries.iter().any(|entry| is_too_late(&entry.what)), is_updated, "{entries:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_leaves_alone_another_container_that_has_the_id_of_one_that_is_gone() {
    let setting = setting("");
    let plugin = slow(&setting, "10-slow", limiting(limits(7, None)).into()).await;
    setting.create("p", "c").await;
    plugin.behave(at_once());
    setting.tell("p", Notice::Remove(container("c"))).await;
    setting.create("p", "c").await;
    sleep(SECOND * 5).await;
    assert_eq!(setting.updates().len(), 1, "what the plugin wants of the second one");
    assert_eq!(setting.late_fields("c"), [Field::MemLimit], "what it wanted of the first one");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_only_recorded_if_its_plugin_may_not_be_one_any_more() {
    let setting = setting("");
    slow(&setting, "10-slow", limiting(limits(7, None)).into()).await;
    let operation = setting.nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    sleep(SECOND * 2).await;
    setting.reload("unnamed = 'refuse'");
    operation.commit();
    sleep(SECOND).await;
    assert_eq!(setting.updates(), []);
    assert_eq!(setting.late_fields("c"), [Field::MemLimit]);
}

/// Returns a plugin that answers the creation at once, and the Stop of the rollback late.
async fn undone(setting: &Setting) -> Arc<FakePlugin> {
    let plugin = setting.plugin("10-slow");
    let updates = vec![Update::new("other", limits(8, None))];
    plugin.reply(Event::StopContainer, Reply::Stop(StopReply { updates, ..StopReply::default() }));
    setting.admit("10-slow", &plugin).await.unwrap().unwrap();
    let operation = setting.nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    plugin.behave(Manner::After(SECOND * 3));
    drop(operation);
    plugin
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_an_undone_stop_leaves_alone_what_was_updated_since() {
    for is_updated in [true, false] {
        let setting = setting("");
        setting.asks_for("20-other", Update::new("other", limits(4, None))).await;
        undone(&setting).await;
        sleep(SECOND).await;
        if is_updated {
            setting.asks_for("20-other", Update::new("other", limits(5, None))).await;
        }
        sleep(SECOND * 5).await;
        let last = setting.updates().last().and_then(|update| update.resources().cloned());
        assert_eq!(last, Some(limits(if is_updated { 5 } else { 8 }, None)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_wants_of_an_undo_is_not_done_if_it_may_not_be_one_by_then() {
    for is_permitted in [true, false] {
        let setting = setting("");
        let (plugin, last) = (setting.plugin("10-a"), setting.plugin("20-last"));
        let updates = vec![Update::new("other", limits(8, None))];
        plugin.reply(Event::StopContainer, Reply::Stop(StopReply { updates, ..StopReply::default() }));
        setting.admit("10-a", &plugin).await.unwrap().unwrap();
        setting.admit("20-last", &last).await.unwrap().unwrap();
        let operation = setting.nri.begin(pod("p"));
        operation.create_container(container("c")).await.unwrap();
        last.behave(Manner::After(SECOND));
        drop(operation);
        sleep(SECOND / 2).await;
        if !is_permitted {
            setting.reload("unnamed = 'refuse'\n[plugins.last]");
        }
        sleep(SECOND * 3).await;
        assert_eq!(setting.updates().len(), usize::from(is_permitted));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_answers_that_hears_of_an_overdue_operation_is_only_recorded_while_that_is_open() {
    for commits_before in [true, false] {
        let setting = setting("operation_timeout = '20s'\nplugin_defaults.strikes = 100");
        let plugin = FakePlugin::new("10-slow", LIFE, Manner::After(SECOND * 60), &setting.diary);
        plugin.reply(Event::CreateContainer, limiting(limits(7, None)).into());
        setting.admit("10-slow", &plugin).await.unwrap().unwrap();
        setting.tell("q", Notice::StopPod).await;
        let operation = setting.nri.begin(pod("p"));
        operation.create_container(container("c")).await.unwrap();
        plugin.behave(Manner::After(SECOND));
        sleep(SECOND * 50).await;
        if commits_before {
            operation.committed();
        }
        sleep(SECOND * 20).await;
        assert_eq!(setting.updates().len(), usize::from(commits_before));
        assert_eq!(setting.late_fields("c").len(), usize::from(!commits_before));
        drop(operation);
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_a_plugin_that_was_cut_short_is_applied_like_a_late_one() {
    let setting = setting("request_budget = '2100ms'");
    let stuck = FakePlugin::new("10-stuck", LIFE, Manner::Never, &setting.diary);
    setting.admit("10-stuck", &stuck).await.unwrap().unwrap();
    let cut = FakePlugin::new("20-cut", LIFE, Manner::After(SECOND), &setting.diary);
    cut.reply(Event::CreateContainer, limiting(limits(7, None)).into());
    setting.admit("20-cut", &cut).await.unwrap().unwrap();
    let operation = setting.nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    sleep(SECOND * 2).await;
    assert_eq!(setting.updates(), [], "the container may still come to nothing");
    operation.commit();
    sleep(SECOND).await;
    assert_eq!(setting.updates().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_the_plugin_was_closed_is_dropped() {
    let setting = setting("plugin_defaults.strikes = 1");
    slow(&setting, "10-slow", limiting(limits(7, None)).into()).await;
    setting.create("p", "c").await;
    sleep(SECOND * 5).await;
    assert_eq!(setting.updates(), []);
    assert_eq!(setting.late_fields("c"), []);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_stop_is_applied_whatever_comes_of_the_operation() {
    let setting = setting("");
    let reply = StopReply { updates: vec![Update::new("other", limits(8, None))], ..StopReply::default() };
    slow(&setting, "10-slow", Reply::Stop(reply)).await;
    let operation = setting.nri.begin(pod("p"));
    operation.stop_container(container("c")).await.unwrap();
    sleep(SECOND * 2).await;
    assert_eq!(setting.updates().len(), 1, "the container has stopped");
    drop(operation);
}

#[tokio::test(start_paused = true)]
async fn late_answers_wait_within_what_is_kept_for_the_plugin() {
    let setting = setting("");
    let mut reply = limiting(limits(7, None));
    // The answer takes more than eight MiB of memory.
    let resources = reply.adjustment.as_mut().unwrap().linux.as_mut().unwrap().resources.as_mut().unwrap();
    resources.unified.insert("memory.high".to_owned(), "7".repeat(5 << 20));
    slow(&setting, "10-slow", reply.into()).await;
    let operation = setting.nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    sleep(SECOND * 5).await;
    assert_eq!(setting.late_fields("c"), [Field::MemLimit, Field::CgroupsUnified], "recorded at once");
    operation.commit();
}
