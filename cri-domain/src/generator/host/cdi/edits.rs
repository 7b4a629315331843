use nri_proto::{Adjustment, Device, EnvVar, Field, Hook, Hooks, LinuxAdjustment, Mount, NetDevice};
use rustix::fs::{FileType, Stat, major, minor, stat};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::generator::{Host, HostError, SpecError, devices, document, edit};

/// The edits that a device requires in a spec.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContainerEdits {
    env: Vec<String>,
    device_nodes: Vec<DeviceNode>,
    net_devices: Vec<HostNetDevice>,
    hooks: Vec<NamedHook>,
    mounts: Vec<HostMount>,
    intel_rdt: Option<Map<String, Value>>,
    additional_gids: Vec<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeviceNode {
    path: String,
    host_path: String,
    #[serde(rename = "type")]
    kind: String,
    major: i64,
    minor: i64,
    file_mode: Option<u32>,
    permissions: String,
    uid: Option<u32>,
    gid: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HostNetDevice {
    host_interface_name: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NamedHook {
    hook_name: String,
    path: String,
    args: Vec<String>,
    env: Vec<String>,
    timeout: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HostMount {
    host_path: String,
    container_path: String,
    options: Vec<String>,
    #[serde(rename = "type")]
    kind: String,
}

impl ContainerEdits {
    /// Applies the edits to a spec. Most of them are converted to an adjustment.
    pub(super) fn make(&self, spec: &mut Value) -> Result<(), HostError> {
        edit(spec, &self.adjustment()?, &Host::default())?;
        let document = document::root(spec)?;
        for node in &self.device_nodes {
            let owner = |id: &str| -> Option<u32> {
                let id = document.get("process")?.get("user")?.get(id)?.as_u64()?;
                u32::try_from(id).ok().filter(|id| *id > 0)
            };
            let device = node.device(owner("uid"), owner("gid"))?;
            devices::put(document, &device, node.access())?;
        }
        if let Some(rdt) = &self.intel_rdt {
            document::set(document, &["linux"], "intelRdt", rdt.clone())?;
        }
        for group in self.additional_gids.iter().filter(|group| **group != 0) {
            let groups = document::list(document, &["process", "user", "additionalGids"])?;
            let group = Value::from(*group);
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        Ok(())
    }

    fn adjustment(&self) -> Result<Adjustment, HostError> {
        let mut adjustment = Adjustment::default();
        for variable in &self.env {
            let (name, value) =
                variable.split_once('=').ok_or_else(|| format!("{variable:?} is not an environment variable"))?;
            adjustment.env.replace(EnvVar::new(name, value))?;
        }
        for HostMount { host_path, container_path, options, kind } in &self.mounts {
            adjustment.mounts.replace(Mount {
                destination: container_path.clone(),
                source: host_path.clone(),
                options: options.clone(),
                kind: kind.clone(),
                ..Mount::default()
            })?;
        }
        let mut hooks = Hooks::default();
        for NamedHook { hook_name, path, args, env, timeout } in &self.hooks {
            let moment = match hook_name.as_str() {
                "prestart" => &mut hooks.prestart,
                "createRuntime" => &mut hooks.create_runtime,
                "createContainer" => &mut hooks.create_container,
                "startContainer" => &mut hooks.start_container,
                "poststart" => &mut hooks.poststart,
                "poststop" => &mut hooks.poststop,
                other => return Err(format!("unknown hook name {other:?}").into()),
            };
            let (path, args, env, timeout) = (path.clone(), args.clone(), env.clone(), *timeout);
            moment.push(Hook { path, args, env, timeout, ..Hook::default() });
        }
        adjustment.hooks = Some(hooks);
        let mut linux = LinuxAdjustment::default();
        for HostNetDevice { host_interface_name, name } in &self.net_devices {
            linux.net_devices.replace(host_interface_name, NetDevice { name: name.clone(), ..NetDevice::default() })?;
        }
        adjustment.linux = Some(linux);
        Ok(adjustment)
    }
}

impl DeviceNode {
    fn access(&self) -> &str {
        match self.permissions.as_str() {
            "" => "rwm",
            "none" => "",
            permissions => permissions,
        }
    }

    /// Returns the device. Members that the file does not set are those of the device on the host.
    fn device(&self, uid: Option<u32>, gid: Option<u32>) -> Result<Device, HostError> {
        let Self { path, host_path, kind, major, minor, file_mode, permissions: _, uid: own_uid, gid: own_gid } = self;
        let mut device = Device {
            path: path.clone(),
            kind: kind.clone(),
            major: *major,
            minor: *minor,
            file_mode: *file_mode,
            uid: own_uid.or(uid),
            gid: own_gid.or(gid),
            ..Device::default()
        };
        let is_told = !kind.is_empty() && (*major != 0 || kind == "p");
        let on_host = if host_path.is_empty() { path } else { host_path };
        match stat(on_host.as_str()) {
            Ok(found) => {
                device.file_mode = device.file_mode.or(Some(found.st_mode & 0o7777));
                if !is_told {
                    complete(&mut device, &found)?;
                }
            }
            Err(_) if is_told => {}
            Err(error) => return Err(format!("could not examine device {on_host}: {error}").into()),
        }
        Ok(device)
    }
}

fn complete(device: &mut Device, found: &Stat) -> Result<(), SpecError> {
    let kinds = [(FileType::BlockDevice, "b"), (FileType::CharacterDevice, "c"), (FileType::Fifo, "p")];
    let found_kind = FileType::from_raw_mode(found.st_mode);
    let Some((_, kind)) = kinds.into_iter().find(|(kind, _)| *kind == found_kind) else {
        return Err(SpecError::refused(Field::Devices, &device.path, "the path on the host is not a device"));
    };
    if device.kind.is_empty() {
        device.kind = kind.to_owned();
    }
    if device.kind != kind {
        return Err(SpecError::refused(Field::Devices, &device.path, "the device on the host is of another kind"));
    }
    if kind != "p" && device.major == 0 {
        (device.major, device.minor) = (major(found.st_rdev).into(), minor(found.st_rdev).into());
    }
    Ok(())
}
