use nri_proto::{
    Adjustment, Args, CreateReply, DeviceRule, EnvVar, Event, Eviction, Field, LinuxAdjustment, Memory, Namespace, Rdt,
    Resources, StopReply, Update, UpdateReply,
};

use super::*;

const OWN: &str = "own";

#[test]
fn where_nothing_is_said_all_is_allowed() {
    let allowed = Allowed::default();
    assert!(Field::all().all(|field| allowed.allows_field(field)));
    assert!(Event::ALL.into_iter().all(|event| allowed.allows_event(event)));
    assert!(allowed.allows_updates() && allowed.allows_evictions());
    let reply = CreateReply { updates: vec![limit("other")], evictions: vec![eviction()], ..adjusting(everything) };
    assert_eq!(allowed.check_create(&reply), Ok(()));
}

#[test]
fn to_limit_changes_does_not_limit_events_and_the_other_way_round() {
    let changes = read(r#"changes = ["Env"]"#);
    assert!(changes.allows_field(Field::Env) && !changes.allows_field(Field::Args));
    assert!(changes.allows_event(Event::RemoveContainer));
    assert!(!changes.allows_updates() && !changes.allows_evictions());

    let events = read(r#"events = ["CreateContainer", "pod"]"#);
    assert!(events.allows_event(Event::CreateContainer) && events.allows_event(Event::RunPodSandbox));
    assert!(!events.allows_event(Event::StopContainer));
    assert!(events.allows_field(Field::Args) && events.allows_updates() && events.allows_evictions());
}

#[test]
fn a_plugin_that_may_change_nothing_only_looks() {
    let allowed = read("changes = []");
    assert_eq!(allowed.check_create(&CreateReply::default()), Ok(()));
    assert_eq!(refusal(&allowed, everything), "it may not touch Annotations a (allow.changes)");
}

#[test]
fn each_field_that_is_touched_must_be_allowed() {
    let allowed = read(r#"changes = ["Annotations", "Env"]"#);
    let both = |adjustment: &mut Adjustment| {
        adjustment.annotations.set("a", "1").unwrap();
        adjustment.env.set(EnvVar::new("B", "2")).unwrap();
    };
    assert_eq!(allowed.check_create(&adjusting(both)), Ok(()));
    let and_args = |adjustment: &mut Adjustment| {
        both(adjustment);
        adjustment.args = Args::set(["sh"]).unwrap();
    };
    assert_eq!(refusal(&allowed, and_args), "it may not touch Args (allow.changes)");
}

#[test]
fn to_remove_is_to_touch() {
    let allowed = read(r#"changes = ["Args"]"#);
    assert_eq!(refusal(&allowed, |adjustment| adjustment.env.remove("A")), "it may not touch Env A (allow.changes)");
    assert_eq!(
        refusal(&allowed, |adjustment| linux(adjustment).sysctl.remove("k")),
        "it may not touch Sysctl k (allow.changes)"
    );
    let remove_rdt = |adjustment: &mut Adjustment| linux(adjustment).rdt = Some(Rdt { remove: true, ..Rdt::default() });
    assert_eq!(refusal(&allowed, remove_rdt), "it may not touch RdtClosID (allow.changes)");
    let remove_namespace = |adjustment: &mut Adjustment| linux(adjustment).namespaces.remove("network");
    assert_eq!(refusal(&allowed, remove_namespace), "it may not touch Namespace network (allow.changes)");
}

#[test]
fn rules_for_devices_are_devices() {
    let rules = |adjustment: &mut Adjustment| {
        let devices = vec![DeviceRule { allow: true, ..DeviceRule::default() }];
        linux(adjustment).resources = Some(Resources { devices, ..Resources::default() });
    };
    assert_eq!(refusal(&read(r#"changes = ["Resources"]"#), rules), "it may not touch Devices (allow.changes)");
    assert_eq!(read(r#"changes = ["Devices"]"#).check_create(&adjusting(rules)), Ok(()));
}

#[test]
fn resources_are_all_fields_that_an_update_may_set() {
    let allowed = read(r#"changes = ["Resources", "Updates"]"#);
    let fields: Vec<_> = Field::all().filter(|field| allowed.allows_field(*field)).collect();
    let is_resource = |name: &str| {
        name.starts_with("Mem") && name != "MemoryPolicy"
            || name.starts_with("CPU")
            || ["PidsLimit", "HugepageLimits", "BlockioClass", "RdtClass", "CgroupsUnified"].contains(&name)
    };
    assert!(fields.into_iter().eq(Field::all().filter(|field| is_resource(&field.to_string()))));
    assert_eq!(allowed.check_stop(&StopReply { updates: vec![limit("other")], ..StopReply::default() }), Ok(()));
}

#[test]
fn the_container_that_is_updated_is_not_another() {
    let allowed = read(r#"changes = ["MemLimit"]"#);
    let check = |container: &str| {
        let reply = UpdateReply { updates: vec![limit(container)], ..UpdateReply::default() };
        allowed.check_update(&reply, OWN).map_err(|error| error.to_string())
    };
    assert_eq!(check(OWN), Ok(()));
    assert_eq!(check("x"), Err("it may not update other containers, and updates x (allow.changes)".to_owned()));
}

#[test]
fn updates_of_others_are_limited_to_the_fields_that_are_allowed() {
    let allowed = read(r#"changes = ["PidsLimit", "Updates"]"#);
    let error = allowed.check_unasked(&[limit("x")], &[]).unwrap_err();
    assert_eq!(error, NotAllowed::Field { field: Field::MemLimit, key: String::new() });
    assert_eq!(allowed.check_unasked(&[Update::new("x", Resources::default())], &[]), Ok(()));
}

#[test]
fn evictions_are_allowed_by_name() {
    let error = read("changes = []").check_unasked(&[], &[eviction()]).unwrap_err();
    assert_eq!(error.to_string(), "it may not evict containers, and evicts victim (allow.changes)");
    let reply = UpdateReply { evictions: vec![eviction()], ..UpdateReply::default() };
    assert!(read(r#"changes = ["Updates"]"#).check_update(&reply, OWN).is_err());
    assert_eq!(read(r#"changes = ["Evictions"]"#).check_update(&reply, OWN), Ok(()));
}

#[test]
fn it_is_shown_as_it_is_written() {
    let show = |text: &str| {
        let line = with(read(text)).effective(&id("10-a"), NOTHING).to_string();
        let (_, shown) = line.split_once("allow=").unwrap();
        shown.split_once(" (").unwrap().0.to_owned()
    };
    assert_eq!(show(r#"changes = ["Env", "Resources", "Updates"]"#), "changes=[Env Resources Updates]");
    assert_eq!(
        show(
            r#"changes = ["MemLimit"]
                events = ["createcontainer"]"#
        ),
        "changes=[MemLimit] events=[CreateContainer]"
    );
    assert_eq!(show("changes = []"), "changes=[]");
}

/// Reads permissions as an operator writes them.
fn read(allow: &str) -> Allowed {
    let config = crate::Config::from_toml(&format!("[plugins.a.allow]\n{allow}")).unwrap();
    config.policies.effective(&id("10-a"), NOTHING).policy.allow
}

fn with(allow: Allowed) -> Policies {
    policies(PolicyRules { allow: Some(allow), ..PolicyRules::default() }, &[])
}

#[track_caller]
fn refusal(allowed: &Allowed, adjust: impl FnOnce(&mut Adjustment)) -> String {
    allowed.check_create(&adjusting(adjust)).expect_err("it was allowed").to_string()
}

fn adjusting(adjust: impl FnOnce(&mut Adjustment)) -> CreateReply {
    let mut adjustment = Adjustment::default();
    adjust(&mut adjustment);
    CreateReply { adjustment: Some(adjustment), ..CreateReply::default() }
}

fn everything(adjustment: &mut Adjustment) {
    adjustment.annotations.set("a", "1").unwrap();
    linux(adjustment).namespaces.set(Namespace { kind: "network".to_owned(), ..Namespace::default() }).unwrap();
}

fn linux(adjustment: &mut Adjustment) -> &mut LinuxAdjustment {
    adjustment.linux.get_or_insert_default()
}

fn limit(container: &str) -> Update {
    let memory = Some(Memory { limit: Some(1), ..Memory::default() });
    Update::new(container, Resources { memory, ..Resources::default() })
}

fn eviction() -> Eviction {
    Eviction { container_id: "victim".to_owned(), ..Eviction::default() }
}

#[test]
fn a_refusal_repeats_no_more_of_a_name_than_anyone_reads() {
    let allowed = read("changes = []");
    let long = "é".repeat(1 << 20);
    let told = refusal(&allowed, |adjustment| adjustment.annotations.set(&*long, "1").unwrap());
    assert!(told.starts_with("it may not touch Annotations éé") && told.len() < 5000, "{} bytes", told.len());
    for refused in [
        allowed.check_unasked(&[limit(&long)], &[]),
        allowed.check_unasked(&[], &[Eviction { container_id: long.clone(), ..eviction() }]),
    ] {
        assert!(refused.unwrap_err().to_string().len() < 5000);
    }
}
