//! Every change that a plugin can make, each in one line.

use std::io::{self, Write};
use std::sync::Arc;

use async_trait::async_trait;
use nri_proto::{
    Adjustment, Args, CdiDevice, Change, Container, CreateReply, Device, EnvVar, Event, EventMask, Eviction, Hook,
    IoPriority, IoPriorityClass, MemoryPolicy, MemoryPolicyMode, Mount, Namespace, NetDevice, Pod, Proposal, Rdt,
    Resources, Rlimit, Scheduler, SchedulerPolicy, Seccomp, StopReply, Update, UpdateReply, Verdict, api,
};
use parking_lot::Mutex;
use proptest::prelude::*;

use crate::testing::{Node, container, pod};
use crate::{Context, Plugin, Refusal};

/// Creates an adjustment of every field, with this text and this number wherever they fit.
fn everything(text: &str, number: u32) -> Result<Adjustment, Refusal> {
    let (owned, signed) = (|| text.to_owned(), i64::from(number));
    let mut adjustment = Adjustment::default();
    adjustment.annotations.set("annotation", text)?;
    adjustment.annotations.remove("no-annotation");
    adjustment.env.set(EnvVar::new("VARIABLE", text))?;
    adjustment.env.remove("NO_VARIABLE");
    adjustment.mounts.set(Mount::bind(text, "/mount", ["ro"]))?;
    adjustment.mounts.remove("/no-mount");
    adjustment.hooks_mut().create_runtime.push(Hook::new(text, [text]));
    adjustment.rlimits.push(Rlimit::new("RLIMIT_NOFILE", number.into(), u64::MAX));
    adjustment.cdi_devices.push(CdiDevice::new("vendor.com/class=name"));
    adjustment.args = Args::replace(["command", text]);
    adjustment.linux_mut().devices.set(Device::new("/dev/device", "c", signed, signed))?;
    adjustment.linux_mut().devices.remove("/dev/no-device");
    adjustment.linux_mut().cgroups_path = owned();
    adjustment.linux_mut().oom_score_adj = Some(signed);
    adjustment.linux_mut().io_priority = Some(IoPriority::new(IoPriorityClass::Idle, 3));
    adjustment.linux_mut().seccomp_policy = Some(Seccomp { default_action: owned(), ..Seccomp::default() });
    adjustment.linux_mut().namespaces.set(Namespace::new("network", text))?;
    adjustment.linux_mut().namespaces.remove("ipc");
    adjustment.linux_mut().sysctl.set("kernel.parameter", text)?;
    adjustment.linux_mut().sysctl.remove("kernel.other");
    adjustment.linux_mut().net_devices.set("eth7", NetDevice::named(text))?;
    adjustment.linux_mut().net_devices.remove("eth8");
    adjustment.linux_mut().scheduler = Some(Scheduler { policy: SchedulerPolicy::Batch, ..Scheduler::default() });
    adjustment.linux_mut().rdt = Some(Rdt { clos_id: Some(owned()), ..Rdt::default() });
    adjustment.linux_mut().memory_policy =
        Some(MemoryPolicy { mode: MemoryPolicyMode::Bind, nodes: owned(), ..MemoryPolicy::default() });
    adjustment.resources_mut().memory_mut().limit = Some(signed);
    adjustment.resources_mut().cpu_mut().shares = Some(number.into());
    adjustment.resources_mut().limit_pids(signed);
    adjustment.resources_mut().limit_hugepages("2MB", number.into());
    adjustment.resources_mut().unified.insert("memory.high".to_owned(), owned());
    adjustment.resources_mut().blockio_class = Some(owned());
    adjustment.resources_mut().rdt_class = Some(owned());
    Ok(adjustment)
}

proptest! {
    #[test]
    fn what_is_said_in_a_line_is_what_the_wire_says(text in ".*", number: u32) {
        let adjustment = everything(&text, number).unwrap();
        let message = api::ContainerAdjustment::from(adjustment.clone());
        prop_assert_eq!(Adjustment::from(message), adjustment);
    }
}

/// A plugin that asks for a change in each of its replies.
struct Greedy;

#[async_trait]
impl Plugin for Greedy {
    fn events(&self) -> EventMask {
        [Event::CreateContainer, Event::UpdateContainer, Event::StopContainer, Event::ValidateContainerAdjustment]
            .into_iter()
            .collect()
    }

    async fn synchronize(&self, _: &Context, _: Vec<Pod>, _: Vec<Container>) -> Result<Vec<Update>, Refusal> {
        Ok(vec![limited("synchronized")])
    }

    async fn create_container(&self, _: &Context, _: Pod, _: Container) -> Result<CreateReply, Refusal> {
        let evictions = vec![Eviction::new("evicted", "to make room")];
        Ok(CreateReply { updates: vec![limited("other")], evictions, ..everything("x", 7)?.into() })
    }

    async fn update_container(
        &self,
        _: &Context,
        _: Pod,
        container: Container,
        _: Option<Resources>,
    ) -> Result<UpdateReply, Refusal> {
        Ok(vec![limited(&container.id)].into())
    }

    async fn stop_container(&self, _: &Context, _: Pod, _: Container) -> Result<StopReply, Refusal> {
        Ok(vec![limited("other")].into())
    }

    async fn validate_container_adjustment(&self, _: &Context, proposal: Proposal) -> Result<Verdict, Refusal> {
        let is_evil = proposal.container.is_some_and(|container| container.name == "evil");
        Ok(if is_evil { Verdict::reject("it is evil") } else { Verdict::accept() })
    }
}

fn limited(container: &str) -> Update {
    let mut update = Update::of(container);
    update.resources_mut().limit_pids(10);
    update
}

/// Returns the container and the limit on processes of each update.
fn limits(updates: &[Update]) -> Vec<(&str, i64)> {
    let limit = |update: &Update| update.resources().unwrap().pids.as_ref().unwrap().limit;
    updates.iter().map(|update| (&*update.container_id, limit(update))).collect()
}

#[tokio::test(start_paused = true)]
async fn what_a_plugin_says_comes_out_at_the_runtime() {
    let (node, pod) = (Node::new(), pod("web"));
    let runtime = node.join("10-greedy", Greedy).await.unwrap();
    assert_eq!(node.updates(), [("10-greedy".parse().unwrap(), limited("synchronized"))]);

    let app = container("app", &pod);
    let created = node.create(&pod, &app).await.unwrap();
    let wanted = everything("x", 7).unwrap();
    assert_eq!(created.adjustment.mounts, wanted.mounts);
    assert_eq!(created.adjustment.rlimits, wanted.rlimits);
    assert_eq!(created.adjustment.env.get("NO_VARIABLE"), Some(Change::Remove));
    let (linux, wanted) = (created.adjustment.linux.unwrap(), wanted.linux.unwrap());
    assert_eq!(linux.memory_policy, wanted.memory_policy);
    assert_eq!(linux.resources.unwrap().unified, wanted.resources.unwrap().unified);
    assert_eq!(limits(&created.updates), [("other", 10)]);
    assert_eq!(created.evictions[0].eviction, Eviction::new("evicted", "to make room"));

    let updated = node.update(&pod, &app, Resources::default()).await.unwrap();
    assert_eq!(limits(updated.own.as_slice()), [("app", 10)]);
    assert_eq!(limits(&node.stop_container(&pod, &app).await.unwrap().updates), [("other", 10)]);

    node.fail_updates_of("broken");
    let failed = runtime.update(vec![limited("broken"), limited("app")], vec![Eviction::new("app", "")]).await.unwrap();
    assert_eq!(failed, [limited("broken")]);
    assert_eq!(node.evictions(), [("10-greedy".parse().unwrap(), Eviction::new("app", ""))]);
}

#[tokio::test(start_paused = true)]
async fn a_validator_rejects_with_its_words() {
    let (node, pod) = (Node::new(), pod("web"));
    node.join("10-greedy", Greedy).await.unwrap();
    let rejected = node.create(&pod, &container("evil", &pod)).await.unwrap_err();
    let expected = "validator \"10-greedy\" rejected container adjustment, reason: it is evil";
    assert_eq!(crate::chain(&rejected), expected);
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Refuses every container, because of an annotation that it cannot read.
struct Picky;

#[async_trait]
impl Plugin for Picky {
    fn events(&self) -> EventMask {
        Event::CreateContainer | Event::StartContainer
    }

    async fn create_container(&self, _: &Context, _: Pod, _: Container) -> Result<CreateReply, Refusal> {
        let _: u32 = "many".parse().map_err(Refusal::context("could not read the annotation cpus"))?;
        Ok(CreateReply::default())
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_refuses_logs_what_it_refused_and_why() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let (node, pod) = (Node::new(), pod("web"));
    node.join("10-picky", Picky).await.unwrap();
    let refused = node.create(&pod, &container("app", &pod)).await.unwrap_err();

    let reason = "could not read the annotation cpus: invalid digit found in string";
    assert!(crate::chain(&refused).ends_with(reason), "{}", crate::chain(&refused));
    let logged = String::from_utf8(log.0.lock().clone()).unwrap();
    let line = format!("the plugin refused the request event=CreateContainer reason={reason}");
    assert!(logged.contains(&line), "{logged}");
}

/// A plugin that overrides no handler.
struct Deaf;

impl Plugin for Deaf {
    fn events(&self) -> EventMask {
        Event::StartContainer.into()
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_without_a_handler_fails_in_tests() {
    let (node, pod) = (Node::new(), pod("web"));
    node.join("10-deaf", Deaf).await.unwrap();
    let failed = node.start(&pod, &container("app", &pod)).await.unwrap_err();
    assert!(crate::chain(&failed).ends_with("the plugin subscribes to StartContainer and has no handler for it"));
}
