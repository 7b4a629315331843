use nri_proto::Change;

use super::AllowlistError;
use crate::generator::host::{Host, NamespaceRef};

/// The kernel parameters of System V IPC. Each IPC namespace has its own values.
const OF_IPC: [&str; 8] = [
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
];

/// Returns the kind of namespace in which a kernel parameter has a value of its own. The list is
/// that of runc.
pub(in crate::generator) fn namespace_of(name: &str) -> Option<&'static str> {
    match &*name.replace('/', ".") {
        dotted if dotted.starts_with("net.") => Some("network"),
        dotted if dotted.starts_with("fs.mqueue.") || OF_IPC.contains(&dotted) => Some("ipc"),
        "kernel.domainname" | "kernel.hostname" => Some("uts"),
        _ => None,
    }
}

/// Refuses to set a kernel parameter of the host, or of a namespace that the container shares with
/// the host or may share. Removing a parameter is always allowed.
pub(in crate::generator) fn check_sysctl(
    name: &str,
    change: Change<&str>,
    namespaces: &[NamespaceRef<'_>],
    host: &Host,
) -> Result<(), AllowlistError> {
    if change == Change::Remove || host.allow.has_sysctl(name) {
        return Ok(());
    }
    let kind = namespace_of(name).ok_or(AllowlistError::Sysctl)?;
    let mut is_named = false;
    for namespace in namespaces.iter().filter(|namespace| namespace.kind == kind) {
        is_named = true;
        if is_the_hosts(*namespace, kind, host)? {
            return Err(AllowlistError::SharedNamespace { kind });
        }
    }
    if is_named { Ok(()) } else { Err(AllowlistError::SharedNamespace { kind }) }
}

fn is_the_hosts(namespace: NamespaceRef<'_>, kind: &'static str, host: &Host) -> Result<bool, AllowlistError> {
    if namespace.path.is_empty() {
        return Ok(false);
    }
    let is_the_hosts = match &host.is_host_namespace {
        Some(examine) => examine(namespace),
        None => Err("the host has no function that examines namespaces".into()),
    };
    is_the_hosts.map_err(|source| AllowlistError::UnknownNamespace { kind, path: namespace.path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::super::Allowlist;
    use super::*;

    fn new(kind: &str) -> NamespaceRef<'_> {
        NamespaceRef { kind, path: "" }
    }

    fn of_host(kind: &str) -> NamespaceRef<'_> {
        NamespaceRef { kind, path: "/host" }
    }

    /// Returns a host that recognizes its namespaces by path, and fails for unknown paths.
    fn host() -> Host {
        let examine = |namespace: NamespaceRef<'_>| match namespace.path {
            "/host" => Ok(true),
            "/pod" => Ok(false),
            _ => Err("permission denied".into()),
        };
        Host { is_host_namespace: Some(Box::new(examine)), ..Host::default() }
    }

    fn check(name: &str, namespaces: &[NamespaceRef<'_>]) -> Result<(), String> {
        check_sysctl(name, Change::Set("1"), namespaces, &host()).map_err(|error| error.to_string())
    }

    #[test]
    fn d09_a_parameter_of_the_host_is_refused() {
        let own = ["network", "ipc", "uts", "pid", "user", "mount", "cgroup", "time"].map(new);
        for name in [
            "kernel.core_pattern",
            "kernel/core_pattern",
            "kernel.modprobe",
            "kernel.shmmax.x",
            "kernel.sem_next_id",
            "kernel.ns_last_pid",
            "user.max_user_namespaces",
            "vm.overcommit_memory",
            "fs.file-max",
            "fs.mqueue",
            "network.a",
        ] {
            let expected = "this is a parameter of the host: plugins may set those that Host::allow.sysctls names";
            assert_eq!(check(name, &own).unwrap_err(), expected, "{name}");
            assert!(check_sysctl(name, Change::Remove, &own, &host()).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_parameter_of_a_namespace_is_set_where_the_container_has_its_own() {
        for (name, kind) in [
            ("net.ipv4.ip_forward", "network"),
            ("net/ipv4/conf/eth0.1/forwarding", "network"),
            ("kernel.shmmax", "ipc"),
            ("kernel/msgmni", "ipc"),
            ("kernel.sem", "ipc"),
            ("fs.mqueue.msg_max", "ipc"),
            ("kernel.domainname", "uts"),
            ("kernel.hostname", "uts"),
        ] {
            assert_eq!(check(name, &[new(kind)]), Ok(()), "{name}");
            assert_eq!(check(name, &[NamespaceRef { kind, path: "/pod" }]), Ok(()), "{name}");
            let shared = format!(
                "the container shares the {kind} namespace of the host: plugins may set those parameters of it that \
                 Host::allow.sysctls names"
            );
            for namespaces in [&[new("mount")][..], &[of_host(kind)], &[new(kind), of_host(kind)]] {
                assert_eq!(check(name, namespaces).unwrap_err(), shared, "{name}");
            }
        }
    }

    #[test]
    fn d09_a_namespace_that_cannot_be_examined_is_taken_for_the_hosts() {
        let unknown = NamespaceRef { kind: "network", path: "/proc/7/ns/net" };
        let expected = "could not tell the network namespace \"/proc/7/ns/net\" from that of the host: plugins may set \
            those parameters of it that Host::allow.sysctls names";
        assert_eq!(check("net.a", &[unknown]).unwrap_err(), expected);
        // Without a function that examines namespaces, the result is the same.
        let pod = NamespaceRef { kind: "network", path: "/pod" };
        assert!(check_sysctl("net.a", Change::Set("1"), &[pod], &Host::default()).is_err());
    }

    #[test]
    fn a_parameter_is_opened_by_its_name_and_no_other_with_it() {
        let sysctls = vec!["vm.max_map_count".to_owned(), "net.core.*".to_owned()];
        let host = Host { allow: Allowlist { sysctls, ..Allowlist::default() }, ..host() };
        let check = |name: &str| check_sysctl(name, Change::Set("1"), &[of_host("network")], &host).is_ok();
        assert!(check("vm.max_map_count") && check("vm/max_map_count") && check("net.core.somaxconn"));
        assert!(!check("vm.overcommit_memory") && !check("net.ipv4.ip_forward"));
    }
}
