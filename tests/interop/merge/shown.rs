//! One case for each known difference.

use nri_proto::api::{
    ContainerAdjustment, CreateContainerRequest, CreateContainerResponse, LinuxContainerAdjustment, LinuxNamespace,
    StopContainerRequest, UpdateContainerRequest,
};
use nri_proto::{
    Adjustment, Container, Cpu, CreateReply, Memory, Mount, Pids, Resources, StopReply, Update, UpdateReply,
};
use nri_tests::merging::{Case, OWN};

use super::known::Known;

impl Known {
    /// Returns a case that shows this difference.
    pub(super) fn shown(self) -> Case {
        match self {
            Self::LoneRemoval => creation([
                adjusting(|adjustment| adjustment.annotations.set("a", "1").unwrap()),
                adjusting(|adjustment| adjustment.annotations.remove("a")),
                adjusting(|adjustment| adjustment.annotations.set("a", "2").unwrap()),
            ]),
            Self::Spelling => creation([
                adjusting(|adjustment| adjustment.mounts.set(mount("/a/")).unwrap()),
                adjusting(|adjustment| adjustment.mounts.set(mount("/a")).unwrap()),
            ]),
            Self::DashMore => creation([
                adjusting(|adjustment| adjustment.mounts.remove("/a")),
                adjusting(|adjustment| adjustment.mounts.remove("-/a")),
            ]),
            Self::Pids => update([Update::new(OWN, pids(1)), Update::new("x", pids(2)), Update::new(OWN, memory(3))]),
            Self::OwnUpdateOfNothing => update([Update { container_id: OWN.to_owned(), ..Update::default() }]),
            Self::IgnoredConflict => stop([
                Update::new("x", shares(1)),
                Update { ignore_failure: true, ..Update::new("x", Resources { cpu: shares(2).cpu, ..memory(2) }) },
                Update::new("x", memory(3)),
            ]),
            Self::WhichConflict => creation([with_namespaces(["a", "b"]), with_namespaces(["-a", "b", "a"])]),
        }
    }
}

fn creation<const N: usize>(replies: [CreateContainerResponse; N]) -> Case {
    let container = Some(Container { id: OWN.to_owned(), ..Container::default() }.into()).into();
    Case::Create(CreateContainerRequest { container, ..Default::default() }, replies.into())
}

/// Returns a case in which limits are updated, and each plugin replies with one update.
fn update<const N: usize>(updates: [Update; N]) -> Case {
    let container = Some(Container { id: OWN.to_owned(), ..Container::default() }.into()).into();
    let linux_resources = Some(Resources { pids: pids(7).pids, ..memory(7) }.into()).into();
    let replies = updates.map(|update| UpdateReply { updates: vec![update], ..UpdateReply::default() }.into());
    Case::Update(UpdateContainerRequest { container, linux_resources, ..Default::default() }, replies.into())
}

fn stop<const N: usize>(updates: [Update; N]) -> Case {
    let container = Some(Container { id: OWN.to_owned(), ..Container::default() }.into()).into();
    let replies = updates.map(|update| StopReply { updates: vec![update], ..StopReply::default() }.into());
    Case::Stop(StopContainerRequest { container, ..Default::default() }, replies.into())
}

fn adjusting(adjust: impl FnOnce(&mut Adjustment)) -> CreateContainerResponse {
    let mut adjustment = Adjustment::default();
    adjust(&mut adjustment);
    CreateReply::from(adjustment).into()
}

/// Returns a reply with namespaces in this order, which the model cannot express.
fn with_namespaces<const N: usize>(kinds: [&str; N]) -> CreateContainerResponse {
    let namespaces = kinds.map(|kind| LinuxNamespace { type_: kind.to_owned(), ..Default::default() }).into();
    let linux = Some(LinuxContainerAdjustment { namespaces, ..Default::default() }).into();
    let adjust = Some(ContainerAdjustment { linux, ..Default::default() }).into();
    CreateContainerResponse { adjust, ..Default::default() }
}

fn mount(destination: &str) -> Mount {
    Mount { destination: destination.to_owned(), ..Mount::default() }
}

fn memory(limit: i64) -> Resources {
    Resources { memory: Some(Memory { limit: Some(limit), ..Memory::default() }), ..Resources::default() }
}

fn shares(shares: u64) -> Resources {
    Resources { cpu: Some(Cpu { shares: Some(shares), ..Cpu::default() }), ..Resources::default() }
}

fn pids(limit: i64) -> Resources {
    Resources { pids: Some(Pids { limit, ..Pids::default() }), ..Resources::default() }
}
