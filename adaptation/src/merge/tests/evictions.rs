use nri_proto::{Eviction, UpdateReply};

use super::*;

fn evict(container: &str) -> Eviction {
    Eviction { container_id: container.to_owned(), reason: "room".to_owned(), ..Eviction::default() }
}

fn asked(plugin: &str, container: &str) -> AskedEviction {
    AskedEviction { plugin: id(plugin), eviction: evict(container) }
}

#[test]
fn evictions_are_collected_from_replies_to_a_create() {
    let reply = |evictions| CreateReply { evictions, ..CreateReply::default() };
    let merged =
        merged(container(), [("10-a", reply(vec![evict("x"), evict("y")])), ("20-b", reply(vec![evict("x")]))]);
    assert_eq!(merged.evictions, [asked("10-a", "x"), asked("10-a", "y"), asked("20-b", "x")]);
}

#[test]
fn evictions_are_collected_from_replies_to_an_update() {
    let mut merge = UpdateMerge::new(NEW, Resources::default());
    merge.apply(&id("10-a"), UpdateReply { evictions: vec![evict("x")], ..UpdateReply::default() }).unwrap();
    assert_eq!(merge.finish().evictions, [asked("10-a", "x")]);
}
