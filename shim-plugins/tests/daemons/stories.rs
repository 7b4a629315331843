//! The stories that are tested under each daemon.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use shim_plugins::protobuf::Message as _;
use shim_plugins::protobuf::well_known_types::wrappers::StringValue;
use shim_plugins::protos::shim_async::TaskClient;
use shim_plugins::task::api::{DeleteRequest, KillRequest, ShutdownRequest};
use shim_plugins::ttrpc::asynchronous::Client;
use shim_plugins::ttrpc::asynchronous::transport::Socket;
use shim_plugins::ttrpc::{self, Code, Request, context};

use crate::daemon::{Daemon, lives, until, zombies_of};

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Removes a container that has ended.
fn remove(daemon: &Daemon, id: &str) {
    daemon.ctr_ok(&["task", "rm", id]);
    daemon.ctr_ok(&["container", "rm", id]);
}

fn is_stopped(daemon: &Daemon, id: &str) -> bool {
    daemon.task(id).is_some_and(|(_, state)| state == "STOPPED")
}

pub(crate) fn a_container_runs_and_its_output_code_and_events_arrive(daemon: &mut Daemon) {
    let events = daemon.events();
    let output = daemon.run(&["--rm"], "c1", &["sh", "-c", "echo to stdout; echo to stderr >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}\n{}", daemon.log());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "to stdout\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("to stderr\n"));
    until("the events come", || events.topics().len() >= 4);
    assert_eq!(events.topics(), ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"]);
}

pub(crate) fn its_own_service_is_served_beside_task(daemon: &mut Daemon) {
    let config = daemon.path("hello.toml");
    fs::write(&config, "[plugins.\"io.containerd.ttrpc.v1.hello\"]\ngreeting = \"good morning\"\n").unwrap();
    let flags = ["--runtime-config-path", config.to_str().unwrap()];
    daemon.run_detached(&flags, "c1", "exec sleep 1000");
    assert_eq!(daemon.socket("c1"), daemon.socket_to_be("c1"));
    let address = format!("unix://{}", daemon.socket("c1").display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (greeting, missing) = runtime.block_on(async {
        let client = Client::new(Socket::connect(&address).await.unwrap());
        let name = StringValue { value: "world".to_owned(), ..Default::default() };
        let call = |service: &str, method: &str| Request {
            service: service.to_owned(),
            method: method.to_owned(),
            payload: name.write_to_bytes().unwrap(),
            timeout_nano: 10_000_000_000,
            ..Default::default()
        };
        let greeting = client.request(call("hello.v1.Hello", "Greet")).await.unwrap();
        let missing = client.request(call("containerd.runtime.sandbox.v1.Sandbox", "StartSandbox")).await.unwrap_err();
        (StringValue::parse_from_bytes(&greeting.payload).unwrap().value, missing)
    });
    assert_eq!(greeting, "good morning, world");
    assert!(missing.to_string().contains(&format!("{:?}", Code::UNIMPLEMENTED)), "{missing}");
    daemon.ctr_ok(&["task", "kill", "-s", "KILL", "c1"]);
    until("it ends", || is_stopped(daemon, "c1"));
    remove(daemon, "c1");
}

#[cfg(feature = "grpc")]
pub(crate) fn go_calls_over_grpc_what_containerd_calls_over_ttrpc(daemon: &mut Daemon) {
    let Some(caller) = crate::caller::caller() else { return };
    daemon.shim = "grpc_shim";
    daemon.run_detached(&[], "c1", "exec sleep 1000");
    let tcp = fs::read_to_string(daemon.bundle("c1").join("io.containerd.grpc.v1.hello/address")).unwrap();
    let questions = [
        serde_json::json!({ "method": "/hello.v1.Hello/Greet", "text": "world" }),
        serde_json::json!({ "method": "/containerd.task.v3.Task/State", "text": "c1" }),
    ];
    let answer = |code: &str, text: &str| (code.to_owned(), text.to_owned());
    let answers = crate::caller::ask(&caller, &format!("unix://{}", daemon.socket("c1").display()), &questions);
    // The first field of the state is the id of the container.
    assert_eq!(answers, [answer("OK", "hello, world"), answer("OK", "c1")]);
    let answers = crate::caller::ask(&caller, &tcp, &questions);
    assert_eq!(answers, [answer("OK", "hello, world"), answer("Unimplemented", "")]);
    daemon.ctr_ok(&["task", "kill", "-s", "KILL", "c1"]);
    until("it ends", || is_stopped(daemon, "c1"));
    remove(daemon, "c1");
}

pub(crate) fn containers_of_a_group_share_a_shim(daemon: &mut Daemon) {
    let flags = ["--annotation", "io.containerd.runc.v2.group=pod"];
    let first = daemon.run_detached(&flags, "c1", "exec sleep 1000");
    let second = daemon.run_detached(&flags, "c2", "exec sleep 1000");
    assert_ne!(first, second);
    assert_eq!(daemon.shims().len(), 1);
    for id in ["c1", "c2"] {
        daemon.ctr_ok(&["task", "kill", "-s", "TERM", id]);
        until("it ends", || is_stopped(daemon, id));
        remove(daemon, id);
    }
}

pub(crate) fn g06_a_shim_that_is_killed_is_cleaned_up_after(daemon: &mut Daemon) {
    let events = daemon.events();
    let pid = daemon.run_detached(&[], "c1", "exec sleep 1000");
    send(daemon.shims()[0], Signal::KILL);
    until("the daemon cleans up", || daemon.task("c1").is_none_or(|(_, state)| state == "STOPPED"));
    until("the process ends", || !lives(pid));
    until("the exit is told", || !events.told("/tasks/exit").is_empty());
    let exit = &events.told("/tasks/exit")[0];
    assert_eq!((exit["pid"].as_u64(), exit["exit_status"].as_u64()), (Some(pid.into()), Some(137)), "{exit}");
    let _ = daemon.ctr(&["task", "rm", "c1"]);
    daemon.ctr_ok(&["container", "rm", "c1"]);
}

pub(crate) fn a_shim_that_is_told_to_end_takes_its_container_with_it_and_tells_how_it_ended(daemon: &mut Daemon) {
    let events = daemon.events();
    let pid = daemon.run_detached(&[], "c1", "trap '' TERM; while :; do sleep 1; done");
    let mut waiting = daemon.wait_for("c1");
    send(daemon.shims()[0], Signal::USR1);
    until("it says how it is", || daemon.log().contains("diagnostics: io.containerd.ttrpc.v1"));
    send(daemon.shims()[0], Signal::TERM);
    until("the shim ends", || daemon.shims().is_empty());
    until("the process ends", || !lives(pid));
    assert_eq!(waiting.wait().unwrap().code(), Some(137), "who waits hears how it ended");
    until("the daemon cleans up", || daemon.task("c1").is_none_or(|(_, state)| state == "STOPPED"));
    until("the exit is told", || !events.told("/tasks/exit").is_empty());
    let _ = daemon.ctr(&["task", "rm", "c1"]);
    daemon.ctr_ok(&["container", "rm", "c1"]);
    // The daemon publishes the exit again after its cleanup: both must be the same.
    let exits = events.told("/tasks/exit");
    for exit in &exits {
        assert_eq!((exit["pid"].as_u64(), exit["exit_status"].as_u64()), (Some(pid.into()), Some(137)), "{exits:?}");
        assert_eq!(exit["exited_at"], exits[0]["exited_at"]);
    }
}

pub(crate) fn a_start_that_is_cancelled_leaves_nothing(daemon: &mut Daemon) {
    let config = daemon.path("stall.toml");
    fs::write(&config, "[plugins.\"io.containerd.internal.v1.stall\"]\nstall = true\n").unwrap();
    let mut ctr = daemon.begin(&["--runtime-config-path", config.to_str().unwrap()], "c1", &["true"]);
    let is_server = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).ends_with("serve\0")
    };
    until("the server starts", || daemon.shims().iter().any(is_server));
    ctr.kill().unwrap();
    ctr.wait().unwrap();
    until("the shims end", || daemon.shims().is_empty());
    let socket = daemon.socket_to_be("c1");
    assert!(!socket.exists(), "{} is left", socket.display());
    until("the container can be removed", || daemon.ctr(&["container", "rm", "c1"]).status.success());
}

pub(crate) fn processes_whose_first_one_is_gone_are_ended_too(daemon: &mut Daemon) {
    for is_killed in [false, true] {
        let file = daemon.path("left");
        let _ = fs::remove_file(&file);
        let script = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; exit 3", file.display());
        daemon.run_detached(&[], "c1", &script);
        until("the first one ends", || is_stopped(daemon, "c1"));
        let left = fs::read_to_string(file).unwrap().trim().parse().unwrap();
        assert!(lives(left));
        if is_killed {
            send(daemon.shims()[0], Signal::KILL);
            until("the daemon cleans up", || !lives(left));
            let _ = daemon.ctr(&["task", "rm", "c1"]);
        } else {
            let removed = daemon.ctr(&["task", "rm", "c1"]);
            assert!(String::from_utf8_lossy(&removed.stderr).contains("exit code 3"), "{removed:?}");
        }
        until("the one that is left ends", || !lives(left));
        daemon.ctr_ok(&["container", "rm", "c1"]);
    }
}

pub(crate) fn g07_a_daemon_that_is_killed_before_create_finds_nothing_left(daemon: &mut Daemon) {
    let config = daemon.path("hold.toml");
    fs::write(&config, "[plugins.\"io.containerd.internal.v1.fault\"]\nfault = \"hold-create\"\n").unwrap();
    let mut ctr = daemon.begin(&["--runtime-config-path", config.to_str().unwrap()], "c1", &["true"]);
    until("the shim is ready", || daemon.bundle("c1").join("address").exists() && daemon.shims().len() == 1);
    daemon.kill();
    let _ = ctr.kill();
    ctr.wait().unwrap();
    assert_eq!(daemon.shims().len(), 1, "it lives on");
    daemon.start_again();
    if daemon.keeps_shims_without_containers() {
        send(daemon.shims()[0], Signal::TERM);
    }
    until("the shim ends", || daemon.shims().is_empty());
    let socket = daemon.socket_to_be("c1");
    assert!(!socket.exists(), "{} is left", socket.display());
    until("the bundle goes", || !daemon.bundle("c1").exists());
    daemon.ctr_ok(&["container", "rm", "c1"]);
}

/// Makes one of the calls that may come at any time. Returns whether it deleted the container.
async fn any_call(task: TaskClient, index: usize) -> ttrpc::Result<bool> {
    let limit = || context::with_duration(Duration::from_secs(20));
    let id = "c1".to_owned();
    match index % 4 {
        0 => task.kill(limit(), &KillRequest { id, signal: 9, ..Default::default() }).await.map(|_| false),
        1 | 2 => task.delete(limit(), &DeleteRequest { id, ..Default::default() }).await.map(|_| true),
        // Shutdown has no effect while there is a container.
        _ => task.shutdown(limit(), &ShutdownRequest { id, ..Default::default() }).await.map(|_| false),
    }
}

pub(crate) fn g11_calls_that_come_twice_at_once_and_out_of_order_are_answered(daemon: &mut Daemon) {
    daemon.run_detached(&[], "c1", "exec sleep 1000");
    let address = format!("unix://{}", daemon.socket("c1").display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answers = runtime.block_on(async {
        let task = TaskClient::new(Client::new(Socket::connect(&address).await.unwrap()));
        let mut answers = Vec::new();
        for _ in 0..25 {
            let calls = (0..8).map(|index| any_call(task.clone(), index));
            answers.extend(futures_util::future::join_all(calls).await);
        }
        answers
    });
    let deleted = answers.iter().filter(|answer| matches!(answer, Ok(true))).count();
    assert_eq!(deleted, 1, "it was deleted {deleted} times");
    for refusal in answers.iter().filter_map(|answer| answer.as_ref().err().map(ToString::to_string)) {
        // After the container is deleted, Shutdown ends the shim, so there may be no answer.
        let gone = ["closed", "early eof", "Connection reset", "Broken pipe"];
        let mut known = ["NOT_FOUND", "FAILED_PRECONDITION", "UNAVAILABLE"].iter().chain(&gone);
        assert!(known.any(|known| refusal.contains(known)), "{refusal}");
    }
    until("the shim ends", || daemon.shims().is_empty());
    until("the daemon cleans up", || daemon.task("c1").is_none_or(|(_, state)| state == "STOPPED"));
    let _ = daemon.ctr(&["task", "rm", "c1"]);
    daemon.ctr_ok(&["container", "rm", "c1"]);
}

/// How long the daemon is stopped: longer than Go's shims keep an event.
fn outage() -> Duration {
    let seconds = std::env::var("NRI_OUTAGE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(60))
}

pub(crate) fn what_happens_while_the_daemon_is_away_is_told_after(daemon: &mut Daemon) {
    let go = daemon.path("go");
    let script = format!("while ! [ -e {} ]; do sleep 0.05; done; exit 9", go.display());
    let pid = daemon.run_detached(&[], "c1", &script);
    let shim = daemon.shims()[0];
    // The shim logs how many events wait, and the daemon reads the log when it is back.
    let says = |daemon: &Daemon, words: &str| {
        send(shim, Signal::USR1);
        std::thread::sleep(Duration::from_millis(100));
        daemon.log().contains(&format!("publisher events: {words}"))
    };
    daemon.stop();
    fs::write(go, "").unwrap();
    until("the process ends", || !lives(pid));
    std::thread::sleep(outage());
    send(shim, Signal::USR1);
    std::thread::sleep(Duration::from_millis(500));
    daemon.start_again();
    until("it waited", || daemon.log().contains("publisher events: 1 waiting, 0 lost"));
    until("it is told", || says(daemon, "0 waiting, 0 lost"));
    let removed = daemon.ctr(&["task", "rm", "c1"]);
    assert!(String::from_utf8_lossy(&removed.stderr).contains("exit code 9"), "{removed:?}");
    daemon.ctr_ok(&["container", "rm", "c1"]);
}

pub(crate) fn g10_a_daemon_that_is_restarted_finds_its_containers_again(daemon: &mut Daemon) {
    let pid = daemon.run_detached(&[], "c1", "exec sleep 1000");
    let shims = daemon.shims();
    let restarts = std::env::var("NRI_RESTARTS").ok().and_then(|text| text.parse().ok());
    for round in 0..restarts.unwrap_or(3) {
        if round % 2 == 1 {
            daemon.kill()
        } else {
            daemon.stop()
        }
        daemon.start_again();
        assert_eq!(daemon.task("c1"), Some((pid, "RUNNING".to_owned())), "{}", daemon.log());
        assert_eq!(daemon.shims(), shims);
    }
    daemon.ctr_ok(&["task", "kill", "-s", "KILL", "c1"]);
    until("it ends", || is_stopped(daemon, "c1"));
    remove(daemon, "c1");
}

pub(crate) fn g08_an_exit_while_the_daemon_is_down_is_reported_after(daemon: &mut Daemon) {
    let go = daemon.path("go");
    let script = format!("while ! [ -e {} ]; do sleep 0.05; done; exit 9", go.display());
    let pid = daemon.run_detached(&[], "c1", &script);
    daemon.stop();
    fs::write(go, "").unwrap();
    until("the process ends", || !lives(pid));
    daemon.start_again();
    assert!(is_stopped(daemon, "c1"), "{:?}\n{}", daemon.task("c1"), daemon.log());
    let removed = daemon.ctr(&["task", "rm", "c1"]);
    assert!(String::from_utf8_lossy(&removed.stderr).contains("exit code 9"), "{removed:?}");
    daemon.ctr_ok(&["container", "rm", "c1"]);
}

pub(crate) fn an_orphan_that_dies_is_collected(daemon: &mut Daemon) {
    daemon.run_detached(&[], "c1", "(sleep 0.3 &); exec sleep 1000");
    let shim = daemon.shims()[0];
    until("the orphan dies", || zombies_of(shim) == 1);
    until("it is collected", || zombies_of(shim) == 0);
    daemon.ctr_ok(&["task", "kill", "-s", "KILL", "c1"]);
    until("it ends", || is_stopped(daemon, "c1"));
    remove(daemon, "c1");
}

pub(crate) fn a_start_that_fails_in_any_phase_says_why_and_leaves_nothing(daemon: &mut Daemon) {
    let fault = |word: &str| format!("[plugins.\"io.containerd.internal.v1.fault\"]\nfault = \"{word}\"\n");
    let phases = [
        ("nonsense".to_owned(), "could not parse the configuration"),
        (fault("strange"), "invalid configuration"),
        (fault("error"), "told to fail"),
        (fault("panic"), "initialization panicked: told to panic"),
        (fault("hang"), "initialization did not finish within 2s"),
        (fault("exit"), "the server ended before it was ready"),
        (fault("kill"), "the server ended before it was ready"),
        ("disabled_plugins = [\"io.containerd.event.v1.publisher\"]".to_owned(), {
            "io.containerd.ttrpc.v1.task requires io.containerd.event.v1.publisher, which is disabled"
        }),
    ];
    for (index, (text, reason)) in phases.into_iter().enumerate() {
        let config = daemon.path("fault.toml");
        fs::write(&config, text).unwrap();
        let id = format!("f{index}");
        let output = daemon.run(&["--runtime-config-path", config.to_str().unwrap()], &id, &["true"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(reason), "expected {reason:?} in {errors}");
        assert!(daemon.shims().is_empty());
        let socket = daemon.socket_to_be(&id);
        assert!(!socket.exists(), "{} is left", socket.display());
        let _ = daemon.ctr(&["container", "rm", &id]);
    }
}

pub(crate) fn twenty_containers_at_once(daemon: &mut Daemon) {
    let daemon: &Daemon = daemon;
    std::thread::scope(|scope| {
        for index in 0..20 {
            scope.spawn(move || {
                let output = daemon.run(&["--rm"], &format!("c{index}"), &["sh", "-c", &format!("exit {index}")]);
                assert_eq!(output.status.code(), Some(index), "{output:?}\n{}", daemon.log());
            });
        }
    });
}
