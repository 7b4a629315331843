//! Adjusts containers from annotations of their pods: devices, CDI devices, mounts, I/O priority,
//! scheduling policy, network devices, kernel parameters and memory policy. Like upstream's plugin
//! of this name.
//!
//! Of several annotations of one kind, the most specific one counts: for the container, for the
//! pod, or without either.
//!
//! ```yaml
//! metadata:
//!   annotations:
//!     devices.noderesource.dev/container.app: |
//!       - { path: /dev/fuse, type: c, major: 10, minor: 229, file_mode: 0o666 }
//!     mounts.noderesource.dev/pod: |
//!       - { source: /srv/data, destination: /data, type: bind, options: [bind, ro] }
//!     cdi-devices.noderesource.dev: |
//!       - vendor.com/device=null
//! ```
//!
//! An unknown name, for example of a scheduling policy, is an error; upstream's plugin treats some
//! unknown names as "none".
//!
//! `cargo run -p nri-plugin --example device-injector -- --idx 10 --socket /var/run/nri/nri.sock`

mod annotated;

use std::process::ExitCode;

use annotated::{Annotated, Kind};
use nri_plugin::cli::Program;
use nri_plugin::{
    Adjustment, CdiDevice, Container, Context, CreateReply, Event, EventMask, NetDevice, Plugin, Pod, Refusal,
    async_trait,
};
use tracing::{debug, info};

fn main() -> ExitCode {
    Program::new("device-injector", "gives containers devices and more by annotations of their pods")
        .main(|_| Ok(DeviceInjector))
}

struct DeviceInjector;

#[async_trait]
impl Plugin for DeviceInjector {
    fn events(&self) -> EventMask {
        Event::CreateContainer.into()
    }

    async fn create_container(&self, _: &Context, pod: Pod, container: Container) -> Result<CreateReply, Refusal> {
        let annotated = Annotated { pod: &pod, container: &container };
        let adjustment = wanted(annotated)?;
        if adjustment == Adjustment::default() {
            debug!(pod = pod.name, container = container.name, "the container has no annotations");
            return Ok(CreateReply::default());
        }
        info!(pod = pod.name, container = container.name, "adjusted the container");
        debug!(?adjustment);
        Ok(adjustment.into())
    }
}

/// Returns the adjustment for all annotations of a container.
fn wanted(annotated: Annotated<'_>) -> Result<Adjustment, Refusal> {
    let mut adjustment = Adjustment::default();
    for device in annotated.read::<Vec<annotated::Device>>(Kind::Devices)?.unwrap_or_default() {
        adjustment.linux_mut().devices.set(device.into())?;
    }
    for name in annotated.read::<Vec<String>>(Kind::CdiDevices)?.unwrap_or_default() {
        adjustment.cdi_devices.push(CdiDevice::new(name));
    }
    for mount in annotated.read::<Vec<annotated::Mount>>(Kind::Mounts)?.unwrap_or_default() {
        adjustment.mounts.set(mount.into())?;
    }
    if let Some(priority) = annotated.read::<annotated::IoPriority>(Kind::IoPriority)? {
        adjustment.linux_mut().io_priority = Some(priority.try_into()?);
    }
    if let Some(scheduler) = annotated.read::<annotated::Scheduler>(Kind::Scheduler)? {
        adjustment.linux_mut().scheduler = Some(scheduler.try_into()?);
    }
    for device in annotated.read::<Vec<annotated::NetDevice>>(Kind::NetDevices)?.unwrap_or_default() {
        adjustment.linux_mut().net_devices.set(device.host, NetDevice::named(device.name))?;
    }
    for (key, value) in annotated.read::<annotated::Sysctl>(Kind::Sysctl)?.unwrap_or_default() {
        adjustment.linux_mut().sysctl.set(key, value)?;
    }
    if let Some(policy) = annotated.read::<annotated::MemoryPolicy>(Kind::MemoryPolicy)? {
        adjustment.linux_mut().memory_policy = Some(policy.try_into()?);
    }
    Ok(adjustment)
}

#[cfg(test)]
mod tests;
