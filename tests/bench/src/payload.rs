//! The message that is relayed: a pod and a container as a busy cluster has them.
//!
//! The container has ten labels and annotations, thirty environment variables, fifteen mounts and
//! five devices: a bit more than a Go peer reads at once. Only this module makes the message: Go's
//! side gets it encoded in a file.

use std::collections::HashMap;

use nri_proto::api::{
    Container, ContainerState, Image, LinuxCPU, LinuxContainer, LinuxDevice, LinuxDeviceCgroup, LinuxMemory,
    LinuxNamespace, LinuxPodSandbox, LinuxResources, Mount, OptionalFileMode, OptionalInt, OptionalInt64,
    OptionalUInt32, OptionalUInt64, POSIXRlimit, PodSandbox, StartContainerRequest, User,
};
use protobuf::MessageField;

use crate::id::id;

const POD_UID: &str = "3d1f8a52-97c0-4b7e-8a6d-5f20c91be7a4";
const N_ENV: usize = 30;
const N_DEVICES: i64 = 5;

/// Returns the request from which all others are made.
pub(crate) fn request() -> StartContainerRequest {
    StartContainerRequest {
        pod: MessageField::some(pod()),
        container: MessageField::some(container()),
        ..StartContainerRequest::default()
    }
}

fn pod() -> PodSandbox {
    let uid = POD_UID.replace('-', "_");
    PodSandbox {
        id: id(0x9d, 0),
        name: "orders-api-5c8d7b9f4-kq2zn".to_owned(),
        uid: POD_UID.to_owned(),
        namespace: "shop".to_owned(),
        labels: map(&[
            ("app.kubernetes.io/name", "orders-api"),
            ("app.kubernetes.io/instance", "orders-api-prod"),
            ("app.kubernetes.io/version", "4.17.2"),
            ("app.kubernetes.io/component", "api"),
            ("app.kubernetes.io/part-of", "shop"),
            ("app.kubernetes.io/managed-by", "Helm"),
            ("pod-template-hash", "5c8d7b9f4"),
            ("topology.kubernetes.io/zone", "eu-central-1b"),
            ("team", "orders"),
            ("tier", "backend"),
        ]),
        annotations: map(&[
            ("kubernetes.io/config.seen", "2026-03-04T05:06:07.891011121Z"),
            ("kubernetes.io/config.source", "api"),
            ("kubectl.kubernetes.io/restartedAt", "2026-03-01T12:00:00Z"),
            ("kubectl.kubernetes.io/default-container", "api"),
            ("prometheus.io/scrape", "true"),
            ("prometheus.io/port", "9090"),
            ("prometheus.io/path", "/metrics"),
            ("checksum/config", "7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069"),
            ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"),
            ("sidecar.istio.io/inject", "false"),
        ]),
        runtime_handler: "runc".to_owned(),
        linux: MessageField::some(LinuxPodSandbox {
            cgroup_parent: format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice"),
            namespaces: namespaces(),
            ..LinuxPodSandbox::default()
        }),
        pid: 20417,
        ips: vec!["10.244.7.31".to_owned()],
        ..PodSandbox::default()
    }
}

fn container() -> Container {
    Container {
        id: id(0xc7, 0),
        pod_sandbox_id: id(0x9d, 0),
        name: "api".to_owned(),
        state: ContainerState::CONTAINER_CREATED.into(),
        labels: map(&[("io.kubernetes.container.name", "api"), ("io.kubernetes.pod.namespace", "shop")]),
        annotations: map(&[
            ("io.kubernetes.container.hash", "5be1c0a7"),
            ("io.kubernetes.container.restartCount", "0"),
            ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
        ]),
        args: strings(&["/usr/bin/orders-api", "--listen=:8080", "--config=/etc/orders/config.yaml"]),
        env: (0..N_ENV).map(env).collect(),
        mounts: mounts(),
        linux: MessageField::some(linux()),
        pid: 20533,
        rlimits: vec![POSIXRlimit {
            type_: "RLIMIT_NOFILE".to_owned(),
            hard: 1_048_576,
            soft: 1_048_576,
            ..POSIXRlimit::default()
        }],
        created_at: 1_772_600_767_891_011_121,
        user: MessageField::some(User { uid: 1000, gid: 1000, ..User::default() }),
        image: MessageField::some(Image {
            name: "registry.example.com/shop/orders-api:4.17.2".to_owned(),
            ..Image::default()
        }),
        ..Container::default()
    }
}

fn env(n: usize) -> String {
    const SERVICES: [&str; 6] = ["ORDERS", "BASKET", "BILLING", "STOCK", "PARCELS", "SEARCH"];
    let service = SERVICES[n % SERVICES.len()];
    match n / SERVICES.len() {
        0 => format!("{service}_SERVICE_HOST=10.96.20.{n}"),
        1 => format!("{service}_SERVICE_PORT=8080"),
        2 => format!("{service}_PORT=tcp://10.96.20.{n}:8080"),
        3 => format!("{service}_PORT_8080_TCP_PROTO=tcp"),
        _ => format!("{service}_PORT_8080_TCP_ADDR=10.96.20.{n}"),
    }
}

fn mounts() -> Vec<Mount> {
    let volume = |path: &str| format!("/var/lib/kubelet/pods/{POD_UID}/{path}");
    let sandbox = |path: &str| format!("/run/containerd/sandboxes/{}/{path}", id(0x9d, 0));
    let (rw, ro): (&[&str], &[&str]) = (&["rbind", "rprivate", "rw"], &["rbind", "rprivate", "ro"]);
    vec![
        mount("/proc", "proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount("/dev", "tmpfs", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount("/dev/pts", "devpts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "gid=5"]),
        mount("/dev/mqueue", "mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        mount("/sys", "sysfs", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        mount("/sys/fs/cgroup", "cgroup", "cgroup", &["nosuid", "noexec", "nodev", "relatime", "ro"]),
        mount("/dev/shm", "bind", &sandbox("shm"), rw),
        mount("/etc/hostname", "bind", &sandbox("hostname"), rw),
        mount("/etc/resolv.conf", "bind", &sandbox("resolv.conf"), rw),
        mount("/etc/hosts", "bind", &volume("etc-hosts"), rw),
        mount("/dev/termination-log", "bind", &volume("containers/api/5be1c0a7"), rw),
        mount("/etc/orders", "bind", &volume("volumes/kubernetes.io~configmap/config"), ro),
        mount("/var/cache/orders", "bind", &volume("volumes/kubernetes.io~empty-dir/cache"), rw),
        mount("/etc/tls", "bind", &volume("volumes/kubernetes.io~secret/tls"), ro),
        mount("/var/run/secrets", "bind", &volume("volumes/kubernetes.io~projected/kube-api-access"), ro),
    ]
}

fn mount(destination: &str, kind: &str, source: &str, options: &[&str]) -> Mount {
    Mount {
        destination: destination.to_owned(),
        type_: kind.to_owned(),
        source: source.to_owned(),
        options: strings(options),
        ..Mount::default()
    }
}

fn linux() -> LinuxContainer {
    let resources = LinuxResources {
        memory: MessageField::some(LinuxMemory { limit: int64(512 << 20), ..LinuxMemory::default() }),
        cpu: MessageField::some(LinuxCPU {
            shares: MessageField::some(OptionalUInt64 { value: 512, ..OptionalUInt64::default() }),
            quota: int64(50_000),
            period: MessageField::some(OptionalUInt64 { value: 100_000, ..OptionalUInt64::default() }),
            ..LinuxCPU::default()
        }),
        devices: (0..N_DEVICES).map(device_rule).collect(),
        ..LinuxResources::default()
    };
    LinuxContainer {
        namespaces: namespaces(),
        devices: (0..N_DEVICES).map(device).collect(),
        resources: MessageField::some(resources),
        oom_score_adj: MessageField::some(OptionalInt { value: 985, ..OptionalInt::default() }),
        cgroups_path: format!("kubepods-burstable.slice:cri-containerd:{}", id(0xc7, 0)),
        ..LinuxContainer::default()
    }
}

fn namespaces() -> Vec<LinuxNamespace> {
    let namespace = |kind: &str, path: &str| LinuxNamespace {
        type_: kind.to_owned(),
        path: path.to_owned(),
        ..LinuxNamespace::default()
    };
    vec![
        namespace("pid", ""),
        namespace("ipc", "/proc/20417/ns/ipc"),
        namespace("uts", "/proc/20417/ns/uts"),
        namespace("mount", ""),
        namespace("network", "/proc/20417/ns/net"),
        namespace("cgroup", ""),
    ]
}

fn device(n: i64) -> LinuxDevice {
    LinuxDevice {
        path: format!("/dev/accel{n}"),
        type_: "c".to_owned(),
        major: 261,
        minor: n,
        file_mode: MessageField::some(OptionalFileMode { value: 0o660, ..OptionalFileMode::default() }),
        uid: MessageField::some(OptionalUInt32::default()),
        gid: MessageField::some(OptionalUInt32 { value: 44, ..OptionalUInt32::default() }),
        ..LinuxDevice::default()
    }
}

fn device_rule(n: i64) -> LinuxDeviceCgroup {
    LinuxDeviceCgroup {
        allow: true,
        type_: "c".to_owned(),
        major: int64(261),
        minor: int64(n),
        access: "rwm".to_owned(),
        ..LinuxDeviceCgroup::default()
    }
}

fn int64(value: i64) -> MessageField<OptionalInt64> {
    MessageField::some(OptionalInt64 { value, ..OptionalInt64::default() })
}

fn map(entries: &[(&str, &str)]) -> HashMap<String, String> {
    entries.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn strings(of: &[&str]) -> Vec<String> {
    of.iter().map(|&one| one.to_owned()).collect()
}
