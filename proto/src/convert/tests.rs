use std::fmt::Debug;

use proptest::prelude::*;
use protobuf::{Enum, EnumOrUnknown, Message};

use super::{Translate, arbitrary};
use crate::model::*;
use crate::schema::{api, descriptor};

mod changes;
pub(crate) mod fill;

/// Four tests for each model type.
macro_rules! each_word {
    ($($name:ident: $model:ident is $message:ident),+ $(,)?) => {
        $(mod $name {
            use super::*;

            #[test]
            fn keeps_every_field_of_a_full_message() {
                check_message::<api::$message, $model>(fill::full());
            }

            #[test]
            fn gives_away_what_is_unknown_and_nothing_else() {
                let mut value = $model::from(fill::full::<api::$message>());
                let taken = value.take_unknown();
                assert_eq!(api::$message::from(value), fill::full_of_known());
                assert!(taken.contains(&Unread {
                    message: stringify!($message),
                    numbers: vec![1001, 1002, 1003, 1004],
                }));
            }

            proptest! {
                #[test]
                fn keeps_any_message_that_comes_from_the_wire(bytes in prop::collection::vec(any::<u8>(), 0..1024)) {
                    check_message::<api::$message, $model>(fill::random(bytes));
                }

                #[test]
                fn is_the_same_after_it_was_a_message(value in arbitrary::$name()) {
                    assert_eq!($model::from(api::$message::from(value.clone())), value);
                }
            }
        })+
    };
}

each_word! {
    pod: Pod is PodSandbox,
    linux_pod: LinuxPod is LinuxPodSandbox,
    container: Container is Container,
    image: Image is Image,
    user: User is User,
    rlimit: Rlimit is POSIXRlimit,
    mount: Mount is Mount,
    hooks: Hooks is Hooks,
    hook: Hook is Hook,
    linux_container: LinuxContainer is LinuxContainer,
    namespace: Namespace is LinuxNamespace,
    device: Device is LinuxDevice,
    device_rule: DeviceRule is LinuxDeviceCgroup,
    cdi_device: CdiDevice is CDIDevice,
    net_device: NetDevice is LinuxNetDevice,
    resources: Resources is LinuxResources,
    memory: Memory is LinuxMemory,
    cpu: Cpu is LinuxCPU,
    hugepage_limit: HugepageLimit is HugepageLimit,
    pids: Pids is LinuxPids,
    io_priority: IoPriority is LinuxIOPriority,
    scheduler: Scheduler is LinuxScheduler,
    security_profile: SecurityProfile is SecurityProfile,
    seccomp: Seccomp is LinuxSeccomp,
    syscall: Syscall is LinuxSyscall,
    syscall_arg: SyscallArg is LinuxSeccompArg,
    rdt: Rdt is LinuxRdt,
    memory_policy: MemoryPolicy is LinuxMemoryPolicy,
    adjustment: Adjustment is ContainerAdjustment,
    linux_adjustment: LinuxAdjustment is LinuxContainerAdjustment,
    env_var: EnvVar is KeyValue,
    update: Update is ContainerUpdate,
    linux_update: LinuxUpdate is LinuxContainerUpdate,
    eviction: Eviction is ContainerEviction,
    failure_policy: FailurePolicy is FailurePolicy,
    create_reply: CreateReply is CreateContainerResponse,
    update_reply: UpdateReply is UpdateContainerResponse,
    stop_reply: StopReply is StopContainerResponse,
    proposal: Proposal is ValidateContainerAdjustmentRequest,
    plugin_instance: PluginInstance is PluginInstance,
    verdict: Verdict is ValidateContainerAdjustmentResponse,
    owners: Owners is OwningPlugins,
    field_owners: FieldOwners is FieldOwners,
    entry_owners: EntryOwners is CompoundFieldOwners,
}

/// Encodes and decodes `message`, and converts it into a model type and back.
fn check_message<M: Message + Debug + From<W>, W: From<M>>(message: M) {
    let bytes = message.write_to_bytes().unwrap();
    let received = M::parse_from_bytes(&bytes).unwrap();
    assert_eq!(received, message, "the wire changed it");
    assert_eq!(M::from(W::from(received)), message, "the conversion changed it");
}

#[test]
fn each_variant_has_the_number_of_the_protocol() {
    use ContainerState as State;
    use MemoryPolicyMode as Mode;
    use SchedulerFlag as Flag;
    use SchedulerPolicy as Policy;

    check_numbers::<api::ContainerState, _>(&[
        State::Unknown,
        State::Created,
        State::Paused,
        State::Running,
        State::Stopped,
    ]);
    check_numbers::<api::security_profile::ProfileType, _>(&[
        ProfileKind::RuntimeDefault,
        ProfileKind::Unconfined,
        ProfileKind::Localhost,
    ]);
    check_numbers::<api::IOPrioClass, _>(&[
        IoPriorityClass::None,
        IoPriorityClass::RealTime,
        IoPriorityClass::BestEffort,
        IoPriorityClass::Idle,
    ]);
    check_numbers::<api::LinuxSchedulerPolicy, _>(&[
        Policy::None,
        Policy::Other,
        Policy::Fifo,
        Policy::RoundRobin,
        Policy::Batch,
        Policy::Iso,
        Policy::Idle,
        Policy::Deadline,
    ]);
    check_numbers::<api::LinuxSchedulerFlag, _>(&[
        Flag::ResetOnFork,
        Flag::Reclaim,
        Flag::DeadlineOverrun,
        Flag::KeepPolicy,
        Flag::KeepParams,
        Flag::UtilClampMin,
        Flag::UtilClampMax,
    ]);
    check_numbers::<api::MpolMode, _>(&[
        Mode::Default,
        Mode::Preferred,
        Mode::Bind,
        Mode::Interleave,
        Mode::Local,
        Mode::PreferredMany,
        Mode::WeightedInterleave,
    ]);
    check_numbers::<api::MpolFlag, _>(&[
        MemoryPolicyFlag::StaticNodes,
        MemoryPolicyFlag::RelativeNodes,
        MemoryPolicyFlag::NumaBalancing,
    ]);
    let fields: Vec<Field> = [Field::None].into_iter().chain(Field::all()).collect();
    check_numbers::<api::Field, _>(&fields);
}

/// Compares `variants`, in the order of their numbers, with those numbers and with the default.
fn check_numbers<E, W>(variants: &[W])
where
    E: Enum,
    W: Translate<EnumOrUnknown<E>> + Default + Copy + PartialEq + Debug,
    EnumOrUnknown<E>: Translate<W>,
{
    assert_eq!(variants.len(), E::VALUES.len());
    for (number, variant) in (0..).zip(variants) {
        assert_eq!((*variant).translate().value(), number, "{variant:?}");
        assert_eq!(EnumOrUnknown::from_i32(number).translate(), *variant);
    }
    assert_eq!(EnumOrUnknown::default().translate(), W::default());
}

#[test]
fn a_field_has_the_name_of_the_protocol() {
    let fields = descriptor::file().enum_by_package_relative_name("Field").unwrap();
    for field in Field::all() {
        let number: EnumOrUnknown<api::Field> = field.translate();
        let descriptor = fields.value_by_number(number.value()).unwrap();
        assert_eq!(field.to_string(), descriptor.name());
        assert_eq!(Field::named(descriptor.name()), Some(field));
    }
    let strange: Field = EnumOrUnknown::<api::Field>::from_i32(77).translate();
    assert_eq!(strange.to_string(), "77");
    assert_eq!(Field::named("None"), None);
}

#[test]
fn an_owner_with_a_dash_has_removed_what_it_owns() {
    let removed: Owner = "-10-a".to_owned().translate();
    assert_eq!(removed, Owner::of_removed(&"10-a".parse().unwrap()));

    let both: Owner = "10-a,20-b".to_owned().translate();
    assert_eq!(both, Owner::of(&"10-a".parse().unwrap()).and(&"20-b".parse().unwrap()));
    assert!(both.plugins().eq(["10-a", "20-b"]));
}

#[test]
fn a_number_without_a_name_stays_that_number() {
    let state: ContainerState = EnumOrUnknown::<api::ContainerState>::from_i32(77).translate();

    let ContainerState::Unnamed(unnamed) = state else { panic!("{state:?}") };
    assert_eq!(unnamed.number(), 77);
    assert_eq!(format!("{state:?}"), "Unnamed(77)");
}

#[test]
fn a_list_of_numbers_below_zero_survives_the_wire() {
    let scheduler = api::LinuxScheduler { flags: vec![EnumOrUnknown::from_i32(-1)], ..Default::default() };
    check_message::<_, Scheduler>(scheduler);

    let policy = api::LinuxMemoryPolicy { flags: vec![EnumOrUnknown::from_i32(-1)], ..Default::default() };
    check_message::<_, MemoryPolicy>(policy);
}

#[test]
fn a_field_that_has_another_name_here_is_still_that_field() {
    let overhead = api::LinuxResources { rdt_class: Some(text("overhead")).into(), ..Default::default() };
    let linux = LinuxPod::from(api::LinuxPodSandbox { pod_overhead: Some(overhead).into(), ..Default::default() });
    assert_eq!(linux.overhead.unwrap().rdt_class.as_deref(), Some("overhead"));

    let container = Container::from(api::Container {
        pod_sandbox_id: "pod".to_owned(),
        CDI_devices: vec![api::CDIDevice { name: "cdi".to_owned(), ..Default::default() }],
        ..Default::default()
    });
    assert_eq!(container.pod_id, "pod");
    assert_eq!(container.cdi_devices[0].name, "cdi");

    let mount = Mount::from(api::Mount { type_: "bind".to_owned(), ..Default::default() });
    assert_eq!(mount.kind, "bind");
}

fn text(value: &str) -> api::OptionalString {
    api::OptionalString { value: value.to_owned(), ..Default::default() }
}

#[test]
fn an_empty_message_is_not_an_absent_one() {
    let absent = api::PodSandbox::new();
    let empty = api::PodSandbox { linux: Some(api::LinuxPodSandbox::new()).into(), ..absent.clone() };

    assert_eq!(Pod::from(absent).linux, None);
    assert_eq!(Pod::from(empty).linux, Some(LinuxPod::default()));
}

#[test]
fn zero_is_not_the_same_as_not_set() {
    let memory = api::LinuxMemory { limit: Some(api::OptionalInt64::new()).into(), ..Default::default() };

    let memory = Memory::from(memory);
    assert_eq!(memory.limit, Some(0));
    assert_eq!(memory.swap, None);
}

#[test]
fn what_nobody_knows_yet_passes_through() {
    let mut message = api::PodSandbox::new();
    message.special_fields.mut_unknown_fields().add_varint(99, 7);

    let pod = Pod::from(message.clone());
    assert!(!pod.unknown.is_empty());
    assert_eq!(format!("{:?}", pod.unknown), "{99: Varint(7)}");
    assert_ne!(pod, Pod::default());
    assert_eq!(api::PodSandbox::from(pod), message);
}

/// A message with a wrapper that has a second field.
pub(crate) fn memory_with_a_strange_limit() -> api::LinuxMemory {
    let mut limit = api::OptionalInt64 { value: 5, ..Default::default() };
    limit.special_fields.mut_unknown_fields().add_varint(99, 7);
    api::LinuxMemory { limit: Some(limit).into(), ..Default::default() }
}

#[test]
fn a_second_field_of_a_wrapper_is_told_of() {
    let mut memory = Memory::from(memory_with_a_strange_limit());
    assert!(!memory.unknown.is_empty());
    assert_eq!(format!("{:?}", memory.unknown), r#"{"OptionalInt64": [99]}"#);
    assert_eq!(memory.take_unknown(), [Unread { message: "OptionalInt64", numbers: vec![99] }]);
    assert_eq!(memory, Memory { limit: Some(5), ..Memory::default() });
}

#[test]
fn a_value_of_another_kind_in_a_wrapper_is_told_of() {
    let mut swap = api::OptionalInt64::new();
    swap.special_fields.mut_unknown_fields().add_fixed64(1, 7);
    let message = api::LinuxMemory { swap: Some(swap).into(), ..Default::default() };
    assert_eq!(Memory::from(message).take_unknown()[0].to_string(), "OptionalInt64 1");
}
