use proptest::prelude::*;
use protobuf::Message;

use super::usual;
use crate::convert::arbitrary;
use crate::convert::fill;
use crate::model::{Adjustment, CreateReply, EnvVar, Mount, Unknown};
use crate::schema::api;

/// Checks that a decoded value equals the value that is decoded through the message.
fn check(bytes: &[u8]) -> bool {
    let value = usual::<CreateReply>(bytes);
    let is_usual = value.is_some();
    if let Some(value) = value {
        let message = api::CreateContainerResponse::parse_from_bytes(bytes).expect("only what can be read is usual");
        assert_eq!(*value, CreateReply::from(message));
    }
    is_usual
}

fn bytes_of(adjustment: Adjustment) -> Vec<u8> {
    api::CreateContainerResponse::from(CreateReply::from(adjustment)).write_to_bytes().unwrap()
}

fn typical() -> Adjustment {
    let mut adjustment = Adjustment::default();
    adjustment.annotations.set("a", "1").unwrap();
    adjustment.env.set(EnvVar::new("LEVEL", "debug")).unwrap();
    adjustment.mounts.set(Mount::bind("/a", "/b", ["ro"])).unwrap();
    adjustment
}

proptest! {
    #[test]
    fn any_reply_is_read_as_its_message_is(reply in arbitrary::create_reply()) {
        check(&api::CreateContainerResponse::from(reply).write_to_bytes().unwrap());
    }

    #[test]
    fn any_message_from_the_wire_is_read_as_it_is(bytes in prop::collection::vec(any::<u8>(), 0..1024)) {
        check(&fill::random::<api::CreateContainerResponse>(bytes).write_to_bytes().unwrap());
    }

    #[test]
    fn bytes_that_are_changed_are_read_as_their_message_is_or_not_at_all(
        reply in arbitrary::create_reply(), place: prop::sample::Index, byte: u8,
    ) {
        let mut bytes = api::CreateContainerResponse::from(reply).write_to_bytes().unwrap();
        if !bytes.is_empty() {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        check(&bytes);
    }

    #[test]
    fn any_bytes_are_read_as_their_message_is_or_not_at_all(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        check(&bytes);
    }
}

#[test]
fn what_plugins_typically_change_is_usual() {
    let mut full = typical();
    full.hooks = Some(fill::full_of_known::<api::Hooks>().into());
    let linux = full.linux_mut();
    linux.resources = Some(fill::full_of_known::<api::LinuxResources>().into());
    linux.devices.set(fill::full_of_known::<api::LinuxDevice>().into()).unwrap();
    linux.oom_score_adj = Some(-1);
    assert!(check(&bytes_of(full)));
}

#[test]
fn what_is_removed_goes_the_other_way() {
    let mut adjustment = typical();
    adjustment.env.remove("HOME");
    assert!(!check(&bytes_of(adjustment)));
}

#[test]
fn what_is_there_twice_goes_the_other_way() {
    let twice = bytes_of(typical()).repeat(2);
    assert!(!check(&twice));
}

#[test]
fn what_we_do_not_know_goes_the_other_way() {
    let mut fields = protobuf::UnknownFields::new();
    fields.add_varint(15, 1);
    let adjustment = Adjustment { unknown: Unknown::new(fields), ..typical() };
    assert!(!check(&bytes_of(adjustment)));
}
