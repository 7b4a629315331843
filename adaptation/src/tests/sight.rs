//! A plugin cannot change containers in pods that it may not see, by any kind of request.

use std::sync::Arc;
use std::time::Duration;

use nri_proto::{Container, CreateReply, Event, Eviction, PluginId, Pod, Resources, StopReply, Update, UpdateReply};
use tokio::time::sleep;

use super::fake::{FakePlugin, LIFE, Manner, SECOND, at_once, chain, container};
use super::setting::{Setting, setting};
use crate::Config;
use crate::Notice;
use crate::api::plugin::Reply;
use crate::api::snapshot::Snapshot;
use crate::config::policy::NotAllowed;
use crate::ledger::EntryKind;
use crate::session::unsolicited::{UnsolicitedChanges, UnsolicitedError};

const SHOP_ALONE: &str = "plugins.a.namespaces = ['shop']";

fn pod_in(namespace: &str) -> Pod {
    Pod { id: format!("{namespace}-pod"), namespace: namespace.to_owned(), ..Pod::default() }
}

fn container_in(namespace: &str, id: &str) -> Container {
    Container { pod_id: pod_in(namespace).id, ..container(id) }
}

fn limit(id: &str) -> Update {
    let mut resources = Resources::default();
    resources.memory_mut().limit = Some(7);
    Update::new(id, resources)
}

fn evict(id: &str) -> Eviction {
    Eviction::new(id, "to make room")
}

/// The ids of the containers that plugins want to change. A plugin that sees only the namespace
/// `shop` may change `mine`.
const ALL: [&str; 4] = ["mine", "theirs", "twice", "nowhere"];

/// Returns a node with the namespaces `shop` and `bank`. Each has a container `twice`, and one more
/// container.
async fn node(policy: &str) -> Setting {
    let setting = setting(policy);
    let pods = vec![pod_in("shop"), pod_in("bank")];
    let containers = vec![
        container_in("shop", "mine"),
        container_in("bank", "theirs"),
        container_in("shop", "twice"),
        container_in("bank", "twice"),
    ];
    *setting.shelf.store.lock().unwrap() = Snapshot { pods, containers };
    setting
}

impl Setting {
    async fn join_as_a(&self, manner: Manner, event: Event, reply: Reply) -> Arc<FakePlugin> {
        let plugin = FakePlugin::new("10-a", LIFE, manner, &self.diary);
        plugin.reply(event, reply);
        self.admit("10-a", &plugin).await.unwrap().unwrap();
        plugin
    }

    /// Returns the containers whose changes were refused as hidden according to the ledger, without
    /// duplicates.
    fn refused(&self) -> Vec<String> {
        let entries = self.nri.ledger(|ledger| ledger.all());
        let refused = entries.iter().filter_map(|entry| {
            let EntryKind::NotAllowed(NotAllowed::Hidden { container }) = &entry.what else { return None };
            assert_eq!(entry.occasion.container.as_deref(), Some(&**container));
            Some(container.clone())
        });
        let mut refused: Vec<_> = refused.collect();
        refused.dedup();
        refused
    }

    /// Returns the containers that the runtime was asked to update, and to evict.
    fn changed(&self) -> (Vec<String>, Vec<String>) {
        (self.shelf.updated.lock().unwrap().clone(), self.shelf.evicted.lock().unwrap().clone())
    }

    async fn ask_by_itself(
        &self,
        updates: Vec<Update>,
        evictions: Vec<Eviction>,
    ) -> Result<Vec<Update>, UnsolicitedError> {
        let plugin: PluginId = "10-a".parse().unwrap();
        let policy = self.nri.shared.roster().config().policies.effective(&plugin, Default::default()).policy;
        UnsolicitedChanges { updates, evictions }.apply(&self.nri.shared.services, &plugin, &policy).await
    }
}

fn ids(updates: &[Update]) -> Vec<&str> {
    updates.iter().map(|update| &*update.container_id).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_does_not_see_it_cannot_change_in_its_answers() {
    let setting = node(SHOP_ALONE).await;
    let (updates, evictions) = (ALL.map(limit).to_vec(), ALL.map(evict).to_vec());
    let create = CreateReply { updates: updates.clone(), evictions: evictions.clone(), ..CreateReply::default() };
    let plugin = setting.join_as_a(at_once(), Event::CreateContainer, create.into()).await;
    let own = container_in("shop", "own");
    let operation = setting.nri.begin(pod_in("shop"));
    let created = operation.create_container(own.clone()).await.unwrap();
    assert_eq!(ids(&created.updates), ["mine"]);
    assert_eq!(created.evictions.iter().map(|it| &*it.eviction.container_id).collect::<Vec<_>>(), ["mine"]);
    assert!(!created.owners.containers.contains_key("theirs"), "what is refused claims nothing");

    let with_own = updates.iter().cloned().chain([limit("own")]).collect();
    let update = UpdateReply { updates: with_own, evictions, ..UpdateReply::default() };
    plugin.reply(Event::UpdateContainer, Reply::Update(update));
    let updated = operation.update_container(own.clone(), None).await.unwrap();
    assert_eq!(ids(&updated.others), ["mine"]);
    assert_eq!(updated.evictions.len(), 1);
    assert!(updated.own.is_some(), "the container that it is asked about it sees");

    plugin.reply(Event::StopContainer, Reply::Stop(StopReply { updates, ..StopReply::default() }));
    assert_eq!(ids(&operation.stop_container(own).await.unwrap().updates), ["mine"]);
    let refused = setting.refused();
    assert_eq!(refused[..3], ["theirs", "twice", "nowhere"]);
    assert_eq!(refused.len(), 3 * 2 * 2 + 3, "each is in the ledger: {refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_stops_is_updated_only_if_all_of_its_id_are_seen() {
    let setting = node(SHOP_ALONE).await;
    let reply = StopReply { updates: vec![limit("twice")], ..StopReply::default() };
    setting.join_as_a(at_once(), Event::StopContainer, Reply::Stop(reply)).await;
    let stopped = setting.nri.begin(pod_in("shop")).stop_container(container_in("shop", "twice")).await.unwrap();
    assert!(stopped.updates.is_empty(), "the runtime might find the one in the bank by this id");
    assert_eq!(setting.refused(), ["twice"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_does_not_see_it_cannot_change_by_itself_and_is_told_so() {
    let setting = node(SHOP_ALONE).await;
    let told = setting.ask_by_itself(ALL.map(limit).to_vec(), ALL.map(evict).to_vec()).await.unwrap_err();
    let UnsolicitedError::Failed(failed) = told else { panic!("{told:?}") };
    assert_eq!(ids(&failed.failed), ["theirs", "twice", "nowhere"]);
    let expected = r#"it may not change containers in pods that it may not see: "theirs", "twice", "nowhere", "#;
    assert!(failed.reason.starts_with(expected), "{}", failed.reason);
    assert_eq!(setting.changed(), (vec!["mine".to_owned()], vec!["mine".to_owned()]));
    assert_eq!(setting.refused().len(), 6);

    let ignored = Update { ignore_failure: true, ..limit("theirs") };
    assert_eq!(setting.ask_by_itself(vec![ignored], Vec::new()).await.unwrap(), [], "it does not want to know");
    assert_eq!(setting.changed().0.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_told_the_same_of_what_is_hidden_and_of_what_is_not_there() {
    let setting = node(SHOP_ALONE).await;
    let mut told = Vec::new();
    for id in ["theirs", "nowhere"] {
        let undone = setting.ask_by_itself(vec![limit(id)], Vec::new()).await.unwrap_err();
        told.push(undone.to_string().replace(id, "it"));
    }
    assert_eq!(told[0], told[1]);
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_does_not_see_it_cannot_change_late() {
    let setting = node(SHOP_ALONE).await;
    let reply =
        CreateReply { updates: ALL.map(limit).to_vec(), evictions: ALL.map(evict).to_vec(), ..CreateReply::default() };
    setting.join_as_a(Manner::After(SECOND * 3), Event::CreateContainer, reply.into()).await;
    let operation = setting.nri.begin(pod_in("shop"));
    operation.create_container(container_in("shop", "own")).await.unwrap();
    operation.commit();
    sleep(SECOND * 5).await;
    assert_eq!(setting.changed(), (vec!["mine".to_owned()], vec!["mine".to_owned()]));
    assert_eq!(setting.refused().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_cannot_change_what_was_hidden_since_or_took_an_id() {
    for is_reloaded in [true, false] {
        let setting = node(SHOP_ALONE).await;
        let mut reply = CreateReply::default();
        let linux = reply.adjustment.get_or_insert_default().linux.get_or_insert_default();
        linux.resources = limit("").linux.unwrap().resources;
        setting.join_as_a(Manner::After(SECOND * 3), Event::CreateContainer, reply.into()).await;
        let operation = setting.nri.begin(pod_in("shop"));
        operation.create_container(container_in("shop", "own")).await.unwrap();
        let namespace = if is_reloaded { "shop" } else { "bank" };
        setting.shelf.store.lock().unwrap().containers.push(container_in(namespace, "own"));
        operation.commit();
        if is_reloaded {
            setting.nri.reload(&Config::from_toml("plugins.a.namespaces = ['market']").unwrap());
        }
        sleep(SECOND * 5).await;
        assert_eq!(setting.changed().0, [""; 0]);
        assert_eq!(setting.refused(), ["own"]);
    }
}

/// The policy of a plugin that has disconnected is not updated by a reload.
#[tokio::test(start_paused = true)]
async fn what_a_plugin_that_has_left_would_not_see_by_now_its_late_answer_does_not_change() {
    let setting = node("").await;
    let reply = CreateReply { updates: vec![limit("mine"), limit("theirs")], ..CreateReply::default() };
    let plugin = setting.join_as_a(Manner::After(SECOND * 3), Event::CreateContainer, reply.into()).await;
    let operation = setting.nri.begin(pod_in("shop"));
    operation.create_container(container_in("shop", "own")).await.unwrap();
    sleep(SECOND * 2).await;
    plugin.leave().await;
    setting.nri.reload(&Config::from_toml(SHOP_ALONE).unwrap());
    operation.commit();
    sleep(SECOND).await;
    assert_eq!(setting.changed().0, ["mine"]);
    assert_eq!(setting.refused(), ["theirs"]);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_of_a_plugin_that_has_left_is_held_to_what_the_operator_says_now() {
    for (policy, expected) in [
        ("", &["own"][..]),
        ("plugins.a.namespaces = ['market']", &[]),
        ("plugins.a.origin = 'launched'", &[]),
        ("unnamed = 'refuse'", &[]),
    ] {
        let setting = node("").await;
        let mut reply = CreateReply::default();
        let linux = reply.adjustment.get_or_insert_default().linux.get_or_insert_default();
        linux.resources = limit("").linux.unwrap().resources;
        let plugin = setting.join_as_a(Manner::After(SECOND * 3), Event::CreateContainer, reply.into()).await;
        let operation = setting.nri.begin(pod_in("shop"));
        operation.create_container(container_in("shop", "own")).await.unwrap();
        setting.shelf.store.lock().unwrap().containers.push(container_in("shop", "own"));
        sleep(SECOND * 5).await;
        plugin.leave().await;
        setting.nri.reload(&Config::from_toml(policy).unwrap());
        operation.commit();
        sleep(SECOND).await;
        assert_eq!(setting.changed().0, expected, "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_does_not_see_it_cannot_change_in_answers_from_its_backlog() {
    let setting = node(SHOP_ALONE).await;
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &setting.diary);
    let reply =
        CreateReply { updates: ALL.map(limit).to_vec(), evictions: ALL.map(evict).to_vec(), ..CreateReply::default() };
    plugin.reply(Event::CreateContainer, reply.into());
    plugin.synchronizes_for(SECOND);
    let joining = setting.admit("10-a", &plugin);
    sleep(SECOND / 2).await;
    let operation = setting.nri.begin(pod_in("shop"));
    operation.create_container(container_in("shop", "own")).await.unwrap();
    operation.commit();
    joining.await.unwrap().unwrap();
    sleep(SECOND).await;
    assert_eq!(setting.diary.lines(), ["10-a CreateContainer own"], "it was asked late");
    assert_eq!(setting.changed(), (vec!["mine".to_owned()], vec!["mine".to_owned()]));
    assert_eq!(setting.refused().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_does_not_see_it_cannot_change_when_it_is_synchronized() {
    let setting = node(SHOP_ALONE).await;
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &setting.diary);
    plugin.wants(ALL.map(limit).to_vec());
    setting.admit("10-a", &plugin).await.unwrap().unwrap();
    assert_eq!(setting.changed().0, ["mine"]);
    assert_eq!(setting.refused(), ["theirs", "twice", "nowhere"]);

    let nothing_left = FakePlugin::new("10-a", LIFE, at_once(), &setting.diary);
    nothing_left.wants(vec![limit("theirs")]);
    setting.admit("10-a", &nothing_left).await.unwrap().unwrap();
    assert_eq!(setting.changed().0, ["mine"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_changed_where_the_runtime_does_not_say_in_time_where_a_container_is() {
    let setting = node(&format!("source_timeout = '2s'\n{SHOP_ALONE}")).await;
    let reply = CreateReply { updates: vec![limit("mine")], ..CreateReply::default() };
    setting.join_as_a(at_once(), Event::CreateContainer, reply.into()).await;
    *setting.shelf.takes.lock().unwrap() = SECOND * 9;
    let begun = tokio::time::Instant::now();
    let operation = setting.nri.begin(pod_in("shop"));
    let created = operation.create_container(container_in("shop", "own")).await.unwrap();
    assert!(created.updates.is_empty());
    assert_eq!(begun.elapsed(), SECOND * 2);
    setting.ask_by_itself(vec![limit("mine")], Vec::new()).await.unwrap_err();
    assert_eq!(setting.changed().0, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nobody_asks_where_containers_are_for_a_plugin_that_sees_all() {
    let setting = node("plugins.b.namespaces = ['shop']").await;
    let reply = CreateReply { updates: ALL.map(limit).to_vec(), ..CreateReply::default() };
    setting.join_as_a(at_once(), Event::CreateContainer, reply.into()).await;
    *setting.shelf.takes.lock().unwrap() = Duration::MAX;
    let begun = tokio::time::Instant::now();
    let operation = setting.nri.begin(pod_in("shop"));
    let created = operation.create_container(container_in("shop", "own")).await.unwrap();
    assert_eq!(ids(&created.updates), ALL);
    assert_eq!(setting.ask_by_itself(ALL.map(limit).to_vec(), Vec::new()).await.unwrap(), []);
    assert_eq!(setting.changed().0, ALL);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_sees_and_may_not_change_stays_so() {
    let setting = node(&format!("{SHOP_ALONE}\nplugins.a.allow.changes = ['Env']")).await;
    for id in ["mine", "theirs"] {
        let undone = setting.ask_by_itself(vec![limit(id)], Vec::new()).await.unwrap_err();
        assert!(matches!(undone, UnsolicitedError::NotAllowed(NotAllowed::Update { .. })), "{undone}");
    }
    let reply = CreateReply { updates: vec![limit("theirs")], ..CreateReply::default() };
    setting.join_as_a(at_once(), Event::CreateContainer, reply.into()).await;
    let operation = setting.nri.begin(pod_in("shop"));
    let error = operation.create_container(container_in("shop", "own")).await.unwrap_err();
    assert!(
        chain(&error).ends_with("it may not update other containers, and updates theirs (allow.changes)"),
        "{}",
        chain(&error)
    );
    assert_eq!(setting.changed(), (Vec::new(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_may_hear_of_nothing_is_shown_nothing_and_changes_nothing() {
    let setting = node("plugins.a.allow.events = []").await;
    let plugin = FakePlugin::new("10-a", LIFE, at_once(), &setting.diary);
    plugin.wants(vec![limit("mine")]);
    setting.admit("10-a", &plugin).await.unwrap().unwrap();
    assert_eq!(plugin.shown(), [Snapshot::default()]);
    setting.nri.begin(pod_in("shop")).notify(Notice::RunPod).await.unwrap();
    assert!(setting.diary.lines().is_empty());
    setting.ask_by_itself(vec![limit("mine")], vec![evict("mine")]).await.unwrap_err();
    assert_eq!(setting.changed(), (Vec::new(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_wants_to_hear_only_what_it_may_not_is_shown_nothing() {
    let setting = node("plugins.a.allow.events = ['StartContainer']").await;
    let plugin = FakePlugin::new("10-a", Event::StopContainer.into(), at_once(), &setting.diary);
    setting.admit("10-a", &plugin).await.unwrap().unwrap();
    assert_eq!(plugin.shown(), [Snapshot::default()]);
}

#[test]
fn a_container_is_where_its_pod_is_and_one_without_a_pod_is_nowhere() {
    let pods = vec![pod_in("shop"), pod_in("bank")];
    let containers = vec![
        container_in("shop", "one"),
        container_in("shop", "two"),
        container_in("bank", "two"),
        container_in("shop", "stray"),
        container_in("moon", "stray"),
    ];
    let ids = ["one", "two", "stray", "none"].map(str::to_owned);
    let found = Snapshot { pods, containers }.namespaces_of(&ids);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found["one"], ["shop"]);
    assert_eq!(found["two"], ["shop", "bank"]);
}
