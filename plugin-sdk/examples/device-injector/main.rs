//! Gives containers what their pod's annotations ask for: devices, CDI devices, mounts, an I/O priority, a scheduling policy, network devices, kernel
//! parameters and a memory policy. What upstream's plugin of this name does.
//!
//! Of each kind one annotation counts, the most precise: that of the container, that of the pod, that without either.
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
//! A name that is none, such as that of a scheduling policy, is refused; upstream takes some of these for "none".
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
            debug!(pod = pod.name, container = container.name, "nothing is annotated");
            return Ok(CreateReply::default());
        }
        info!(pod = pod.name, container = container.name, "injected what is annotated");
        debug!(?adjustment);
        Ok(adjustment.into())
    }
}

/// All that is annotated.
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
