use proptest::prelude::*;
use protobuf::Message;

use super::{Encode, Writer};
use crate::convert::arbitrary;
use crate::convert::tests::memory_with_a_strange_limit;
use crate::model::{Container, Hooks, Pod, Resources, Unknown};
use crate::schema::api;

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut out = Writer::default();
    value.encode(&mut out);
    out.into_bytes().into()
}

proptest! {
    #[test]
    fn a_pod_is_encoded_as_its_message_is(pod in arbitrary::pod()) {
        let message = api::PodSandbox::parse_from_bytes(&encoded(&pod)).unwrap();
        prop_assert_eq!(message, api::PodSandbox::from(pod));
    }

    #[test]
    fn a_container_is_encoded_as_its_message_is(container in arbitrary::container()) {
        let message = api::Container::parse_from_bytes(&encoded(&container)).unwrap();
        prop_assert_eq!(message, api::Container::from(container));
    }

    #[test]
    fn limits_are_encoded_as_their_message_is(resources in arbitrary::resources()) {
        let message = api::LinuxResources::parse_from_bytes(&encoded(&resources)).unwrap();
        prop_assert_eq!(message, api::LinuxResources::from(resources));
    }

    #[test]
    fn a_memory_policy_is_encoded_as_its_message_is(policy in arbitrary::memory_policy()) {
        prop_assert_eq!(encoded(&policy), api::LinuxMemoryPolicy::from(policy).write_to_bytes().unwrap());
    }

    #[test]
    fn hooks_are_encoded_byte_by_byte_as_the_library_does(hooks in arbitrary::hooks()) {
        let hooks = Hooks { unknown: Unknown::default(), ..hooks };
        prop_assert_eq!(encoded(&hooks), api::Hooks::from(hooks).write_to_bytes().unwrap());
    }

    /// Maps are not ordered in a message, so only the lengths can be compared.
    #[test]
    fn no_byte_more_is_written_than_by_the_library(container in arbitrary::container()) {
        let bytes = encoded(&container);
        prop_assert_eq!(bytes.len() as u64, api::Container::from(container).compute_size());
    }
}

#[test]
fn what_is_empty_takes_no_byte() {
    assert!(encoded(&Pod::default()).is_empty());
    assert!(encoded(&Container::default()).is_empty());
    assert!(encoded(&Resources::default()).is_empty());
}

#[test]
fn a_message_has_room_for_its_length_however_long_it_is() {
    for length in [0, 1, 123, 124, 125, 126, 127, 128, 16_380, 16_381, 16_382, 16_383, 16_384, 2_097_152] {
        let pod = Pod { id: "x".repeat(length), ..Pod::default() };
        let mut out = Writer::default();
        out.model(1, &pod);
        let request = api::RunPodSandboxRequest::parse_from_bytes(&out.into_bytes()).unwrap();
        assert_eq!(request.pod.id.len(), length);
    }
}

#[test]
fn a_second_field_of_a_wrapper_does_not_pass_through() {
    let memory = Some(memory_with_a_strange_limit()).into();
    let resources = Some(api::LinuxResources { memory, ..Default::default() }).into();
    let linux = Some(api::LinuxContainer { resources, ..Default::default() }).into();
    let container = Container::from(api::Container { linux, ..Default::default() });

    let mut out = Writer::default();
    container.encode(&mut out);
    let encoded = api::Container::parse_from_bytes(&out.into_bytes()).unwrap();
    for message in [encoded, api::Container::from(container)] {
        let limit = api::OptionalInt64 { value: 5, ..Default::default() };
        assert_eq!(message.linux.resources.memory.limit.as_ref(), Some(&limit));
    }
}
