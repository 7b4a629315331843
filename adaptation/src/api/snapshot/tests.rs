use nri_proto::arbitrary;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[test]
fn an_empty_snapshot_is_one_empty_chunk() {
    for limit in [0, 1, MAX_CHUNK] {
        let chunks: Vec<_> = Snapshot::default().chunks(limit).collect();
        assert_eq!(chunks, [Chunk { bytes: Bytes::new(), last: true }]);
    }
}

#[test]
fn what_fits_into_one_chunk_is_in_one() {
    let chunks = check(&snapshot(&[10; 100], &[10; 100]), MAX_CHUNK);
    assert_eq!(chunks.len(), 1);
}

#[test]
fn a_chunk_is_filled_up_to_its_last_byte() {
    let one = in_chunk(&pod(0, 50));
    let two = snapshot(&[50, 50], &[]);
    assert_eq!(check(&two, 2 * one + MORE.len()).len(), 1);
    assert_eq!(check(&two, 2 * one + MORE.len() - 1).len(), 2);
}

#[test]
fn an_object_that_fits_nowhere_is_left_out_and_reported() {
    let mut chunks = snapshot(&[5000, 10], &[10, 6000, 10]).chunks(1000);
    assert_eq!((&mut chunks).count(), 1);
    let reports: Vec<_> = chunks.oversized().iter().map(ToString::to_string).collect();
    assert_eq!(reports, ["pod pod-0 of 5010 bytes", "container container-1 of 6017 bytes"]);
    assert_eq!(chunks.next(), None);
}

#[test]
fn a_snapshot_of_which_nothing_fits_is_one_empty_chunk() {
    let mut chunks = snapshot(&[5000; 3], &[5000; 3]).chunks(1000);
    assert_eq!(chunks.next(), Some(Chunk { bytes: Bytes::new(), last: true }));
    assert_eq!(chunks.next(), None);
    assert_eq!(chunks.oversized().len(), 6);
}

#[test]
fn what_is_left_out_at_the_end_does_not_promise_more() {
    assert_eq!(check(&snapshot(&[900, 5000], &[5000]), 1000).len(), 1);
}

#[test]
fn what_was_left_out_is_known_before_the_last_chunk_is_taken() {
    let mut chunks = snapshot(&[5000, 900, 900], &[]).chunks(1000);
    assert!(chunks.oversized().is_empty(), "nothing is encoded before it is asked for");
    assert!(!chunks.next().unwrap().last);
    assert_eq!(chunks.oversized().len(), 1);
}

/// Upstream asks for four pods of one, and panics.
#[test]
fn u6_one_pod_and_nine_large_containers_are_cut() {
    let chunks = check(&snapshot(&[100], &[600_000; 9]), MAX_CHUNK);
    assert_eq!(chunks.len(), 2);
}

/// Upstream sends empty messages until the plugin is dropped.
#[test]
fn u43_many_large_pods_and_one_container_are_cut() {
    let chunks = check(&snapshot(&[80_000; 110], &[100]), MAX_CHUNK);
    assert_eq!(chunks.len(), 3);
}

#[test]
fn a_chunk_is_a_message_that_can_be_sent() {
    let envelope = 2 * "nri.pkg.api.v1alpha1.Plugin Synchronize".len() + 64;
    assert!(MAX_CHUNK + envelope <= call::MAX_MESSAGE);
}

#[test]
fn a24_one_object_larger_than_a_message_does_not_keep_the_others_out() {
    let mut chunks = snapshot(&[10; 3], &[10, call::MAX_MESSAGE, 10]).chunks(MAX_CHUNK);
    assert_eq!((&mut chunks).count(), 1);
    assert_eq!(chunks.oversized().len(), 1);
    check(&snapshot(&[10; 3], &[10, call::MAX_MESSAGE, 10]), MAX_CHUNK);
}

#[test]
fn a23_all_small_snapshots_are_cut_well() {
    let limit = 300;
    // Sizes of which several fit into a chunk, two just fit, two just do not fit, one just fits,
    // and one does not fit.
    let sizes = [0, 40, 120, 140, 280, 300];
    for (pods, containers) in (0..=12).flat_map(|pods| (0..=12).map(move |containers| (pods, containers))) {
        for (of_pods, of_containers) in sizes.iter().flat_map(|a| sizes.iter().map(move |b| (*a, *b))) {
            check(&snapshot(&vec![of_pods; pods], &vec![of_containers; containers]), limit);
        }
    }
}

#[test]
fn all_limits_are_kept() {
    let snapshot = snapshot(&[0, 200, 10, 130, 90], &[5, 127, 128, 129, 0]);
    for limit in 0..1200 {
        check(&snapshot, limit);
    }
}

proptest! {
    #[test]
    fn a_random_snapshot_is_cut_well(
        pods in vec(0_usize..700, 0..200),
        containers in vec(0_usize..700, 0..200),
        limit in 300_usize..3000,
    ) {
        check(&snapshot(&pods, &containers), limit);
    }

    #[test]
    fn nothing_of_an_object_is_lost(
        pods in vec(arbitrary::pod(), 0..4),
        containers in vec(arbitrary::container(), 0..4),
        limit in 0_usize..5000,
    ) {
        check(&Snapshot { pods, containers }, limit);
    }
}

/// Cuts a snapshot into chunks, and checks all promises about the chunks.
#[track_caller]
fn check(snapshot: &Snapshot, limit: usize) -> Vec<Chunk> {
    let mut iterator = snapshot.clone().chunks(limit);
    let chunks: Vec<_> = (&mut iterator).collect();
    let mut told = Snapshot::default();
    for (i, chunk) in chunks.iter().enumerate() {
        assert!(chunk.bytes.len() <= limit, "a chunk of {} bytes", chunk.bytes.len());
        assert_eq!(chunk.last, i + 1 == chunks.len());
        let api::SynchronizeRequest { pods, containers, more, special_fields: _ } =
            api::SynchronizeRequest::parse_from_bytes(&chunk.bytes).unwrap();
        assert_eq!(more, !chunk.last);
        assert!(chunks.len() == 1 || !pods.is_empty() || !containers.is_empty(), "no progress");
        assert!(pods.is_empty() || told.containers.is_empty(), "a pod after a container");
        told.pods.extend(pods.into_iter().map(Pod::from));
        told.containers.extend(containers.into_iter().map(Container::from));
    }

    let fits = |size: usize| size + MORE.len() <= limit;
    let (pods, large_pods): (Vec<_>, Vec<_>) = snapshot.pods.iter().cloned().partition(|pod| fits(in_chunk(pod)));
    let (containers, large_containers): (Vec<_>, Vec<_>) =
        snapshot.containers.iter().cloned().partition(|container| fits(in_chunk(container)));
    assert!(told == Snapshot { pods, containers }, "another snapshot than was given");
    let large = large_pods.into_iter().map(|pod| (ChunkKind::Pod, pod.id));
    let large = large.chain(large_containers.into_iter().map(|container| (ChunkKind::Container, container.id)));
    let reported = iterator.oversized().iter().map(|oversized| (oversized.kind, oversized.id.clone()));
    assert!(large.eq(reported));
    chunks
}

/// Returns the size of an object in a request.
fn in_chunk<T: Clone + Into<Told>>(object: &T) -> usize {
    let Told(request) = object.clone().into();
    usize::try_from(request.compute_size()).unwrap()
}

struct Told(api::SynchronizeRequest);

impl From<Pod> for Told {
    fn from(pod: Pod) -> Self {
        Self(api::SynchronizeRequest { pods: vec![pod.into()], ..Default::default() })
    }
}

impl From<Container> for Told {
    fn from(container: Container) -> Self {
        Self(api::SynchronizeRequest { containers: vec![container.into()], ..Default::default() })
    }
}

fn snapshot(pods: &[usize], containers: &[usize]) -> Snapshot {
    Snapshot {
        pods: pods.iter().enumerate().map(|(i, size)| pod(i, *size)).collect(),
        containers: containers.iter().enumerate().map(|(i, size)| container(i, *size)).collect(),
    }
}

fn pod(i: usize, size: usize) -> Pod {
    Pod { id: format!("pod-{i}"), namespace: "x".repeat(size), ..Pod::default() }
}

fn container(i: usize, size: usize) -> Container {
    Container { id: format!("container-{i}"), status_message: "x".repeat(size), ..Container::default() }
}
