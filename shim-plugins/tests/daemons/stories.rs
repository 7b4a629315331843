//! What happens under each daemon.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use shim_plugins::protobuf::Message as _;
use shim_plugins::protobuf::well_known_types::wrappers::StringValue;
use shim_plugins::ttrpc::asynchronous::Client;
use shim_plugins::ttrpc::asynchronous::transport::Socket;
use shim_plugins::ttrpc::{Code, Request};

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
    until("the exit is told", || events.topics().iter().any(|topic| topic == "/tasks/exit"));
    let _ = daemon.ctr(&["task", "rm", "c1"]);
    daemon.ctr_ok(&["container", "rm", "c1"]);
}

pub(crate) fn a_shim_that_is_told_to_end_takes_its_container_with_it(daemon: &mut Daemon) {
    let pid = daemon.run_detached(&[], "c1", "trap '' TERM; while :; do sleep 1; done");
    send(daemon.shims()[0], Signal::USR1);
    until("it says how it is", || daemon.log().contains("diagnostics: io.containerd.ttrpc.v1"));
    send(daemon.shims()[0], Signal::TERM);
    until("the shim ends", || daemon.shims().is_empty());
    until("the process ends", || !lives(pid));
    until("the daemon cleans up", || daemon.task("c1").is_none_or(|(_, state)| state == "STOPPED"));
    let _ = daemon.ctr(&["task", "rm", "c1"]);
    daemon.ctr_ok(&["container", "rm", "c1"]);
}

pub(crate) fn g10_a_daemon_that_is_restarted_finds_its_containers_again(daemon: &mut Daemon) {
    let pid = daemon.run_detached(&[], "c1", "exec sleep 1000");
    let shims = daemon.shims();
    for round in 0..3 {
        if round == 1 {
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
        ("nonsense".to_owned(), "could not understand the configuration"),
        (fault("strange"), "its configuration cannot be read"),
        (fault("error"), "told to fail"),
        (fault("panic"), "it panicked: told to panic"),
        (fault("hang"), "it was not ready within 2s"),
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
