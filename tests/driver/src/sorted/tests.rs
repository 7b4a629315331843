use std::collections::HashMap;

use nri_proto::api;
use nri_proto::shape::Shape;
use protobuf::Message;

use super::sort;

#[test]
fn entries_of_maps_are_in_the_order_of_their_keys_at_any_depth() {
    let keys = ["b", "aa", "a", "", "c", "ab"];
    let annotations: HashMap<String, String> = keys.iter().map(|key| ((*key).to_owned(), "1".to_owned())).collect();
    let pod = api::PodSandbox { id: "p".to_owned(), annotations, labels: HashMap::new(), ..Default::default() };
    let request = api::RunPodSandboxRequest { pod: Some(pod).into(), ..Default::default() };
    let mut bytes = request.write_to_bytes().unwrap();
    sort(&mut bytes, Shape::of::<api::RunPodSandboxRequest>()).unwrap();
    let places = ["", "a", "aa", "ab", "b", "c"].map(|key| {
        let entry = [&[0x0a, u8::try_from(key.len()).unwrap()], key.as_bytes(), &[0x12, 1, b'1']].concat();
        bytes.windows(entry.len()).position(|window| window == entry).unwrap()
    });
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(api::RunPodSandboxRequest::parse_from_bytes(&bytes).unwrap(), request);
}

#[test]
fn what_is_no_message_is_left_alone() {
    assert_eq!(sort(&mut [0xff], Shape::of::<api::PodSandbox>()), None);
    assert_eq!(sort(&mut [0x0a, 9, b'p'], Shape::of::<api::PodSandbox>()), None);
}
