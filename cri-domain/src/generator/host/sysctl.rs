use super::Filtered;
use crate::generator::HostError;

/// Kernel parameters that a namespace has of its own, and the kind of namespace.
const OWN: [(&str, &str); 9] = [
    ("net.", "network"),
    ("kernel.shm", "ipc"),
    ("kernel.msg", "ipc"),
    ("kernel.sem", "ipc"),
    ("fs.mqueue.", "ipc"),
    ("kernel.domainname", "uts"),
    ("kernel.hostname", "uts"),
    ("user.", "user"),
    ("kernel.ns_last_pid", "pid"),
];

/// Refuses kernel parameters that are the host's, or would be: those of a namespace that the container shares with it.
pub fn refuse_the_hosts(name: &str, namespaces: &[&str]) -> Result<Filtered, HostError> {
    let dotted = name.replace('/', ".");
    let is_own = |(prefix, kind): &(&str, &str)| dotted.starts_with(prefix) && namespaces.contains(kind);
    if OWN.iter().any(is_own) { Ok(Filtered::Kept) } else { Err("this is a parameter of the host".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d09_a_parameter_of_the_host_is_refused() {
        let own = ["network", "ipc"];
        for name in ["net.ipv4.ip_forward", "net/ipv4/ip_forward", "kernel.shmmax", "fs.mqueue.msg_max"] {
            assert_eq!(refuse_the_hosts(name, &own).unwrap(), Filtered::Kept, "{name}");
            assert!(refuse_the_hosts(name, &["pid", "mount"]).is_err(), "{name} would be the host's");
        }
        for name in ["kernel.core_pattern", "vm.overcommit_memory", "kernel.hostname"] {
            assert!(refuse_the_hosts(name, &own).is_err(), "{name}");
        }
    }
}
