//! Logs all events of pods and containers as YAML, like upstream's plugin of this name.
//!
//! With `--add-annotation`, `--set-annotation`, `--add-env` and `--set-env`, the plugin also marks
//! new containers, which shows the order of plugins. The configuration has the same settings:
//! `logFile`, `events`, `addAnnotation`, `setAnnotation`, `addEnv` and `setEnv`.
//!
//! `cargo run -p nri-plugin --example logger -- --idx 10 --socket /var/run/nri/nri.sock`

mod dump;
mod output;
mod settings;

use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dump::{Dump, dump};
use nri_plugin::cli::{self, ParsedFlags, Program};
use nri_plugin::proto::api;
use nri_plugin::{
    Adjustment, Container, Context, CreateReply, DashedKey, EnvVar, EventMask, Introduction, Plugin, Pod, Proposal,
    Refusal, Resources, StopReply, Update, UpdateReply, Verdict, async_trait,
};
use output::Output;
use settings::Settings;
use tracing::info;

fn main() -> ExitCode {
    Program::new("logger", "writes what happens to pods and containers into its log")
        .flag("events", "LIST", "events to subscribe to, separated by commas; all if not given")
        .flag("log-file", "FILE", "where to write, instead of to stderr")
        .flag("add-annotation", "KEY", "add this annotation to containers")
        .flag("set-annotation", "KEY", "set this annotation on containers, also if there is one")
        .flag("add-env", "NAME", "add this variable to containers")
        .flag("set-env", "NAME", "set this variable in containers, also if there is one")
        .main(Logger::new)
}

struct Logger {
    settings: Mutex<Settings>,
    output: Output,
}

impl Logger {
    fn new(given: &ParsedFlags) -> Result<Self, Refusal> {
        let settings = Settings::given(given)?;
        let output = Output::default();
        if !settings.log_file.is_empty() {
            output.open(&settings.log_file)?;
        }
        cli::log(given.verbosity(), output.clone());
        Ok(Self { settings: Mutex::new(settings), output })
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the annotations and variables that mark a container.
fn marks(settings: &Settings) -> Result<Adjustment, DashedKey> {
    let mark = format!("logger-pid-{}", std::process::id());
    let mut adjustment = Adjustment::default();
    if !settings.add_annotation.is_empty() {
        adjustment.annotations.set(&*settings.add_annotation, &*mark)?;
    }
    if !settings.set_annotation.is_empty() {
        adjustment.annotations.replace(&*settings.set_annotation, &*mark)?;
    }
    if !settings.add_env.is_empty() {
        adjustment.env.set(EnvVar::new(&*settings.add_env, &*mark))?;
    }
    if !settings.set_env.is_empty() {
        adjustment.env.replace(EnvVar::new(&*settings.set_env, &*mark))?;
    }
    Ok(adjustment)
}

#[async_trait]
impl Plugin for Logger {
    fn events(&self) -> EventMask {
        self.settings().events
    }

    async fn configure(&self, introduction: Introduction) -> Result<EventMask, Refusal> {
        let Introduction { config, runtime_name, runtime_version, .. } = introduction;
        info!(config, runtime = runtime_name, version = runtime_version, "got configuration data");
        if config.is_empty() {
            return Ok(self.events());
        }
        let before = self.settings().clone();
        let settings = before.clone().changed_by(&config)?;
        if settings.log_file != before.log_file {
            self.output.open(&settings.log_file)?;
        }
        let events = settings.events;
        *self.settings() = settings;
        Ok(events)
    }

    async fn synchronize(
        &self,
        _: &Context,
        pods: Vec<Pod>,
        containers: Vec<Container>,
    ) -> Result<Vec<Update>, Refusal> {
        dump("Synchronize", &[("pods", Dump::pods(pods)), ("containers", Dump::containers(containers))]);
        Ok(Vec::new())
    }

    async fn shutdown(&self) {
        dump("Shutdown", &[]);
    }

    async fn run_pod_sandbox(&self, _: &Context, pod: Pod) -> Result<(), Refusal> {
        about_pod("RunPodSandbox", pod)
    }

    async fn update_pod_sandbox(
        &self,
        _: &Context,
        pod: Pod,
        overhead: Option<Resources>,
        resources: Option<Resources>,
    ) -> Result<(), Refusal> {
        let (overhead, resources) = (Dump::resources(overhead), Dump::resources(resources));
        let all = [("pod", Dump::pod(pod)), ("overHeadResources", overhead), ("resources", resources)];
        dump("UpdatePodSandbox", &all);
        Ok(())
    }

    async fn post_update_pod_sandbox(&self, _: &Context, pod: Pod) -> Result<(), Refusal> {
        about_pod("PostUpdatePodSandbox", pod)
    }

    async fn stop_pod_sandbox(&self, _: &Context, pod: Pod) -> Result<(), Refusal> {
        about_pod("StopPodSandbox", pod)
    }

    async fn remove_pod_sandbox(&self, _: &Context, pod: Pod) -> Result<(), Refusal> {
        about_pod("RemovePodSandbox", pod)
    }

    async fn create_container(&self, _: &Context, pod: Pod, container: Container) -> Result<CreateReply, Refusal> {
        about_container("CreateContainer", pod, container)?;
        Ok(marks(&self.settings())?.into())
    }

    async fn post_create_container(&self, _: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        about_container("PostCreateContainer", pod, container)
    }

    async fn start_container(&self, _: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        about_container("StartContainer", pod, container)
    }

    async fn post_start_container(&self, _: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        about_container("PostStartContainer", pod, container)
    }

    async fn update_container(
        &self,
        _: &Context,
        pod: Pod,
        container: Container,
        resources: Option<Resources>,
    ) -> Result<UpdateReply, Refusal> {
        let (pod, container) = (Dump::pod(pod), Dump::container(container));
        dump("UpdateContainer", &[("pod", pod), ("container", container), ("resources", Dump::resources(resources))]);
        Ok(UpdateReply::default())
    }

    async fn post_update_container(&self, _: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        about_container("PostUpdateContainer", pod, container)
    }

    async fn stop_container(&self, _: &Context, pod: Pod, container: Container) -> Result<StopReply, Refusal> {
        about_container("StopContainer", pod, container)?;
        Ok(StopReply::default())
    }

    async fn remove_container(&self, _: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        about_container("RemoveContainer", pod, container)
    }

    async fn validate_container_adjustment(&self, _: &Context, proposal: Proposal) -> Result<Verdict, Refusal> {
        let request = Dump::of(api::ValidateContainerAdjustmentRequest::from(proposal));
        dump("ValidateContainerAdjustment", &[("request", request)]);
        Ok(Verdict::accept())
    }
}

fn about_pod(event: &str, pod: Pod) -> Result<(), Refusal> {
    dump(event, &[("pod", Dump::pod(pod))]);
    Ok(())
}

fn about_container(event: &str, pod: Pod, container: Container) -> Result<(), Refusal> {
    dump(event, &[("pod", Dump::pod(pod)), ("container", Dump::container(container))]);
    Ok(())
}

#[cfg(test)]
mod tests;
