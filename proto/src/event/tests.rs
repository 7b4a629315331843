//! Events and masks, compared with upstream.

use proptest::prelude::*;

use super::*;
use crate::schema::api;

#[test]
fn events_are_numbered_from_one_without_a_gap() {
    let numbers: Vec<i32> = Event::ALL.iter().map(|event| event.number()).collect();
    assert_eq!(numbers, (1..=14).collect::<Vec<_>>());
    assert_eq!(numbers.len() + 1, api::Event::LAST as usize);
}

#[test]
fn an_event_has_the_number_of_its_wire_value() {
    for event in Event::ALL {
        assert_eq!(api::Event::from(event) as i32, event.number());
        assert_eq!(Event::from_number(event.number()), Some(event));
        assert_eq!(format!("{event:?}"), event.rpc());
    }
}

#[test]
fn plugins_can_veto_what_has_not_happened_yet() {
    let vetoed: EventMask = Event::ALL.into_iter().filter(|event| event.can_be_vetoed()).collect();
    let expected = "RunPodSandbox,CreateContainer,StartContainer,UpdateContainer,UpdatePodSandbox,\
                    ValidateContainerAdjustment";
    assert_eq!(vetoed.to_string(), expected);
}

#[test]
fn nine_events_are_state_changes_to_older_peers() {
    let others: EventMask = Event::ALL.into_iter().filter(|event| !event.is_state_change()).collect();
    let expected = "CreateContainer,UpdateContainer,StopContainer,UpdatePodSandbox,ValidateContainerAdjustment";
    assert_eq!(others.to_string(), expected);
}

#[test]
fn the_sentinels_are_not_events() {
    for number in [i32::MIN, -1, api::Event::UNKNOWN as i32, api::Event::LAST as i32, i32::MAX] {
        assert_eq!(Event::from_number(number), None, "{number}");
    }
}

#[test]
fn the_bit_of_an_event_is_its_number_less_one() {
    assert_eq!(EventMask::from(Event::RunPodSandbox).to_wire(), Some(1));
    assert_eq!(EventMask::from(Event::ValidateContainerAdjustment).to_wire(), Some(1 << 13));
    assert_eq!(EventMask::ALL.to_wire(), Some(0x3fff));
}

#[test]
fn zero_on_the_wire_means_everything() {
    let events = EventMask::from_wire(0);
    assert_eq!(events, WireEvents { known: EventMask::ALL, unknown: 0 });
    assert!(events.known.contains(Event::ValidateContainerAdjustment));
}

#[test]
fn an_empty_mask_cannot_be_put_on_the_wire() {
    assert_eq!(EventMask::EMPTY.to_wire(), None);
}

#[test]
fn bits_of_newer_events_are_split_off() {
    let check = |wire, known: &str, unknown| {
        let events = EventMask::from_wire(wire);
        assert_eq!((events.known.to_string().as_str(), events.unknown), (known, unknown), "{wire:#x}");
    };
    check(1, "RunPodSandbox", 0);
    check(0x4008, "CreateContainer", 0x4000);
    check(0x4000, "", 0x4000);
    check(-1, &EventMask::ALL.to_string(), 0xffff_c000);
    check(i32::MIN, "", 0x8000_0000);
}

#[test]
fn a_strict_runtime_names_only_the_unknown_bits() {
    assert_eq!(EventMask::from_wire(8).strict(), Ok(Event::CreateContainer.into()));
    let error = EventMask::from_wire(0xc008).strict().unwrap_err();
    assert_eq!(error.to_string(), "invalid plugin events: 0xc000");
}

#[test]
fn a_mask_is_a_set() {
    let mut mask = EventMask::default();
    assert!(mask.is_empty());
    mask.insert(Event::StopContainer);
    mask.insert(Event::StopContainer);
    assert_eq!(mask, EventMask::from(Event::StopContainer));
    let both = mask | Event::CreateContainer;
    assert_eq!(both.iter().collect::<Vec<_>>(), [Event::CreateContainer, Event::StopContainer]);
    mask.remove(Event::StopContainer);
    assert!(mask.is_empty());
}

#[test]
fn a_mask_is_printed_by_number() {
    check_print(0x1801, "RunPodSandbox,UpdatePodSandbox,PostUpdatePodSandbox");
    check_print(0x2000, "ValidateContainerAdjustment");
    check_print(0x1_0001, "RunPodSandbox,unknown(0x10000)");
    check_print(0x1_0000, "unknown(0x10000)");
    assert_eq!(EventMask::EMPTY.to_string(), "");
}

#[test]
fn names_are_read_in_any_case_and_with_blanks_around_them() {
    check_parse("RunPodSandbox", "RunPodSandbox");
    check_parse("STOPCONTAINER,createcontainer", "CreateContainer,StopContainer");
    check_parse(" RunPodSandbox ,\tStopPodSandbox\n", "RunPodSandbox,StopPodSandbox");
    check_parse("StopContainer,StopContainer", "StopContainer");
}

#[test]
fn a_word_stands_for_many_events() {
    let pods = "RunPodSandbox,StopPodSandbox,RemovePodSandbox,UpdatePodSandbox,PostUpdatePodSandbox";
    let containers = "CreateContainer,PostCreateContainer,StartContainer,PostStartContainer,UpdateContainer,\
                      PostUpdateContainer,StopContainer,RemoveContainer,ValidateContainerAdjustment";
    check_parse("all", &EventMask::ALL.to_string());
    check_parse("Pod", pods);
    check_parse("podsandbox", pods);
    check_parse("container", containers);
    check_parse("pod,Container", &EventMask::ALL.to_string());
}

#[test]
fn anything_else_is_an_unknown_event() {
    check_unknown("", r#"unknown event """#);
    check_unknown("StopContainer,", r#"unknown event """#);
    check_unknown("Nap", r#"unknown event "nap""#);
    check_unknown("CreateContainer, Nap", r#"unknown event " nap""#);
    check_unknown(" all", r#"unknown event " all""#);
    check_unknown("pod ", r#"unknown event "pod ""#);
    check_unknown("unknown(0x4000)", r#"unknown event "unknown(0x4000)""#);
}

proptest! {
    #[test]
    fn reading_never_panics(text in "\\PC*", words in "[a-z, ]*") {
        let _ = text.parse::<EventMask>();
        let _ = words.parse::<EventMask>();
    }

    #[test]
    fn what_is_printed_can_be_read(bits in 1..=0x3fff) {
        let mask = EventMask::from_wire(bits).known;
        prop_assert_eq!(mask.to_string().parse(), Ok(mask));
        prop_assert_eq!(mask.to_wire(), Some(bits));
        prop_assert_eq!(mask.iter().collect::<EventMask>(), mask);
    }

    #[test]
    fn the_wire_loses_no_bit(wire in any::<i32>()) {
        prop_assume!(wire != 0);
        let WireEvents { known, unknown } = EventMask::from_wire(wire);
        prop_assert_eq!(known.to_wire().unwrap_or(0).cast_unsigned() | unknown, wire.cast_unsigned());
    }
}

#[track_caller]
fn check_print(wire: i32, expected: &str) {
    assert_eq!(EventMask::from_wire(wire).to_string(), expected);
}

#[track_caller]
fn check_parse(text: &str, expected: &str) {
    assert_eq!(text.parse::<EventMask>().unwrap().to_string(), expected);
}

#[track_caller]
fn check_unknown(text: &str, expected: &str) {
    assert_eq!(text.parse::<EventMask>().unwrap_err().to_string(), expected);
}
