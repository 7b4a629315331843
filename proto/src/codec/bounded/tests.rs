use bytes::Bytes;
use proptest::prelude::*;
use protobuf::rt::WireType;
use protobuf::{CodedOutputStream, Message};

use super::{BoundedError, check, parse, parse_wanted, weigh};
use crate::convert::arbitrary;
use crate::model::{Change, Container, CreateReply, TakeUnknown};
use crate::schema::api;

#[test]
fn entries_are_counted_at_any_depth() {
    let mount = api::Mount { options: vec!["ro".to_owned(); 10], ..Default::default() };
    let adjust = api::ContainerAdjustment { mounts: vec![mount; 10], ..Default::default() };
    let reply = api::CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() };
    let bytes = Bytes::from(reply.write_to_bytes().unwrap());
    assert!(matches!(parse::<api::CreateContainerResponse>(&bytes, 110), Err(BoundedError::TooMany(110))));
    assert_eq!(parse::<api::CreateContainerResponse>(&bytes, 111).unwrap(), reply);
}

#[test]
fn what_was_checked_is_read_whether_it_was_counted_or_is_short_enough() {
    let update = api::ContainerUpdate { container_id: "c".repeat(100), ..Default::default() };
    let reply = api::StopContainerResponse { update: vec![update], ..Default::default() };
    let bytes = Bytes::from(reply.write_to_bytes().unwrap());
    let check = check::<api::StopContainerResponse>;
    assert!(matches!(check(&bytes, 1), Err(BoundedError::TooMany(1))));
    for limit in [2, 1000] {
        assert_eq!(check(&bytes, limit).unwrap().parse().unwrap(), reply);
    }
}

#[test]
fn own_entries_weigh_what_they_are_said_to() {
    let linux = api::LinuxContainerUpdate::default();
    let update = api::ContainerUpdate { container_id: "c".to_owned(), linux: Some(linux).into(), ..Default::default() };
    let request = api::UpdateContainersRequest { update: vec![update; 3], ..Default::default() };
    let bytes = Bytes::from(request.write_to_bytes().unwrap());
    let (weight, checked) = weigh::<api::UpdateContainersRequest>(&bytes, 8, 30).unwrap();
    assert_eq!(weight, 3 * (8 + 2));
    assert_eq!(checked.parse().unwrap(), request);
    assert!(matches!(weigh::<api::UpdateContainersRequest>(&bytes, 8, 29), Err(BoundedError::TooMany(29))));
}

/// Returns whether an encoded reply has more than `limit` entries.
fn is_too_much(bytes: Vec<u8>, limit: usize) -> bool {
    matches!(parse::<api::CreateContainerResponse>(&bytes.into(), limit), Err(BoundedError::TooMany(_)))
}

#[test]
fn numbers_that_nobody_knows_are_entries() {
    let mut reply = api::CreateContainerResponse::new();
    (100..200).for_each(|number| reply.special_fields.mut_unknown_fields().add_varint(number, 0));
    let bytes = reply.write_to_bytes().unwrap();
    assert!(is_too_much(bytes.clone(), 99) && !is_too_much(bytes, 100));
}

#[test]
fn what_is_in_the_values_of_a_map_is_counted() {
    let mut device = api::LinuxNetDevice::new();
    (100..200).for_each(|number| device.special_fields.mut_unknown_fields().add_varint(number, 0));
    let net_devices = [("eth0".to_owned(), device)].into();
    let linux = api::LinuxContainerAdjustment { net_devices, ..Default::default() };
    let adjust = api::ContainerAdjustment { linux: Some(linux).into(), ..Default::default() };
    let reply = api::CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() };
    // The adjustment, its Linux-specific part, the entry, and the content of its value.
    let bytes = reply.write_to_bytes().unwrap();
    assert!(is_too_much(bytes.clone(), 102) && !is_too_much(bytes, 103));
}

#[test]
fn many_packed_numbers_are_some_entries() {
    // adjust.linux.scheduler.flags, packed: one byte per number.
    let fields = [1_u8, 6, 10, 4];
    let packed = fields.iter().rev().fold(vec![0; 1600], |inner, number| {
        let length = u16::try_from(inner.len()).unwrap();
        let length = [(length & 0x7f) as u8 | 0x80, (length >> 7) as u8];
        [&[number << 3 | 2][..], &length, &inner].concat()
    });
    let flags = |bytes: &[u8]| {
        let reply = api::CreateContainerResponse::parse_from_bytes(bytes).unwrap();
        reply.adjust.linux.scheduler.flags.len()
    };
    assert_eq!(flags(&packed), 1600);
    assert!(is_too_much(packed.clone(), 103) && !is_too_much(packed, 104));
}

/// The protobuf library accepts a message that ends in the middle of a field.
#[test]
fn a_message_that_is_cut_off_anywhere_but_behind_a_part_is_refused() {
    let mut annotations = api::ContainerAdjustment::new();
    annotations.annotations.insert("key".to_owned(), "value".to_owned());
    let update = api::ContainerUpdate { container_id: "c2".to_owned(), ..Default::default() };
    let reply = api::CreateContainerResponse { update: vec![update], ..Default::default() };
    let whole = api::CreateContainerResponse { adjust: Some(annotations).into(), ..reply };
    let bytes = whole.write_to_bytes().unwrap();
    let is_read = |end: &usize| parse::<api::CreateContainerResponse>(&bytes[..*end].to_vec().into(), 100).is_ok();
    // An empty message, the adjustment alone, and the complete message.
    let adjustment = 2 + usize::from(bytes[1]);
    assert_eq!((0..=bytes.len()).filter(is_read).collect::<Vec<_>>(), [0, adjustment, bytes.len()]);
}

/// Go truncates the number.
#[test]
fn a_number_that_its_field_has_no_room_for_is_refused() {
    // adjust.linux.io_priority.priority, of 32 bits.
    let too_large = [0x0a, 0x0c, 0x32, 0x0a, 0x2a, 0x08, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let read = parse::<api::CreateContainerResponse>(&too_large.to_vec().into(), 100);
    assert!(matches!(read, Err(BoundedError::Malformed(_))), "{read:?}");
}

/// The protobuf library would lose the first occurrence.
#[test]
fn a_part_of_which_there_can_be_one_is_not_read_twice() {
    let adjusting = |key: &str| {
        let mut adjust = api::ContainerAdjustment::new();
        adjust.annotations.insert(key.to_owned(), "1".to_owned());
        let reply = api::CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() };
        reply.write_to_bytes().unwrap()
    };
    let twice = Bytes::from([adjusting("a"), adjusting("b")].concat());
    assert!(matches!(parse::<api::CreateContainerResponse>(&twice, 100), Err(BoundedError::Twice)));
}

/// Returns a length-delimited field.
fn sized(number: u32, parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = CodedOutputStream::vec(&mut bytes);
    out.write_bytes(number, &parts.concat()).unwrap();
    out.flush().unwrap();
    drop(out);
    bytes
}

/// Returns a group with a number and another group in it.
fn group(number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = CodedOutputStream::vec(&mut bytes);
    out.write_tag(number, WireType::StartGroup).unwrap();
    out.write_uint64(1, 7).unwrap();
    out.write_tag(2, WireType::StartGroup).unwrap();
    out.write_tag(2, WireType::EndGroup).unwrap();
    out.write_tag(number, WireType::EndGroup).unwrap();
    out.flush().unwrap();
    drop(out);
    bytes
}

fn wanted(bytes: Vec<u8>) -> Result<CreateReply, BoundedError> {
    parse_wanted::<api::CreateContainerResponse>(&bytes.into(), 100).map(CreateReply::from)
}

#[test]
fn a_group_in_what_a_plugin_wants_is_told_of_wherever_it_is_and_the_rest_is_read() {
    let text = |number, text: &str| sized(number, &[text.as_bytes().to_vec()]);
    let mount = sized(3, &[text(1, "/a"), group(20)]);
    let score = sized(4, &[vec![0x08, 0x05], group(21)]);
    let device = sized(2, &[text(1, "eth9"), group(22)]);
    let net_device = sized(9, &[text(1, "eth0"), device]);
    let adjustment = sized(1, &[group(24), mount, sized(6, &[score, net_device])]);
    let mut reply = wanted([group(15), adjustment].concat()).unwrap();

    let told: Vec<String> = reply.take_unknown().iter().map(ToString::to_string).collect();
    let expected =
        ["Mount 20", "LinuxNetDevice 22", "OptionalInt 21", "ContainerAdjustment 24", "CreateContainerResponse 15"];
    assert_eq!(told, expected);
    let adjustment = reply.adjustment.unwrap();
    assert!(adjustment.mounts.get("/a").is_some());
    let linux = adjustment.linux.unwrap();
    assert_eq!(linux.oom_score_adj, Some(5));
    assert_eq!(linux.net_devices.get("eth0").and_then(Change::into_value).unwrap().name, "eth9");
}

#[test]
fn a_group_is_not_the_field_that_has_its_number() {
    let mut reply = wanted(group(1)).unwrap();
    assert_eq!(reply.take_unknown()[0].to_string(), "CreateContainerResponse 1");
    assert_eq!(reply, CreateReply::default());
}

#[test]
fn a_group_without_an_end_or_a_beginning_or_in_too_many_others_is_refused() {
    let [start, end] = [0x7b, 0x7c];
    for bytes in [vec![start], vec![end], vec![start, start, end], vec![start; 10_000], sized(1, &[vec![start]])] {
        assert!(matches!(wanted(bytes.clone()), Err(BoundedError::Malformed(_))), "{bytes:?}");
    }
}

/// Go keeps the group as an unknown field.
#[test]
fn a_group_in_a_container_does_not_pass_through() {
    let bytes = Bytes::from([sized(1, &[b"id".to_vec()]), group(99)].concat());
    let container = Container::from(parse::<api::Container>(&bytes, 10).unwrap());
    assert_eq!(container, Container { id: "id".to_owned(), ..Container::default() });
}

proptest! {
    #[test]
    fn what_a_plugin_wants_is_read_as_anything_else(reply in arbitrary::create_reply()) {
        let bytes = Bytes::from(api::CreateContainerResponse::from(reply.clone()).write_to_bytes().unwrap());
        let marked = Bytes::from([&*group(2000), &bytes].concat());
        let mut read = CreateReply::from(parse_wanted::<api::CreateContainerResponse>(&marked, 100_000).unwrap());
        let plain = CreateReply::from(parse::<api::CreateContainerResponse>(&bytes, 100_000).unwrap());
        prop_assert!(read.unknown.numbers().contains(&2000));
        read.unknown = plain.unknown.clone();
        prop_assert_eq!(read, plain);
    }

    #[test]
    fn nothing_that_a_peer_sends_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse::<api::CreateContainerResponse>(&Bytes::from(bytes), 100);
    }

    #[test]
    fn what_is_read_is_what_was_sent(container in arbitrary::container()) {
        let message = api::Container::from(container);
        let bytes = Bytes::from(message.write_to_bytes().unwrap());
        prop_assert_eq!(parse::<api::Container>(&bytes, 1_000_000).unwrap(), message);
    }
}
