use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nri_proto::Change;

use super::Filtered;
use crate::generator::HostError;

/// A namespace that a container is in, as its spec names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InNamespace<'s> {
    /// What is separate in it, such as `network`.
    pub kind: &'s str,
    /// The file of one that exists; empty for a new one.
    pub path: &'s str,
}

impl InNamespace<'_> {
    /// Says whether it is the host's: by its path, or because the file is the same.
    fn is_the_hosts(&self) -> bool {
        if self.path.is_empty() {
            return false;
        }
        let parts: Vec<&str> = self.path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        matches!(parts[..], ["proc", "1" | "self" | "thread-self", "ns", ..]) || self.is_that_of_the_first_process()
    }

    fn is_that_of_the_first_process(&self) -> bool {
        let file = match self.kind {
            "network" => "net",
            "mount" => "mnt",
            kind => kind,
        };
        let id = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        let own = id(Path::new(self.path));
        own.is_some() && own == id(&Path::new("/proc/1/ns").join(file))
    }
}

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

/// Refuses kernel parameters that are the host's, or would be: those of a namespace that the container shares with it. To
/// remove one is no harm.
pub fn refuse_the_hosts(
    name: &str,
    change: Change<&str>,
    namespaces: &[InNamespace<'_>],
) -> Result<Filtered, HostError> {
    if change == Change::Remove {
        return Ok(Filtered::Kept);
    }
    let dotted = name.replace('/', ".");
    let has_own = |kind: &str| namespaces.iter().any(|namespace| namespace.kind == kind && !namespace.is_the_hosts());
    let is_own = |(prefix, kind): &(&str, &str)| dotted.starts_with(prefix) && has_own(kind);
    if OWN.iter().any(is_own) { Ok(Filtered::Kept) } else { Err("this is a parameter of the host".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(kind: &str) -> InNamespace<'_> {
        InNamespace { kind, path: "" }
    }

    #[test]
    fn d09_a_parameter_of_the_host_is_refused() {
        let own = [new("network"), new("ipc")];
        for name in ["net.ipv4.ip_forward", "net/ipv4/ip_forward", "kernel.shmmax", "fs.mqueue.msg_max"] {
            assert_eq!(refuse_the_hosts(name, Change::Set("1"), &own).unwrap(), Filtered::Kept, "{name}");
            let shared = [new("pid"), new("mount")];
            assert!(refuse_the_hosts(name, Change::Set("1"), &shared).is_err(), "{name} would be the host's");
        }
        for name in ["kernel.core_pattern", "vm.overcommit_memory", "kernel.hostname"] {
            assert!(refuse_the_hosts(name, Change::Replace("1"), &own).is_err(), "{name}");
            assert_eq!(refuse_the_hosts(name, Change::Remove, &own).unwrap(), Filtered::Kept, "{name}");
        }
    }

    #[test]
    fn d09_a_namespace_with_the_hosts_path_is_the_hosts() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("net");
        std::os::unix::fs::symlink("/proc/1/ns/net", &link).unwrap();
        let hosts = ["/proc/1/ns/net", "/proc/self/ns/net", "//proc/./thread-self/ns/net"].map(Path::new);
        // Where we may not look into the first process, a link to it cannot be told from another.
        let linked = fs::metadata(&link).is_ok().then_some(link.as_path());
        for path in hosts.into_iter().chain(linked) {
            let namespace = InNamespace { kind: "network", path: path.to_str().unwrap() };
            assert!(refuse_the_hosts("net.a", Change::Set("1"), &[namespace]).is_err(), "{}", path.display());
        }
        let another = InNamespace { kind: "network", path: "/run/netns/pod1" };
        assert_eq!(refuse_the_hosts("net.a", Change::Set("1"), &[another]).unwrap(), Filtered::Kept);
    }
}
