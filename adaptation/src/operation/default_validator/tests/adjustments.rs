use nri_proto::{EnvVar, Hook, Hooks, LinuxContainer, Namespace, Seccomp, SecurityProfile};

use super::*;

fn default() -> DefaultValidator {
    DefaultValidator::default()
}

/// Returns a validator that forbids everything that it can forbid.
fn strict() -> DefaultValidator {
    DefaultValidator {
        enable: true,
        reject_oci_hook_adjustment: true,
        reject_runtime_default_seccomp_adjustment: true,
        reject_unconfined_seccomp_adjustment: true,
        reject_custom_seccomp_adjustment: true,
        reject_namespace_adjustment: true,
        reject_sysctl_adjustment: true,
        required_plugins: Vec::new(),
        tolerate_missing_plugins_annotation: String::new(),
    }
}

fn hooks() -> Adjustment {
    let hook = Hook { path: "/bin/true".to_owned(), ..Hook::default() };
    adjusting(|adjustment| adjustment.hooks = Some(Hooks { prestart: vec![hook], ..Hooks::default() }))
}

fn seccomp() -> Adjustment {
    adjusting_linux(|linux| linux.seccomp_policy = Some(Seccomp::default()))
}

fn namespace(kind: &str) -> Adjustment {
    let namespace = Namespace { kind: kind.to_owned(), ..Namespace::default() };
    adjusting_linux(|linux| linux.namespaces.set(namespace).unwrap())
}

fn sysctl(key: &str) -> Adjustment {
    adjusting_linux(|linux| linux.sysctl.set(key, "1").unwrap())
}

fn unsysctl(key: &str) -> Adjustment {
    adjusting_linux(|linux| linux.sysctl.remove(key))
}

/// Returns a container with a seccomp profile of this kind.
fn confined(kind: ProfileKind) -> Container {
    let seccomp_profile = Some(SecurityProfile { kind, ..SecurityProfile::default() });
    let linux = Some(LinuxContainer { seccomp_profile, ..LinuxContainer::default() });
    Container { linux, ..container() }
}

#[test]
fn without_options_nothing_is_forbidden() {
    for adjustment in [hooks(), seccomp(), namespace("network"), sysctl("a"), unsysctl("a")] {
        accepted(&default(), &proposal(container(), [("10-a", adjustment)]));
    }
}

#[test]
fn what_is_none_of_its_business_passes() {
    accepted(&strict(), &Proposal::default());
    let env = adjusting(|adjustment| adjustment.env.set(EnvVar::new("A", "1")).unwrap());
    accepted(&strict(), &proposal(container(), [("10-a", env), ("20-b", adjusting(|_| {}))]));
    accepted(&strict(), &proposal(container(), []));
}

#[test]
fn hooks_are_forbidden_with_the_names_of_all_who_added_some() {
    let validator = DefaultValidator { reject_oci_hook_adjustment: true, ..default() };
    rejected(
        &validator,
        &proposal(container(), [("10-a", hooks())]),
        r#"validation error: plugin "10-a" attempted restricted OCI hook injection"#,
    );
    rejected(
        &validator,
        &proposal(container(), [("10-a", hooks()), ("20-b", hooks())]),
        r#"validation error: plugins "10-a,20-b" attempted restricted OCI hook injection"#,
    );
}

#[test]
fn which_seccomp_policy_may_not_be_replaced_depends_on_whose_it_was() {
    let runtime_default = DefaultValidator { reject_runtime_default_seccomp_adjustment: true, ..default() };
    let unconfined = DefaultValidator { reject_unconfined_seccomp_adjustment: true, ..default() };
    let custom = DefaultValidator { reject_custom_seccomp_adjustment: true, ..default() };
    let text =
        |kind: &str| format!("validation error: plugin 10-a attempted restricted {kind} seccomp policy adjustment");
    for (validator, container, kind) in [
        (&runtime_default, confined(ProfileKind::RuntimeDefault), "runtime default"),
        (&unconfined, confined(ProfileKind::Unconfined), " unconfined"),
        (&unconfined, container(), " unconfined"),
        (&custom, confined(ProfileKind::Localhost), " custom"),
    ] {
        let proposal = proposal(container.clone(), [("10-a", seccomp())]);
        rejected(validator, &proposal, &text(kind));
        let others = [&runtime_default, &unconfined, &custom].into_iter().filter(|other| *other != validator);
        others.for_each(|other| accepted(other, &proposal));
    }
}

#[test]
fn namespaces_are_forbidden_in_order() {
    let validator = DefaultValidator { reject_namespace_adjustment: true, ..default() };
    rejected(
        &validator,
        &proposal(container(), [("10-a", namespace("pid")), ("20-b", namespace("network"))]),
        "validation error: attempted restricted namespace adjustment by plugin(s) \
         \"20-b\" (namespace \"network\"), \"10-a\" (namespace \"pid\")",
    );
}

#[test]
fn to_remove_a_namespace_is_to_adjust_it() {
    let validator = DefaultValidator { reject_namespace_adjustment: true, ..default() };
    let removal = adjusting_linux(|linux| linux.namespaces.remove("network"));
    rejected(
        &validator,
        &proposal(container(), [("10-a", removal)]),
        "validation error: attempted restricted namespace adjustment by plugin(s) \"10-a\" (namespace \"network\")",
    );
}

#[test]
fn sysctls_are_forbidden_in_order() {
    let validator = DefaultValidator { reject_sysctl_adjustment: true, ..default() };
    rejected(
        &validator,
        &proposal(container(), [("10-a", sysctl("b")), ("20-b", sysctl("a"))]),
        "validation error: attempted restricted sysctl adjustment by plugin(s) 20-b, 10-a",
    );
}

#[test]
fn u12_to_remove_a_sysctl_is_to_adjust_it() {
    let validator = DefaultValidator { reject_sysctl_adjustment: true, ..default() };
    let text = "validation error: attempted restricted sysctl adjustment by plugin(s) 20-b";
    rejected(&validator, &proposal(container(), [("20-b", unsysctl("kernel.shmmax"))]), text);

    let both = [("10-a", sysctl("kernel.shmmax")), ("20-b", unsysctl("kernel.shmmax"))];
    rejected(&validator, &proposal(container(), both), text);

    let replace = adjusting_linux(|linux| linux.sysctl.replace("kernel.shmmax", "1").unwrap());
    rejected(&validator, &proposal(container(), [("10-a", sysctl("kernel.shmmax")), ("20-b", replace)]), text);
}

#[test]
fn what_nobody_owns_up_to_is_forbidden_too() {
    let mut proposal = proposal(container(), [("10-a", sysctl("a"))]);
    proposal.owners = None;
    let text = "validation error: attempted restricted sysctl adjustment by plugin(s) unknown";
    rejected(&strict(), &proposal, text);
}

#[test]
fn the_first_objection_is_told_in_the_order_of_upstream() {
    let validator = DefaultValidator { required_plugins: vec!["x".to_owned()], ..strict() };
    let mut all = vec![hooks(), seccomp(), namespace("pid"), adjusting(|_| {}), sysctl("a")];
    for word in ["hook", "seccomp", "namespace", "required", "sysctl"] {
        let mut proposal = proposal(container(), ["10-a", "20-b", "30-c", "40-d", "50-e"].into_iter().zip(all.clone()));
        if word == "sysctl" {
            proposal.plugins.push((&id("99-x")).into());
        }
        let verdict = validator.validate(&proposal);
        assert!(verdict.rejection().unwrap().contains(word), "{word}: {verdict:?}");
        all.remove(0);
        if word == "namespace" {
            all.insert(0, adjusting(|_| {}));
        }
    }
}
