//! Adds OCI hooks to containers, from the directories that podman and CRI-O use, like upstream's
//! plugin of this name.
//!
//! Each `*.json` file in `/usr/share/containers/oci/hooks.d` and `/etc/containers/oci/hooks.d`
//! defines one hook in the format of oci-hooks(5). A file in the second directory overrides a file
//! of the same name in the first. The directories are read for each container, unless
//! `--disableWatch` is given.
//!
//! `cargo run -p nri-plugin --example hook-injector -- --idx 10 --socket /var/run/nri/nri.sock`

mod definition;
mod directories;

use std::collections::BTreeMap;
use std::process::ExitCode;

use definition::{Definition, Subject};
use directories::Directories;
use nri_plugin::cli::{ParsedFlags, Program};
use nri_plugin::{Adjustment, Container, Context, CreateReply, Event, EventMask, Plugin, Pod, Refusal, async_trait};
use tracing::{debug, info};

fn main() -> ExitCode {
    Program::new("hook-injector", "adds OCI hooks to containers")
        .flag_or(
            "hooks-dir",
            "DIRS",
            "/usr/share/containers/oci/hooks.d:/etc/containers/oci/hooks.d",
            "directories of hooks, separated by colons; later ones hide files of earlier ones",
        )
        .switch("disableWatch", "read the directories once, and not again for each container")
        .main(HookInjector::new)
}

struct HookInjector {
    directories: Directories,
    /// The hooks read at the start, if `--disableWatch` is given.
    read: Option<Vec<Definition>>,
}

impl HookInjector {
    fn new(given: &ParsedFlags) -> Result<Self, Refusal> {
        let directories = Directories::from_list(given.value("hooks-dir").unwrap_or_default());
        let read = directories.read()?;
        Ok(Self { directories, read: given.is_set("disableWatch").then_some(read) })
    }
}

#[async_trait]
impl Plugin for HookInjector {
    fn events(&self) -> EventMask {
        Event::CreateContainer.into()
    }

    async fn create_container(&self, _: &Context, pod: Pod, container: Container) -> Result<CreateReply, Refusal> {
        let definitions = match &self.read {
            Some(definitions) => definitions.clone(),
            None => self.directories.read_what_can_be(),
        };
        // As in upstream's plugin, the annotations of the pod take precedence.
        let annotations: BTreeMap<_, _> = container.annotations.iter().chain(&pod.annotations).collect();
        let subject = Subject {
            annotations: &annotations,
            command: container.args.first().map(String::as_str),
            has_bind_mounts: !container.mounts.is_empty(),
        };
        let mut adjustment = Adjustment::default();
        let mut n_hooks = 0_usize;
        for definition in &definitions {
            if definition.is_for(&subject)? {
                definition.add_to(adjustment.hooks_mut());
                n_hooks += 1;
            }
        }
        if n_hooks == 0 {
            debug!(pod = pod.name, container = container.name, "no hooks to inject");
            return Ok(CreateReply::default());
        }
        info!(pod = pod.name, container = container.name, hooks = n_hooks, "OCI hooks injected");
        Ok(adjustment.into())
    }
}

#[cfg(test)]
mod tests;
