use nri_proto::api::{
    ContainerAdjustment, CreateContainerRequest, CreateContainerResponse, PodSandbox, StopContainerRequest,
    StopContainerResponse, UpdateContainerRequest, UpdateContainerResponse,
};
use nri_proto::{
    Adjustment, ChangeMap, Container, CreateReply, Resources, StopReply, TakeUnknown, Update, UpdateReply, arbitrary,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use protobuf::MessageField;

use super::odd::oddities;
use super::sieve::Sieve;
use super::{Case, OWN, PLUGINS, fold};

/// Generates a request with the replies of one to four plugins, some with odd keys and without
/// unknown fields.
pub fn case() -> impl Strategy<Value = Case> {
    (plain_case(), oddities()).prop_map(|(mut case, oddities)| {
        oddities.into_iter().for_each(|oddity| oddity.put_into(&mut case));
        case
    })
}

fn plain_case() -> impl Strategy<Value = Case> {
    let count = 1..=PLUGINS.len();
    prop_oneof![
        3 => (container(), vec(create_reply(), count.clone())).prop_map(|(container, replies)| {
            let container = Some(container.into()).into();
            Case::Create(CreateContainerRequest { pod: pod(), container, ..Default::default() }, replies)
        }),
        2 => (option::of(resources()), vec(update_reply(), count.clone())).prop_map(|(requested, replies)| {
            let linux_resources = requested.map(Into::into).into();
            let request = UpdateContainerRequest { pod: pod(), container: own(), linux_resources, ..Default::default() };
            Case::Update(request, replies)
        }),
        1 => vec(stop_reply(), count).prop_map(|replies| {
            Case::Stop(StopContainerRequest { pod: pod(), container: own(), ..Default::default() }, replies)
        }),
    ]
}

fn pod() -> MessageField<PodSandbox> {
    Some(PodSandbox { id: "pod".to_owned(), ..Default::default() }).into()
}

fn own() -> MessageField<nri_proto::api::Container> {
    Some(Container { id: OWN.to_owned(), ..Container::default() }.into()).into()
}

/// Generates the container [`OWN`] as any runtime may describe it.
pub fn container() -> impl Strategy<Value = Container> {
    arbitrary::container().prop_map(|mut container| {
        container.take_unknown();
        fold::container(&mut container);
        Container { id: OWN.to_owned(), ..container }
    })
}

/// Generates any resources, few of which are set.
pub fn resources() -> impl Strategy<Value = Resources> {
    (arbitrary::resources(), sieve(), seldom()).prop_map(|(mut resources, mut sieve, pids)| {
        resources.take_unknown();
        fold::resources(&mut resources);
        sieve.resources(&mut resources);
        keep_pids(&mut resources, pids);
        resources
    })
}

/// Generates any reply to the creation of [`OWN`].
pub fn create_reply() -> impl Strategy<Value = CreateContainerResponse> {
    let seldom = (seldom(), seldom(), edits());
    (arbitrary::create_reply(), sieves(), seldom).prop_map(|(mut reply, (own, others), (removals, pids, edits))| {
        reply.take_unknown();
        let CreateReply { adjustment, updates, .. } = &mut reply;
        if let Some(adjustment) = adjustment {
            adjust(adjustment, own, removals);
        }
        change(updates, others, pids, &["x", "y", "z", "x", "y", "z", OWN]);

        let mut reply = CreateContainerResponse::from(reply);
        if let Some(adjustment) = reply.adjust.as_mut() {
            edits.iter().for_each(|edit| edit.make(adjustment));
        }
        reply
    })
}

/// Generates any reply to an update of [`OWN`].
pub fn update_reply() -> impl Strategy<Value = UpdateContainerResponse> {
    (arbitrary::update_reply(), sieve(), seldom()).prop_map(|(mut reply, sieve, pids): (UpdateReply, _, _)| {
        reply.take_unknown();
        change(&mut reply.updates, sieve, pids, &["x", "y", OWN, OWN]);
        reply.into()
    })
}

/// Generates any reply to the stop of [`OWN`].
pub fn stop_reply() -> impl Strategy<Value = StopContainerResponse> {
    (arbitrary::stop_reply(), sieve(), seldom()).prop_map(|(mut reply, sieve, pids): (StopReply, _, _)| {
        reply.take_unknown();
        change(&mut reply.updates, sieve, pids, &["x", "y", OWN]);
        reply.into()
    })
}

/// Renames and filters the entries of an adjustment. The result differs from Go's as soon as a key
/// of a map is removed and not set again, so `removals` is rare.
fn adjust(adjustment: &mut Adjustment, mut sieve: Sieve, removals: bool) {
    fold::adjustment(adjustment);
    sieve.adjustment(adjustment);
    if !removals {
        without_lone_removals(&mut adjustment.annotations);
        if let Some(linux) = &mut adjustment.linux {
            without_lone_removals(&mut linux.sysctl);
            without_lone_removals(&mut linux.net_devices);
        }
    }
}

fn without_lone_removals<T: Clone + Default>(changes: &mut ChangeMap<T>) {
    let removed: Vec<String> =
        changes.iter().filter(|(_, change)| change.value().is_none()).map(|(key, _)| key.to_owned()).collect();
    for key in removed {
        _ = changes.replace(key, T::default());
    }
}

/// Changes updates so that they meet. Updates that may fail are rare.
fn change(updates: &mut [Update], mut sieve: Sieve, pids: bool, containers: &[&str]) {
    for update in updates {
        update.container_id = fold::name(&update.container_id, containers).to_owned();
        update.ignore_failure &= sieve.0 & 1 == 1;
        if let Some(resources) = update.linux.as_mut().and_then(|linux| linux.resources.as_mut()) {
            fold::resources(resources);
            sieve.resources(resources);
            keep_pids(resources, pids);
        }
    }
}

/// Removes limits of processes, unless `keep` is set. The result differs from Go's as soon as an
/// update limits processes, so this is rare.
fn keep_pids(resources: &mut Resources, keep: bool) {
    resources.pids = resources.pids.take().filter(|_| keep);
}

fn seldom() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.2)
}

fn sieves() -> impl Strategy<Value = (Sieve, Sieve)> {
    (sieve(), sieve())
}

/// Generates a filter that keeps a half, a quarter or an eighth.
fn sieve() -> impl Strategy<Value = Sieve> {
    any::<[u64; 3]>().prop_map(|[a, b, c]| {
        Sieve(match a % 3 {
            0 => b,
            1 => b & c,
            _ => b & c & a,
        })
    })
}

/// A change that the model cannot express: an entry of a list is repeated in another place.
#[derive(Clone, Debug)]
struct Edit {
    list: u8,
    from: usize,
    to: usize,
}

/// Generates such changes, in most cases none.
fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = (any::<u8>(), 0..4usize, 0..5usize).prop_map(|(list, from, to)| Edit { list, from, to });
    prop_oneof![9 => Just(vec![]), 1 => vec(edit, 1..3)]
}

impl Edit {
    fn make(&self, adjustment: &mut ContainerAdjustment) {
        match (self.list % 4, adjustment.linux.as_mut()) {
            (0, _) => self.repeat(&mut adjustment.mounts),
            (1, _) => self.repeat(&mut adjustment.env),
            (2, Some(linux)) => self.repeat(&mut linux.devices),
            (3, Some(linux)) => self.repeat(&mut linux.namespaces),
            _ => {}
        }
    }

    fn repeat<T: Clone>(&self, list: &mut Vec<T>) {
        if let Some(entry) = list.get(self.from).cloned() {
            list.insert(self.to.min(list.len()), entry);
        }
    }
}
