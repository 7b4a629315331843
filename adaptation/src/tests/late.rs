//! Answers that come when their request has been decided: what of them is still applied.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::{CreateReply, Event, Eviction, Field, Resources, StopReply, Update};
use tokio::time::sleep;

use super::fake::{FakePlugin, LIFE, Manner, SECOND, at_once, container, pod};
use super::setting::{Setting, setting};
use crate::ledger::What;
use crate::plugin::Reply;

/// Limits memory, and CPU time if that is said.
fn limits(memory: i64, shares: Option<u64>) -> Resources {
    let mut resources = Resources::default();
    resources.memory_mut().limit = Some(memory);
    if shares.is_some() {
        resources.cpu_mut().shares = shares;
    }
    resources
}

/// A reply to a create that limits the container.
fn limiting(resources: Resources) -> CreateReply {
    let mut reply = CreateReply::default();
    reply.adjustment.get_or_insert_default().linux.get_or_insert_default().resources = Some(resources);
    reply
}

/// A plugin that answers after three seconds, one more than it has.
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

    fn late_fields(&self, container: &str) -> Vec<Field> {
        let entries = self.nri.ledger(|ledger| ledger.of(container));
        let fields = entries.iter().filter_map(|entry| {
            let What::Late { fields } = &entry.what else { return None };
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
    // An answer of more than eight mebibytes in memory.
    let resources = reply.adjustment.as_mut().unwrap().linux.as_mut().unwrap().resources.as_mut().unwrap();
    resources.unified.insert("memory.high".to_owned(), "7".repeat(5 << 20));
    slow(&setting, "10-slow", reply.into()).await;
    let operation = setting.nri.begin(pod("p"));
    operation.create_container(container("c")).await.unwrap();
    sleep(SECOND * 5).await;
    assert_eq!(setting.late_fields("c"), [Field::MemLimit, Field::CgroupsUnified], "recorded at once");
    operation.commit();
}
