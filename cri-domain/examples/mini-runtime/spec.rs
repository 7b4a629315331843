use std::path::Path;

use serde_json::{Value, json};

use crate::pod_file::ContainerFile;

/// Returns the OCI spec of a container before plugins adjust it.
pub(crate) fn spec(container: &ContainerFile, rootfs: &Path, cgroup: &str) -> Value {
    let capabilities = json!(["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE"]);
    let mut env = vec!["PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned()];
    env.extend(container.env.iter().cloned());
    let mut spec = json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": container.args,
            "env": env,
            "cwd": "/",
            "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
            "noNewPrivileges": true,
        },
        "root": {"path": rootfs, "readonly": true},
        "annotations": container.annotations,
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]},
        ],
        "linux": {
            "cgroupsPath": cgroup,
            "resources": {"devices": [{"allow": false, "access": "rwm"}]},
            "namespaces": [
                {"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"},
            ],
        },
    });
    if let Some(limit) = container.memory_limit {
        spec["linux"]["resources"]["memory"] = json!({"limit": limit});
    }
    spec
}
