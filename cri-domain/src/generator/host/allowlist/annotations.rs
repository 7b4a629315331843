use super::{Allowlist, AllowlistError, matches};

/// The annotations that runtimes and shims use as settings, and the programs that use them. A
/// plugin that changes them could join its container to another pod's shim, lift its limits, give
/// it devices, or make systemd run a program on the host.
const SETTINGS: [(&str, &str); 27] = [
    ("io.containerd.*", "containerd's shims"),
    // containerd's shims group containers by these annotations, CRI-O and Kata restore containers
    // from them, and the kubelet uses them as names.
    ("io.kubernetes.*", "containerd, CRI-O and their shims"),
    ("*.crio.io", "CRI-O"),
    ("*.crio.io/*", "CRI-O"),
    ("*.crio.io.*", "CRI-O"),
    ("*.cri-o.io", "CRI-O"),
    ("*.cri-o.io/*", "CRI-O"),
    ("io.containers.*", "hooks of CRI-O and Podman"),
    ("io.container.manager", "Podman"),
    ("io.podman.annotations.*", "Podman"),
    ("org.systemd.property.*", "runc and crun, for systemd"),
    ("org.criu.config", "runc and crun"),
    ("org.opencontainers.*", "runc and CRI-O"),
    ("bundle", "runc"),
    ("run.oci.*", "crun"),
    ("krun.*", "crun"),
    ("module.wasm.image/*", "runtimes of WebAssembly"),
    ("io.katacontainers.*", "Kata Containers"),
    ("com.github.containers.virtcontainers.*", "Kata Containers"),
    ("dev.gvisor.*", "gVisor"),
    ("io.kuasar.*", "Kuasar"),
    ("aws.firecracker.*", "firecracker-containerd"),
    ("io.microsoft.*", "the shim of Windows"),
    ("com.urunc.*", "urunc"),
    ("nerdctl/*", "nerdctl's OCI hook"),
    // These runtimes add the devices that the annotation names, after plugins were asked. The
    // prefixes that NVIDIA's runtime reads are configurable: usual ones are `cdi.k8s.io/` and
    // `nvidia.cdi.k8s.io/`.
    ("cdi.k8s.io/*", "NVIDIA's runtime and Kata Containers"),
    ("*.cdi.k8s.io/*", "NVIDIA's runtime"),
];

/// Refuses to set or remove an annotation that runtimes or shims use as a setting.
pub(in crate::generator) fn check_annotation(key: &str, allow: &Allowlist) -> Result<(), AllowlistError> {
    // runc joins key and value with `=`, and reads the text before the first `=` as the key.
    let name = key.split('=').next().unwrap_or(key);
    let setting = SETTINGS.into_iter().find(|(pattern, _)| matches(pattern, name));
    match setting {
        Some((pattern, of)) if !allow.has_annotation(name) => Err(AllowlistError::Annotation { pattern, of }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d08_what_runtimes_and_shims_take_as_settings_is_refused() {
        for key in [
            "aws.firecracker.vm.id",
            "bundle",
            "bundle=/etc",
            "cdi.k8s.io/vfio17",
            "com.github.containers.virtcontainers.KernelPath",
            "com.urunc.unikernel.hypervisor",
            "cpu-load-balancing.crio.io",
            "dev.gvisor.flag.network",
            "nerdctl/state-dir",
            "dev.gvisor.spec.rootfs.source",
            "io.container.manager",
            "io.containerd.runc.v2.group",
            "io.containers.trace-syscall",
            "io.katacontainers.config.hypervisor.path",
            "io.kuasar.storages",
            "io.kubernetes.container.name",
            "io.kubernetes.cri-o.Devices",
            "io.kubernetes.cri-o.SandboxID",
            "io.kubernetes.cri.container-type",
            "io.kubernetes.cri.sandbox-id",
            "io.kubernetes.docker.type",
            "io.kubernetes.pod.uid",
            "io.microsoft.virtualmachine.lcow.kirddrivers",
            "io.podman.annotations.seccomp",
            "krun.variant",
            "nvidia.cdi.k8s.io/container.app",
            "module.wasm.image/variant",
            "org.criu.config",
            "org.criu.config=/tmp/criu.conf",
            "org.opencontainers.image.stopSignal",
            "org.systemd.property.ExecStartPre",
            "run.oci.hooks.stdout",
            "seccomp-profile.crio.io/app",
            "seccomp-profile.kubernetes.cri-o.io",
            "unified-cgroup.crio.io.app",
        ] {
            assert!(check_annotation(key, &Allowlist::default()).is_err(), "{key}");
            assert!(check_annotation(key, &Allowlist::everything()).is_ok(), "{key}");
        }
    }

    #[test]
    fn what_plugins_call_their_own_is_kept() {
        for key in [
            "bundled",
            "bundled=bundle",
            "cdi.k8s.io",
            "cdi.k8s.io.example.com/device",
            "color",
            "crio.io",
            "io.kubernetes",
            "logger-plugin",
            "memory-qos.nri.io/class",
            "nri.io/touched",
            "org.systemd",
            "topologyhints.resource-policy.nri.io",
        ] {
            assert!(check_annotation(key, &Allowlist::default()).is_ok(), "{key}");
        }
    }

    #[test]
    fn a_setting_is_opened_by_its_name_and_no_other_with_it() {
        let allow = Allowlist { annotations: vec!["io.katacontainers.*".to_owned()], ..Allowlist::default() };
        assert!(check_annotation("io.katacontainers.config.hypervisor.default_vcpus", &allow).is_ok());
        let error = check_annotation("io.kubernetes.cri.sandbox-id", &allow).unwrap_err();
        let expected = "annotations io.kubernetes.* are settings of containerd, CRI-O and their shims: \
            plugins may change those that Host::allow.annotations names";
        assert_eq!(error.to_string(), expected);
    }
}
