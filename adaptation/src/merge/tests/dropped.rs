use nri_proto::{Mount, Owners, Unread, api};

use super::*;

#[test]
fn fields_that_nobody_knows_are_reported_and_dropped() {
    let mut mount = api::Mount { destination: "/x".to_owned(), ..api::Mount::new() };
    mount.special_fields.mut_unknown_fields().add_varint(99, 1);
    let mut adjustment = api::ContainerAdjustment { mounts: vec![mount], ..api::ContainerAdjustment::new() };
    adjustment.special_fields.mut_unknown_fields().add_varint(12, 1);
    let reply = api::CreateContainerResponse { adjust: Some(adjustment).into(), ..Default::default() };

    let mut merge = CreateMerge::new(container());
    let applied = merge.apply(&id("10-a"), reply.into()).unwrap();
    let unread = |message, number| Dropped::Unread(Unread { message, numbers: vec![number] });
    assert_eq!(applied.dropped, [unread("Mount", 99), unread("ContainerAdjustment", 12)]);

    let mount = Mount { destination: "/x".to_owned(), ..Mount::default() };
    assert_eq!(merge.view().mounts, [mount]);
    assert!(merge.finish().adjustment.unknown.is_empty());
}

#[test]
fn a_field_that_nobody_knows_beside_a_value_is_reported_and_the_value_counts() {
    let mut score = api::OptionalInt { value: -5, ..api::OptionalInt::new() };
    score.special_fields.mut_unknown_fields().add_varint(2, 1);
    let linux = api::LinuxContainerAdjustment { oom_score_adj: Some(score).into(), ..Default::default() };
    let adjustment = api::ContainerAdjustment { linux: Some(linux).into(), ..Default::default() };
    let reply = api::CreateContainerResponse { adjust: Some(adjustment).into(), ..Default::default() };

    let mut merge = CreateMerge::new(container());
    let applied = merge.apply(&id("10-a"), reply.into()).unwrap();
    assert_eq!(applied.dropped, [Dropped::Unread(Unread { message: "OptionalInt", numbers: vec![2] })]);

    let linux = merge.finish().adjustment.linux.unwrap();
    assert_eq!(linux.oom_score_adj, Some(-5));
    assert!(linux.unknown.is_empty());
}

#[test]
fn fields_that_nobody_knows_stay_in_the_container() {
    let mut message = api::Container { id: NEW.to_owned(), ..api::Container::new() };
    message.special_fields.mut_unknown_fields().add_varint(99, 1);
    let original = Container::from(message);

    let (merge, _) = create(original.clone(), [("10-a", entries::Kind::Env.reply("A=1"))]);
    assert_eq!(merge.view().unknown, original.unknown);
}

#[test]
fn an_unknown_field_alone_claims_nothing() {
    let mut message = api::CreateContainerResponse::new();
    message.special_fields.mut_unknown_fields().add_varint(99, 1);
    assert_eq!(merged(container(), [("10-a", message.into())]).owners, Owners::default());
}
