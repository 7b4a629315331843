//! Mounts and namespaces in a container.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cri_domain::generator::adjust;
use nri_proto::{Mount, Namespace};

use crate::bundle::Bundle;

fn mount(destination: &str, kind: &str, source: &str, options: &[&str]) -> Mount {
    Mount {
        destination: destination.to_owned(),
        kind: kind.to_owned(),
        source: source.to_owned(),
        options: options.iter().map(|&option| option.to_owned()).collect(),
        ..Mount::default()
    }
}

#[test]
fn mounts_come_and_go_in_an_order_that_hides_none() {
    let Some(mut bundle) = Bundle::new() else { return };
    let shared = bundle.path().join("shared");
    fs::create_dir_all(shared.join("inner")).unwrap();
    fs::write(shared.join("file"), "from the host").unwrap();
    let source = shared.to_str().unwrap().to_owned();
    let mounts = &mut bundle.adjustment.mounts;
    // The inner mount is listed first, and the outer one would hide it.
    mounts.set(mount("/data/inner", "tmpfs", "tmpfs", &["size=64k"])).unwrap();
    mounts.set(mount("/data", "bind", &source, &["rbind", "ro"])).unwrap();
    mounts.remove("/tmp");
    let said = bundle.run(
        "cat /data/file; echo; echo x > /data/new || echo read-only; echo x > /data/inner/new && echo inner; \
         grep -c ' /tmp ' /proc/mounts; true",
    );
    assert_eq!(said, "from the host\nread-only\ninner\n0\n");
}

/// A directory from which mounts propagate.
struct Shared(PathBuf);

impl Shared {
    fn mounted(path: PathBuf) -> Option<Self> {
        fs::create_dir_all(&path).unwrap();
        let mounts =
            |args: &[&str]| Command::new("mount").args(args).arg(&path).status().is_ok_and(|status| status.success());
        let is_mounted = mounts(&["-t", "tmpfs", "tmpfs"]) && mounts(&["--make-shared"]);
        Some(Self(path)).filter(|_| is_mounted)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn what_is_to_propagate_does() {
    for (option, expected) in [("rslave", "master:"), ("rshared", "shared:")] {
        let Some(mut bundle) = Bundle::new() else { return };
        let shared = Shared::mounted(bundle.path().join("shared")).expect("root can mount");
        let source = shared.0.to_str().unwrap().to_owned();
        bundle.adjustment.mounts.set(mount("/data", "bind", &source, &["rbind", option])).unwrap();
        let said = bundle.run("grep ' /data ' /proc/self/mountinfo");
        assert!(said.contains(expected), "{option}: {said}");
    }
}

#[test]
fn a_namespace_is_shared_joined_and_new() {
    let Some(mut bundle) = Bundle::new() else { return };
    let own = |kind: &str| fs::read_link(format!("/proc/self/ns/{kind}")).unwrap().display().to_string();
    let joined = Namespace { kind: "uts".to_owned(), path: "/proc/self/ns/uts".to_owned(), ..Namespace::default() };
    bundle.spec.as_object_mut().unwrap().remove("hostname");
    bundle.linux().namespaces.remove("network");
    bundle.linux().namespaces.set(joined).unwrap();
    bundle.linux().namespaces.set(Namespace { kind: "cgroup".to_owned(), ..Namespace::default() }).unwrap();
    let said = bundle.run("for kind in net uts cgroup ipc; do readlink /proc/self/ns/$kind; done");
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said[..2], [own("net"), own("uts")]);
    assert_ne!(said[2], own("cgroup"));
    assert_ne!(said[3], own("ipc"));
}

#[test]
fn a_kernel_parameter_is_the_containers_own() {
    let Some(mut bundle) = Bundle::new() else { return };
    let file = "/proc/sys/net/ipv4/ip_local_port_range";
    let before = fs::read_to_string(file).unwrap();
    bundle.linux().sysctl.set("net.ipv4.ip_local_port_range", "12345 23456").unwrap();
    assert_eq!(bundle.run(&format!("cat {file}")), "12345\t23456\n");
    assert_eq!(fs::read_to_string(Path::new(file)).unwrap(), before);
}

/// A process in its own network namespace.
struct Elsewhere(Child);

impl Elsewhere {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo there && exec sleep 600"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        Self(child)
    }

    fn network(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[test]
fn d09_a_kernel_parameter_is_set_in_a_network_that_a_container_joins_unless_it_is_the_hosts() {
    let Some(mut bundle) = Bundle::new() else { return };
    let file = "/proc/sys/net/ipv4/ip_local_port_range";
    let before = fs::read_to_string(file).unwrap();
    let elsewhere = Elsewhere::new();
    bundle.linux().sysctl.set("net.ipv4.ip_local_port_range", "12345 23456").unwrap();
    let join = |path: &str| Namespace { kind: "network".to_owned(), path: path.to_owned(), ..Namespace::default() };
    bundle.linux().namespaces.replace(join(&elsewhere.network())).unwrap();
    let may_look = fs::metadata("/proc/1/ns/net").is_ok();
    let adjusted = adjust(&mut bundle.spec.clone(), &bundle.adjustment, &bundle.host);
    assert_eq!(adjusted.is_ok(), may_look, "without a look at the host's, none can be told from it");
    if !may_look {
        bundle.host.allow.sysctls = vec!["net.ipv4.ip_local_port_range".to_owned()];
    }
    assert_eq!(bundle.run(&format!("cat {file}")), "12345\t23456\n");

    bundle.host.allow.sysctls.clear();
    // A link to the namespace is recognized, too.
    let link = bundle.path().join("network");
    symlink("/proc/1/ns/net", &link).unwrap();
    for path in ["/proc/1/ns/net", link.to_str().unwrap(), "/proc/1/ns/nothing"] {
        bundle.linux().namespaces.replace(join(path)).unwrap();
        let error = adjust(&mut bundle.spec.clone(), &bundle.adjustment, &bundle.host).unwrap_err();
        assert_eq!(error.to_string(), r#"could not adjust Sysctl "net.ipv4.ip_local_port_range""#, "{path}");
    }
    assert_eq!(fs::read_to_string(file).unwrap(), before);
}
