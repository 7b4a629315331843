//! The Task service: each container is a plain process group on the host.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use shim_plugins::events::Event;
use shim_plugins::process::{Exit, Process};
use shim_plugins::protobuf::well_known_types::timestamp::Timestamp;
use shim_plugins::protos::events::task::{TaskCreate, TaskDelete, TaskExit, TaskStart};
use shim_plugins::task::{TASK, Task, api};
use shim_plugins::ttrpc::r#async::TtrpcContext;
use shim_plugins::ttrpc::{self, Code};
use shim_plugins::{ExitRecord, PUBLISHER, Plugin, Provided, Publisher, REAPER, Reaper, SHUTDOWN, Shutdown};
use tokio::process::Command;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::bundle;
use crate::greeter::{GREETER, Greeter};
use crate::group::Group;

/// A shell script that stops itself, and becomes the program when it is continued.
const GATE: &str = "kill -STOP $$; exec \"$@\"";

/// Returns the plugin that serves Task.
pub(crate) fn plugin() -> Plugin {
    let asks = (PUBLISHER, SHUTDOWN, REAPER, GREETER.optional());
    Plugin::at(TASK).asks(asks).init(|_, (publisher, shutdown, reaper, greeter)| async move {
        let (containers, watches) = (Arc::default(), TaskTracker::new());
        let processes = Arc::new(Processes { publisher, shutdown, reaper, greeter, containers, watches });
        let ended = Arc::clone(&processes);
        let provided = Provided::new(Arc::clone(&processes) as Arc<dyn Task + Send + Sync>);
        Ok(provided.task(processes).on_shutdown(move || async move { ended.kill_all().await }))
    })
}

/// The Task service, with the containers that it runs.
struct Processes {
    publisher: Arc<Publisher>,
    shutdown: Arc<Shutdown>,
    reaper: Arc<Reaper>,
    greeter: Option<Arc<Greeter>>,
    containers: Containers,
    /// The tasks that report the ends of containers.
    watches: TaskTracker,
}

type Containers = Arc<Mutex<BTreeMap<String, Container>>>;

#[derive(Clone)]
struct Container {
    bundle: PathBuf,
    stdin: String,
    stdout: String,
    stderr: String,
    terminal: bool,
    process: Process,
    group: Group,
    is_started: bool,
}

fn refuse<T>(code: Code, text: impl Into<String>) -> ttrpc::Result<T> {
    Err(ttrpc::Error::RpcStatus(ttrpc::get_status(code, text.into())))
}

fn internal(act: &str) -> impl Fn(io::Error) -> ttrpc::Error + '_ {
    move |error| ttrpc::Error::RpcStatus(ttrpc::get_status(Code::INTERNAL, format!("could not {act}: {error}")))
}

/// Opens the input or the output of a process. It is opened for both directions, so that opening a
/// FIFO does not wait for the other end.
fn stdio(path: &str) -> io::Result<Stdio> {
    let path = if path.is_empty() { Path::new("/dev/null") } else { Path::new(path) };
    Ok(File::options().read(true).write(true).open(path)?.into())
}

impl Processes {
    fn container(&self, id: &str, exec_id: &str) -> ttrpc::Result<Container> {
        if !exec_id.is_empty() {
            return refuse(Code::NOT_FOUND, format!("there is no process {exec_id} in {id}"));
        }
        let found = self.containers.lock().get(id).cloned();
        found.map_or_else(|| refuse(Code::NOT_FOUND, format!("there is no container {id}")), Ok)
    }

    fn publish<E: Event>(&self, event: &E) {
        // The publisher has logged the loss, and the caller cannot do anything about it.
        let _ = self.publisher.publish(event);
    }

    /// Starts the program of a container, and returns when the process has stopped itself.
    async fn start_stopped(&self, request: &api::CreateTaskRequest) -> io::Result<Process> {
        let program = bundle::program(Path::new(&request.bundle))?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GATE, "hello"]).args(&program.args).env_clear();
        command.envs(program.env.iter().filter_map(|entry| entry.split_once('=')));
        command.stdin(stdio(&request.stdin)?).stdout(stdio(&request.stdout)?).stderr(stdio(&request.stderr)?);
        let process = self.reaper.spawn(command.process_group(0))?;
        let pid = Pid::from_raw(process.pid().cast_signed());
        while let Some(pid) = pid.filter(|_| process.exit().is_none()) {
            match rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG) {
                Ok(None) => tokio::time::sleep(Duration::from_millis(1)).await,
                Ok(Some(_)) | Err(_) => break,
            }
        }
        Ok(process)
    }

    /// Records and publishes the end of a container's process when it comes.
    fn watch(&self, id: String, bundle: PathBuf, mut process: Process) {
        let (containers, publisher) = (Arc::clone(&self.containers), Arc::clone(&self.publisher));
        self.watches.spawn(async move {
            let exit = process.wait().await;
            let record = ExitRecord { pid: process.pid(), exit };
            if let Err(error) = record.write(&bundle) {
                warn!(%error, id, "could not write an exit record");
            }
            let mut event = TaskExit::new();
            (event.container_id, event.id) = (id.clone(), id);
            (event.pid, event.exit_status) = (process.pid(), exit.status);
            event.exited_at = Some(Timestamp::from(exit.at)).into();
            // Under the lock, so that this event follows the event of the start.
            let _locked = containers.lock();
            let _ = publisher.publish(&event);
        });
    }

    async fn kill_all(&self) {
        let containers: Vec<_> = self.containers.lock().values().cloned().collect();
        for mut container in containers {
            container.group.kill().await;
            container.process.wait().await;
        }
        // Containerd may ask for the exits as soon as the connection is closed.
        self.watches.close();
        self.watches.wait().await;
    }
}

fn state(container: &Container) -> api::Status {
    match (container.process.exit(), container.is_started) {
        (Some(_), _) => api::Status::STOPPED,
        (None, true) => api::Status::RUNNING,
        (None, false) => api::Status::CREATED,
    }
}

fn exited_at(exit: Exit) -> Option<Timestamp> {
    Some(Timestamp::from(exit.at))
}

#[async_trait]
impl Task for Processes {
    async fn create(
        &self,
        _: &TtrpcContext,
        request: api::CreateTaskRequest,
    ) -> ttrpc::Result<api::CreateTaskResponse> {
        if self.containers.lock().contains_key(&request.id) {
            return refuse(Code::ALREADY_EXISTS, format!("there is a container {}", request.id));
        }
        if let Some(greeter) = &self.greeter {
            info!("{}", greeter.greet(&request.id));
        }
        let process = self.start_stopped(&request).await.map_err(internal("start the process"))?;
        let pid = process.pid();
        let bundle = PathBuf::from(&request.bundle);
        let group = Group::of(pid);
        if let Err(error) = bundle::write_group(&bundle, group) {
            group.kill().await;
            return Err(internal("store the process group")(error));
        }
        let mut event = TaskCreate::new();
        (event.container_id, event.bundle, event.pid) = (request.id.clone(), request.bundle, pid);
        event.rootfs = request.rootfs;
        let container = Container {
            bundle: bundle.clone(),
            stdin: request.stdin,
            stdout: request.stdout,
            stderr: request.stderr,
            terminal: request.terminal,
            process: process.clone(),
            group,
            is_started: false,
        };
        self.containers.lock().insert(request.id.clone(), container);
        self.publish(&event);
        self.watch(request.id, bundle, process);
        Ok(api::CreateTaskResponse { pid, ..Default::default() })
    }

    async fn start(&self, _: &TtrpcContext, request: api::StartRequest) -> ttrpc::Result<api::StartResponse> {
        let container = self.container(&request.id, &request.exec_id)?;
        let pid = container.process.pid();
        let mut containers = self.containers.lock();
        container.process.kill(Signal::CONT).map_err(internal("start the container"))?;
        if let Some(container) = containers.get_mut(&request.id) {
            container.is_started = true;
        }
        let mut event = TaskStart::new();
        (event.container_id, event.pid) = (request.id, pid);
        self.publish(&event);
        Ok(api::StartResponse { pid, ..Default::default() })
    }

    async fn state(&self, _: &TtrpcContext, request: api::StateRequest) -> ttrpc::Result<api::StateResponse> {
        let container = self.container(&request.id, &request.exec_id)?;
        let mut response = api::StateResponse::new();
        response.status = state(&container).into();
        (response.id, response.pid) = (request.id, container.process.pid());
        response.bundle = container.bundle.display().to_string();
        (response.stdin, response.stdout, response.stderr) = (container.stdin, container.stdout, container.stderr);
        response.terminal = container.terminal;
        if let Some(exit) = container.process.exit() {
            (response.exit_status, response.exited_at) = (exit.status, exited_at(exit).into());
        }
        Ok(response)
    }

    async fn wait(&self, _: &TtrpcContext, request: api::WaitRequest) -> ttrpc::Result<api::WaitResponse> {
        let mut container = self.container(&request.id, &request.exec_id)?;
        let exit = container.process.wait().await;
        let mut response = api::WaitResponse::new();
        (response.exit_status, response.exited_at) = (exit.status, exited_at(exit).into());
        Ok(response)
    }

    async fn kill(&self, _: &TtrpcContext, request: api::KillRequest) -> ttrpc::Result<api::Empty> {
        let container = self.container(&request.id, &request.exec_id)?;
        if container.process.exit().is_some() {
            return refuse(Code::NOT_FOUND, format!("the process of {} has ended", request.id));
        }
        let Some(signal) = Signal::from_named_raw(request.signal.cast_signed()) else {
            return refuse(Code::INVALID_ARGUMENT, format!("there is no signal {}", request.signal));
        };
        if request.all {
            container.group.signal(signal);
        } else {
            container.process.kill(signal).map_err(internal("send the signal"))?;
        }
        Ok(api::Empty::new())
    }

    async fn pids(&self, _: &TtrpcContext, request: api::PidsRequest) -> ttrpc::Result<api::PidsResponse> {
        let container = self.container(&request.id, "")?;
        let mut response = api::PidsResponse::new();
        response.processes.push(api::ProcessInfo { pid: container.process.pid(), ..Default::default() });
        Ok(response)
    }

    async fn delete(&self, _: &TtrpcContext, request: api::DeleteRequest) -> ttrpc::Result<api::DeleteResponse> {
        let container = self.container(&request.id, &request.exec_id)?;
        let Some(exit) = container.process.exit() else {
            return refuse(Code::FAILED_PRECONDITION, format!("the process of {} runs", request.id));
        };
        // Also end the processes that the first process left behind.
        container.group.kill().await;
        let pid = container.process.pid();
        if self.containers.lock().remove(&request.id).is_none() {
            return refuse(Code::NOT_FOUND, format!("there is no container {}", request.id));
        }
        let mut event = TaskDelete::new();
        (event.container_id, event.pid, event.exit_status) = (request.id, pid, exit.status);
        event.exited_at = exited_at(exit).into();
        self.publish(&event);
        let mut response = api::DeleteResponse::new();
        (response.pid, response.exit_status, response.exited_at) = (pid, exit.status, exited_at(exit).into());
        Ok(response)
    }

    async fn close_io(&self, _: &TtrpcContext, _: api::CloseIORequest) -> ttrpc::Result<api::Empty> {
        Ok(api::Empty::new())
    }

    async fn connect(&self, _: &TtrpcContext, request: api::ConnectRequest) -> ttrpc::Result<api::ConnectResponse> {
        let task_pid = self.containers.lock().get(&request.id).map_or(0, |container| container.process.pid());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(api::ConnectResponse { shim_pid: std::process::id(), task_pid, version, ..Default::default() })
    }

    async fn shutdown(&self, _: &TtrpcContext, _: api::ShutdownRequest) -> ttrpc::Result<api::Empty> {
        // Other containers of the group may still run.
        if self.containers.lock().is_empty() {
            self.shutdown.request();
        }
        Ok(api::Empty::new())
    }
}
