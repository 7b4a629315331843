//! A plugin on our SDK that writes down what it hears, a line of JSON for each thing, and obeys a
//! line of its standard input at a time:
//!
//! ```text
//! update ID…  asks the runtime to update these containers
//! evict ID    asks the runtime to evict a container
//! ```
//!
//! What it answers is said by arguments: see [`Settings::read`]. A runtime that launches it has
//! none, and says the same in its configuration. `tests/interop/peers/cmd/stubplugin` is its twin
//! on Go's stub.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it is for tests, which see how it ends")]

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nri_plugin::{
    Adjustment, Backoff, Connection, Container, Context, Cpu, CreateReply, EnvVar, Event, EventMask, Eviction, Field,
    Introduction, Options, Plugin, Pod, Proposal, Refusal, Resources, Runner, Runtime, StopReply, Update, UpdateReply,
    Verdict, async_trait,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The annotation of a pod whose containers are rejected, for the reason that is its value.
const REJECTING: &str = "storyteller/reject";

/// Longer than a test lets its runtime wait.
const LATE: Duration = Duration::from_secs(1);

/// Shorter than a test waits.
const HASTE: Duration = Duration::from_millis(300);

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::read(std::env::args().skip(1));
    let options = Options {
        name: settings.index.as_ref().map(|_| "storyteller".to_owned()),
        index: settings.index.clone(),
        connection: Connection::Found { path: settings.socket.clone() },
        sync_timeout: if settings.is_hasty { HASTE } else { Options::default().sync_timeout },
        reconnect: Some(Backoff { first: Duration::from_millis(10), most: Duration::from_millis(100) }),
        ..Options::default()
    };
    let plugin = Arc::new(Storyteller { settings: Mutex::new(settings) });
    let runner = Runner::new(Arc::clone(&plugin) as Arc<_>, options)?;
    let runtime = runner.runtime();
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        nri_plugin::stop_signal().await.unwrap();
        stop.cancel();
    });
    tokio::spawn(obey(Arc::clone(&plugin), runtime));
    runner.run(shutdown).await?;
    plugin.write(&json!({"heard": "Closed"}));
    Ok(())
}

/// What the plugin does, as far as it is not only to listen.
#[derive(Clone, Debug, Default)]
struct Settings {
    socket: Option<PathBuf>,
    index: Option<String>,
    /// Where to write to, if not to the standard output.
    diary: Option<PathBuf>,
    env: Vec<(String, String)>,
    /// What a reply asks for: event, container, and shares of a processor or a reason.
    updates: Vec<(String, String, String)>,
    evictions: Vec<(String, String, String)>,
    /// Events in which to ask for an update of the container, and to wait for the answer or not.
    call_back: Option<String>,
    call_back_later: Option<String>,
    refuse: Option<String>,
    /// The event that is answered too late.
    sleep: Option<String>,
    validates: bool,
    /// Whether it does not wait for long to be told what there is.
    is_hasty: bool,
}

impl Settings {
    fn read(mut words: impl Iterator<Item = String>) -> Self {
        let mut settings = Self::default();
        while let Some(flag) = words.next() {
            let mut value = || words.next().unwrap();
            match flag.as_str() {
                "--socket" => settings.socket = Some(value().into()),
                "--index" => settings.index = Some(value()),
                "--diary" => settings.diary = Some(value().into()),
                // NAME=VALUE
                "--env" => settings.env.push(cut(&value(), '=')),
                // EVENT:CONTAINER=VALUE
                "--update" => settings.updates.push(target(&value())),
                "--evict" => settings.evictions.push(target(&value())),
                "--call-back" => settings.call_back = Some(value()),
                "--call-back-later" => settings.call_back_later = Some(value()),
                "--refuse" => settings.refuse = Some(value()),
                "--sleep" => settings.sleep = Some(value()),
                "--validate" => settings.validates = true,
                "--hasty" => settings.is_hasty = true,
                other => panic!("no such flag: {other}"),
            }
        }
        settings
    }

    fn updates(&self, event: &str) -> Vec<Update> {
        let wanted = self.updates.iter().filter(|(when, ..)| when == event);
        wanted.map(|(_, container, shares)| update(container, shares.parse().unwrap())).collect()
    }

    fn evictions(&self, event: &str) -> Vec<Eviction> {
        let wanted = self.evictions.iter().filter(|(when, ..)| when == event);
        wanted.map(|(_, container, reason)| eviction(container, reason)).collect()
    }
}

fn cut(text: &str, at: char) -> (String, String) {
    let (before, after) = text.split_once(at).unwrap();
    (before.to_owned(), after.to_owned())
}

fn target(text: &str) -> (String, String, String) {
    let (event, rest) = cut(text, ':');
    let (container, value) = cut(&rest, '=');
    (event, container, value)
}

fn update(container: &str, shares: u64) -> Update {
    let cpu = Cpu { shares: Some(shares), ..Cpu::default() };
    Update::new(container, Resources { cpu: Some(cpu), ..Resources::default() })
}

fn eviction(container: &str, reason: &str) -> Eviction {
    Eviction { container_id: container.to_owned(), reason: reason.to_owned(), ..Eviction::default() }
}

/// Obeys until nobody has any more commands.
async fn obey(plugin: Arc<Storyteller>, runtime: Runtime) {
    let (commands, mut obeyed) = tokio::sync::mpsc::channel(1);
    // Not a task: nothing ends it but the end of the input, or of the process.
    std::thread::spawn(move || {
        io::stdin().lines().map_while(Result::ok).all(|line| commands.blocking_send(line).is_ok())
    });
    while let Some(line) = obeyed.recv().await {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["update", ref ids @ ..] => plugin.update(&runtime, ids).await,
            ["evict", id] => {
                runtime.update(Vec::new(), vec![eviction(id, "there is no room")]).await.unwrap();
                plugin.write(&json!({"evicted": id}));
            }
            _ => panic!("no such command: {line}"),
        }
    }
}

struct Storyteller {
    settings: Mutex<Settings>,
}

impl Storyteller {
    fn settings(&self) -> Settings {
        self.settings.lock().unwrap().clone()
    }

    fn write(&self, line: &Value) {
        let mut out: Box<dyn Write> = match self.settings().diary {
            Some(path) => Box::new(File::options().create(true).append(true).open(path).unwrap()),
            None => Box::new(io::stdout()),
        };
        // If nobody reads it any more, there is nobody to tell.
        let _ = out.write_all(format!("{line}\n").as_bytes());
    }

    async fn update(&self, runtime: &Runtime, ids: &[&str]) {
        let asked = ids.iter().map(|id| update(id, 123)).collect();
        let line = match runtime.update(asked, Vec::new()).await {
            Ok(failed) => {
                let failed: Vec<_> = failed.into_iter().map(|update| update.container_id).collect();
                json!({"updated": ids, "failed": failed})
            }
            Err(error) => json!({"updated": ids, "error": nri_plugin::chain(&error)}),
        };
        self.write(&line);
    }

    /// Writes an event down, and does what the settings say about it.
    async fn heard(
        &self,
        event: Event,
        context: &Context,
        pod: &Pod,
        container: Option<&Container>,
    ) -> Result<Settings, Refusal> {
        let mut line = json!({"heard": event.rpc(), "pod": pod.id});
        if let Some(container) = container {
            line["container"] = container.id.clone().into();
        }
        self.write(&line);
        let settings = self.settings();
        let is = |setting: &Option<String>| setting.as_deref() == Some(event.rpc());
        if is(&settings.refuse) {
            return Err(Refusal::new(format_args!("{event} is refused: what it needs does not exist")));
        }
        if is(&settings.sleep) {
            tokio::time::sleep(LATE).await;
        }
        if let Some(container) = container {
            if is(&settings.call_back) {
                self.update(&context.runtime(), &[&container.id]).await;
            }
            if is(&settings.call_back_later) {
                let (plugin, runtime) = (Self { settings: Mutex::new(settings.clone()) }, context.runtime());
                let id = container.id.clone();
                tokio::spawn(async move { plugin.update(&runtime, &[&id]).await });
            }
        }
        Ok(settings)
    }
}

#[async_trait]
impl Plugin for Storyteller {
    fn events(&self) -> EventMask {
        let validates = self.settings().validates;
        EventMask::ALL.iter().filter(|event| validates || *event != Event::ValidateContainerAdjustment).collect()
    }

    async fn configure(&self, introduction: Introduction) -> Result<EventMask, Refusal> {
        if !introduction.config.is_empty() {
            *self.settings.lock().unwrap() = Settings::read(introduction.config.split_whitespace().map(str::to_owned));
        }
        self.write(&json!({
            "heard": "Configure",
            "runtime": introduction.runtime_name,
            "version": introduction.runtime_version,
            "nri": introduction.nri_version,
            "registration_timeout_ms": introduction.registration_timeout.as_millis() as u64,
            "request_timeout_ms": introduction.request_timeout.as_millis() as u64,
        }));
        Ok(self.events())
    }

    async fn synchronize(
        &self,
        _: &Context,
        pods: Vec<Pod>,
        containers: Vec<Container>,
    ) -> Result<Vec<Update>, Refusal> {
        let env: usize = containers.iter().flat_map(|container| &container.env).map(String::len).sum();
        let (pods, containers) = (pods.len(), containers.len());
        self.write(&json!({"heard": "Synchronize", "pods": pods, "containers": containers, "env_bytes": env}));
        Ok(self.settings().updates("Synchronize"))
    }

    async fn shutdown(&self) {
        self.write(&json!({"heard": "Shutdown"}));
    }

    async fn run_pod_sandbox(&self, context: &Context, pod: Pod) -> Result<(), Refusal> {
        self.heard(Event::RunPodSandbox, context, &pod, None).await.map(drop)
    }

    async fn update_pod_sandbox(
        &self,
        context: &Context,
        pod: Pod,
        _: Option<Resources>,
        _: Option<Resources>,
    ) -> Result<(), Refusal> {
        self.heard(Event::UpdatePodSandbox, context, &pod, None).await.map(drop)
    }

    async fn post_update_pod_sandbox(&self, context: &Context, pod: Pod) -> Result<(), Refusal> {
        self.heard(Event::PostUpdatePodSandbox, context, &pod, None).await.map(drop)
    }

    async fn stop_pod_sandbox(&self, context: &Context, pod: Pod) -> Result<(), Refusal> {
        self.heard(Event::StopPodSandbox, context, &pod, None).await.map(drop)
    }

    async fn remove_pod_sandbox(&self, context: &Context, pod: Pod) -> Result<(), Refusal> {
        self.heard(Event::RemovePodSandbox, context, &pod, None).await.map(drop)
    }

    async fn create_container(
        &self,
        context: &Context,
        pod: Pod,
        container: Container,
    ) -> Result<CreateReply, Refusal> {
        let settings = self.heard(Event::CreateContainer, context, &pod, Some(&container)).await?;
        let mut adjustment = Adjustment::default();
        for (name, value) in &settings.env {
            adjustment.env.set(EnvVar::new(name, value))?;
        }
        Ok(CreateReply {
            adjustment: Some(adjustment),
            updates: settings.updates("CreateContainer"),
            evictions: settings.evictions("CreateContainer"),
            ..CreateReply::default()
        })
    }

    async fn post_create_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        self.heard(Event::PostCreateContainer, context, &pod, Some(&container)).await.map(drop)
    }

    async fn start_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        self.heard(Event::StartContainer, context, &pod, Some(&container)).await.map(drop)
    }

    async fn post_start_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        self.heard(Event::PostStartContainer, context, &pod, Some(&container)).await.map(drop)
    }

    async fn update_container(
        &self,
        context: &Context,
        pod: Pod,
        container: Container,
        resources: Option<Resources>,
    ) -> Result<UpdateReply, Refusal> {
        let settings = self.heard(Event::UpdateContainer, context, &pod, Some(&container)).await?;
        if let Some(shares) = resources.and_then(|resources| resources.cpu?.shares) {
            self.write(&json!({"limits": {"cpu_shares": shares}}));
        }
        Ok(UpdateReply {
            updates: settings.updates("UpdateContainer"),
            evictions: settings.evictions("UpdateContainer"),
            ..UpdateReply::default()
        })
    }

    async fn post_update_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        self.heard(Event::PostUpdateContainer, context, &pod, Some(&container)).await.map(drop)
    }

    async fn stop_container(&self, context: &Context, pod: Pod, container: Container) -> Result<StopReply, Refusal> {
        let settings = self.heard(Event::StopContainer, context, &pod, Some(&container)).await?;
        Ok(StopReply { updates: settings.updates("StopContainer"), ..StopReply::default() })
    }

    async fn remove_container(&self, context: &Context, pod: Pod, container: Container) -> Result<(), Refusal> {
        self.heard(Event::RemoveContainer, context, &pod, Some(&container)).await.map(drop)
    }

    async fn validate_container_adjustment(&self, _: &Context, proposal: Proposal) -> Result<Verdict, Refusal> {
        let Proposal { pod, container, adjustment, updates, owners, plugins, unknown: _ } = proposal;
        let (pod, container) = (pod.unwrap_or_default(), container.unwrap_or_default());
        let names: Vec<String> =
            adjustment.iter().flat_map(|all| all.env.iter()).map(|(name, _)| name.to_owned()).collect();
        let owner = |name: &String| {
            Some(owners.as_ref()?.owner(&container.id, Field::Env, name)?.plugins().collect::<Vec<_>>().join(","))
        };
        self.write(&json!({
            "heard": Event::ValidateContainerAdjustment.rpc(),
            "container": container.id,
            "plugins": plugins.iter().map(|plugin| format!("{}-{}", plugin.index, plugin.name)).collect::<Vec<_>>(),
            "owners": names.iter().map(|name| json!([name, owner(name)])).collect::<Vec<_>>(),
            "updates": updates.iter().map(|update| update.container_id.clone()).collect::<Vec<_>>(),
        }));
        match pod.annotations.get(REJECTING) {
            Some(reason) => Ok(Verdict::reject(reason)),
            None => Ok(Verdict::accept()),
        }
    }
}
