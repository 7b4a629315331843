//! The runtime: it combines runc, the store and the calls to NRI.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow, bail};
use cri_domain::generator::Host;
use cri_domain::model::{
    ContainerConfig, ContainerRecord, ContainerStatus, Exit, PodConfig, PodRecord, PodState, PodStatus, ServerSettings,
};
use cri_domain::runtime::RuntimeError;
use cri_domain::store::MemoryStore;
use cri_domain::{CriDomain, CriHandle, Runtime as _, Store as _};
use nri_api::{Config, Happening, Nri};
use nri_proto::ContainerState;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};
use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio::sync::broadcast::Receiver;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::Options;
use crate::output::lines;
use crate::pod_file::{ContainerFile, PodFile};
use crate::runc::Runc;
use crate::spec::spec;

/// The time to read the remaining output of a container that has ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Node {
    pub(crate) nri: Nri,
    handle: CriHandle,
    store: Arc<MemoryStore>,
    runc: Arc<Runc>,
    /// The tasks that wait for containers to end.
    tasks: TaskTracker,
    /// Notified when a container has ended.
    ended: Arc<Notify>,
    happenings: tokio::sync::Mutex<Receiver<Happening>>,
    /// The directory of the bundles and of runc's state. It is removed on drop.
    _directory: tempfile::TempDir,
}

impl Node {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("mini-runtime").tempdir()?;
        let store = Arc::new(MemoryStore::default());
        let runc = Arc::new(Runc::new(directory.path()));
        let config = Config {
            runtime_name: "mini-runtime".to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            socket: options.socket.clone(),
            plugin_path: options.plugins.clone(),
            ..Config::default()
        };
        let nri = Nri::new(config);
        let happenings = tokio::sync::Mutex::new(nri.watch());
        let host = Host { allow: options.allow.clone(), ..Host::of_this_machine() };
        let host = match &options.blockio {
            Some(file) => host.with_blockio_file(file)?,
            None => host,
        };
        let (known, runs) = (Arc::clone(&store) as Arc<_>, Arc::clone(&runc) as Arc<_>);
        let domain = CriDomain::new(known, runs, host, ServerSettings::default());
        let handle = CriHandle::register(&nri, "mini", Arc::new(domain))?;
        let (tasks, ended) = (TaskTracker::new(), Arc::default());
        Ok(Self { nri, handle, store, runc, tasks, ended, happenings, _directory: directory })
    }

    /// Waits until this number of plugins has joined.
    pub(crate) async fn wait_for_plugins(&self, n_plugins: usize) -> Result<()> {
        let mut happenings = self.happenings.lock().await;
        let mut n_joined = 0;
        while n_joined < n_plugins {
            n_joined += usize::from(matches!(happenings.recv().await?, Happening::Joined { .. }));
        }
        Ok(())
    }

    /// Runs a pod. The pod is only a cgroup here: each container has its own namespaces.
    pub(crate) async fn run_pod(&self, file: &PodFile) -> Result<String> {
        let id = format!("{}-{}", file.name, std::process::id());
        let pod = PodRecord {
            id: id.clone(),
            config: PodConfig {
                name: file.name.clone(),
                uid: id.clone(),
                namespace: file.namespace.clone(),
                annotations: file.annotations.clone(),
                cgroup_parent: format!("/{id}"),
                ..PodConfig::default()
            },
            status: PodStatus { state: PodState::Ready, ..PodStatus::default() },
            ..PodRecord::default()
        };
        let run = self.handle.run_pod(&pod).await.context("plugins did not accept the pod")?;
        self.store.put_pod(pod);
        run.commit();
        print_event(&json!({"pod": id, "state": "running"}));
        Ok(id)
    }

    pub(crate) async fn create(&self, pod: &str, file: &ContainerFile, rootfs: &Path) -> Result<String> {
        let id = format!("{pod}-{}", file.name);
        let mut container = ContainerRecord {
            id: id.clone(),
            pod_id: pod.to_owned(),
            config: ContainerConfig {
                name: file.name.clone(),
                annotations: file.annotations.clone(),
                ..ContainerConfig::default()
            },
            spec: Some(Arc::new(spec(file, rootfs, &format!("/{pod}/{id}")))),
            ..ContainerRecord::default()
        };
        // If this function fails later, the guard is dropped, and plugins are notified that the
        // creation failed.
        let adjusted = self.handle.create_container(&mut container).await?;
        for (what, fields) in [("ignored", &adjusted.ignored), ("overridden", &adjusted.overridden)] {
            if !fields.is_empty() {
                let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
                print_event(&json!({"container": id, what: fields}));
            }
        }
        let spec = container.spec.clone().context("the record has a spec")?;
        let made = self.runc.create(&id, &spec).await?;
        container.status = ContainerStatus {
            state: ContainerState::Created,
            pid: made.pid,
            created_at: now(),
            ..ContainerStatus::default()
        };
        self.store.put_container(container);
        self.watch(&id, made)?;
        log_failure(&id, adjusted.creation.created(self.handle.container(&id)).await);
        print_event(&json!({"container": id, "state": "created"}));
        Ok(id)
    }

    pub(crate) async fn start(&self, id: &str) -> Result<()> {
        let start = self.handle.start_container(id).await?;
        self.runc.start(id).await?;
        self.store.change_container(id, &mut |record| {
            // The container may have ended already.
            if record.status.state == ContainerState::Created {
                record.status.state = ContainerState::Running;
            }
            record.status.started_at = now();
        });
        if self.handle.container(id).state == ContainerState::Running {
            print_event(&json!({"container": id, "state": "running"}));
        }
        log_failure(id, start.started(self.handle.container(id)).await);
        Ok(())
    }

    /// Prints the output of a container, and handles its exit.
    fn watch(&self, id: &str, made: crate::runc::CreatedContainer) -> Result<()> {
        let pid = Pid::from_raw(made.pid.try_into()?).context("a process has a number")?;
        let (stdout, stderr) = made.output;
        let mut outputs = JoinSet::new();
        outputs.spawn(print_output(id.to_owned(), stdout));
        outputs.spawn(print_output(id.to_owned(), stderr));
        let (handle, runc, ended, id) =
            (self.handle.clone(), Arc::clone(&self.runc), Arc::clone(&self.ended), id.to_owned());
        self.tasks.spawn(async move {
            let code = wait(pid).await.unwrap_or(255);
            // The output is printed before the exit, unless another process keeps the pipe open.
            let _ = timeout(DRAIN_TIMEOUT, async { while outputs.join_next().await.is_some() {} }).await;
            drop(outputs);
            handle.container_exited(&id, &Exit { code, at: now(), ..Exit::default() });
            runc.record_exit(&id);
            let reason = handle.container(&id).status_reason;
            print_event(&json!({"container": id, "state": "stopped", "exit_code": code, "reason": reason}));
            ended.notify_one();
        });
        Ok(())
    }

    /// Waits until all containers have ended.
    pub(crate) async fn all_ended(&self) {
        while self.store.containers().iter().any(|record| record.status.state != ContainerState::Stopped) {
            self.ended.notified().await;
        }
    }

    /// Stops and removes a pod with its containers. A step that fails does not prevent the others.
    pub(crate) async fn remove_pod(&self, pod: &str, grace: Duration) -> Result<()> {
        let mut failures = vec![];
        let containers: Vec<String> = self.store.containers().iter().map(|record| record.id.clone()).collect();
        for id in &containers {
            match self.runc.stop(id, grace).await {
                Ok(()) | Err(RuntimeError::Gone) => log_failure(id, self.handle.stop_container(id).await),
                Err(error) => failures.push(anyhow!(error).context(format!("could not stop {id}"))),
            }
        }
        self.store.change_pod(pod, |record| record.status.state = PodState::NotReady);
        log_failure(pod, self.handle.stop_pod(pod).await);
        for id in &containers {
            log_failure(id, self.handle.remove_container(id).await);
            failures.extend(self.runc.delete(id).await.err());
            self.store.remove_container(id);
        }
        log_failure(pod, self.handle.remove_pod(pod).await);
        self.store.remove_pod(pod);
        self.tasks.close();
        if timeout(2 * DRAIN_TIMEOUT, self.tasks.wait()).await.is_err() {
            failures.push(anyhow!("there are containers that have not ended"));
        }
        failures.extend(remove_cgroup(pod).err());
        if failures.is_empty() {
            print_event(&json!({"pod": pod, "state": "removed"}));
            return Ok(());
        }
        let failures: Vec<String> = failures.iter().map(|failure| format!("{failure:#}")).collect();
        bail!("could not remove all of pod {pod}: {}", failures.join("; "))
    }
}

/// Logs that a plugin failed to handle a notification. The operation itself has succeeded.
fn log_failure(id: &str, notified: Result<(), nri_api::Error>) {
    if let Err(error) = notified {
        tracing::warn!(id, error = &error as &dyn std::error::Error, "a plugin failed to handle a notification");
    }
}

/// Prints the output of a container line by line.
async fn print_output(id: String, output: impl AsyncRead + Unpin) {
    let read = lines(output, |line| print_event(&json!({"container": id, "said": line}))).await;
    if let Err(error) = read {
        tracing::warn!(id, error = &error as &dyn std::error::Error, "could not read the output of a container");
    }
}

/// Waits for the process of a container, and returns its exit code as a shell shows it.
async fn wait(pid: Pid) -> Result<i32> {
    let (sender, ended) = oneshot::channel();
    // A thread of tokio would delay the end of this program for a process that cannot be killed.
    std::thread::spawn(move || sender.send(wait_here(pid)));
    ended.await?
}

fn wait_here(pid: Pid) -> Result<i32> {
    loop {
        match waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                let signalled = status.terminating_signal().map(|signal| 128 + signal);
                return status.exit_status().or(signalled).context("the process has an exit status");
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes the cgroup of the pod. runc removes only those of containers.
fn remove_cgroup(pod: &str) -> Result<()> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = std::fs::read_dir(root)?.filter_map(Result::ok).map(|entry| entry.path());
    for hierarchy in hierarchies.chain([root.to_owned()]) {
        match std::fs::remove_dir(hierarchy.join(pod)) {
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(error.into());
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn print_event(event: &Value) {
    println!("{event}");
}
