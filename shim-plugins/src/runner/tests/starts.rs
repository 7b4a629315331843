use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use protobuf::well_known_types::any::Any;

use super::*;
use crate::Configuration;
use crate::testing::{Bundle, Daemon, FakeContainerd};

fn sockets(containerd: &FakeContainerd) -> usize {
    fs::read_dir(containerd.socket_dir()).map_or(0, Iterator::count)
}

#[tokio::test]
async fn every_daemon_starts_it_calls_it_hears_its_events_in_order_and_ends_it() {
    for daemon in Daemon::ALL {
        let containerd = FakeContainerd::new(daemon).unwrap();
        let running = containerd.start(&simple(), "c1").await.unwrap();
        let speaks_messages = [Daemon::V2_3, Daemon::V2_4].contains(&daemon);
        assert_eq!(running.version, if speaks_messages { 3 } else { 2 });
        let address = fs::read_to_string(containerd.bundle("c1").join("address")).unwrap();
        assert_eq!(address, running.address);

        let request = api::ConnectRequest { id: "c1".to_owned(), ..Default::default() };
        let connected: api::ConnectResponse = running.task("Connect", &request).await.unwrap();
        assert_eq!(connected.version, "c1");
        let request = api::KillRequest { id: "c1".to_owned(), signal: 50, ..Default::default() };
        let _: api::Empty = running.task("Kill", &request).await.unwrap();
        let events = containerd.heard(51).await;
        assert_eq!((events[0].topic.as_str(), events[0].type_name.as_str()), {
            ("/tasks/create", "containerd.events.TaskCreate")
        });
        let statuses: Vec<_> = events[1..].iter().map(|seen| seen.event::<TaskExit>().unwrap().exit_status).collect();
        assert_eq!(statuses, (0..50).collect::<Vec<_>>());

        let _: api::Empty = running.task("Shutdown", &api::ShutdownRequest::new()).await.unwrap();
        running.ended().await.unwrap();
        assert_eq!(sockets(&containerd), 0, "{daemon:?}");
    }
}

#[tokio::test]
async fn each_daemon_that_wants_to_know_learns_which_mounts_the_shim_performs() {
    let both = Mounts { types: vec!["ext4".to_owned(), "erofs".to_owned()], transforms: vec!["format".to_owned()] };
    let types = Mounts { transforms: Vec::new(), ..both.clone() };
    let shim = Arc::new(shim(&Arc::new(Semaphore::new(0))).mounts(both.clone()));
    for daemon in Daemon::ALL {
        let containerd = FakeContainerd::new(daemon).unwrap();
        let running = containerd.start(&shim, "c1").await.unwrap();
        let expected = match daemon {
            Daemon::V1_6 | Daemon::V1_7 | Daemon::V2_0 => None,
            Daemon::V2_3 => Some(&types),
            Daemon::V2_4 => Some(&both),
        };
        assert_eq!(running.mounts.as_ref(), expected);
        running.terminate().await.unwrap();
    }
    // A shim without mounts announces that, so 2.4 does not ask.
    let containerd = FakeContainerd::new(Daemon::V2_4).unwrap();
    let running = containerd.start(&simple(), "c1").await.unwrap();
    assert_eq!(running.mounts, Some(Mounts::default()));
    running.terminate().await.unwrap();
}

#[tokio::test]
async fn both_versions_of_task_are_one() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let running = containerd.start(&simple(), "c1").await.unwrap();
    for service in [crate::server::task::V2, crate::server::task::V3] {
        let request = api::ConnectRequest { id: service.to_owned(), ..Default::default() };
        let connected: api::ConnectResponse = running.call(service, "Connect", &request).await.unwrap();
        assert_eq!(connected.version, service);
    }
    running.terminate().await.unwrap();
}

#[tokio::test]
async fn a_start_that_fails_says_why_and_leaves_no_socket() {
    let shims: [(Arc<Shim>, &str); 3] = [
        (
            failing(|| Err(InitError::failed("no luck"))),
            "could not load plugin k.problem: initialization returned an error: no luck",
        ),
        (failing(|| panic!("oh")), "could not load plugin k.problem: initialization panicked: oh"),
        (Arc::new(Shim::new("empty", "0").without_task()), "no plugin contributes a service"),
    ];
    for (shim, cause) in shims {
        for daemon in Daemon::ALL {
            let containerd = FakeContainerd::new(daemon).unwrap();
            let error = containerd.start(&shim, "c1").await.err().unwrap();
            assert!(why(&error).ends_with(cause), "{}", why(&error));
            assert_eq!(sockets(&containerd), 0);
            assert!(!containerd.bundle("c1").join("address").exists());
        }
    }
}

/// Returns a plugin that contributes the Task service of [`Told`] from a slot that is not its own.
fn task_elsewhere() -> Plugin {
    Plugin::at(Slot::<()>::new("k", "task")).asks((PUBLISHER, SHUTDOWN)).init(|_, (publisher, shutdown)| async move {
        let (created, ended) = (Arc::new(Semaphore::new(0)), Arc::default());
        Ok(Provided::new(Arc::new(())).task(Arc::new(Told { publisher, shutdown, created, ended })))
    })
}

/// Returns a plugin in the slot of Task, with a given initialization.
fn task_that(init: fn() -> Result<Provided<dyn Task + Send + Sync>, InitError>) -> Plugin {
    Plugin::at(TASK).best_effort().init(move |_, ()| async move { init() })
}

struct Empty;

impl Task for Empty {}

#[tokio::test]
async fn a_shim_without_task_says_which_plugin_is_missing_and_why_unless_it_says_that_it_has_none() {
    let new = || Shim::new("io.containerd.test.v1", "0");
    let disabled = |plugin: Plugin| {
        let configuration = Configuration::default().without(plugin.uri());
        new().plugin(plugin).configuration(configuration)
    };
    let cases = [
        (new(), "is not registered (a shim that has no Task calls Shim::without_task)"),
        (disabled(task_that(|| panic!("it is disabled"))), "was disabled by the configuration"),
        (new().plugin(task_that(|| Err(InitError::skip("no KVM")))), "was skipped: no KVM"),
        (
            new().plugin(task_that(|| Err(InitError::failed("no luck")))),
            "failed: initialization returned an error: no luck",
        ),
        (new().plugin(task_that(|| Ok(Provided::new(Arc::new(Empty))))), "was loaded, but contributes no such service"),
    ];
    let containerd = FakeContainerd::new(Daemon::V2_4).unwrap();
    for (shim, reason) in cases {
        let error = containerd.start(&Arc::new(shim), "c1").await.err().unwrap();
        let expected = format!("no plugin contributes the Task service: io.containerd.ttrpc.v1.task {reason}");
        assert!(why(&error).ends_with(&expected), "{}", why(&error));
        assert_eq!(sockets(&containerd), 0);
    }
    let error = containerd.start(&Arc::new(disabled(task_elsewhere())), "c1").await.err().unwrap();
    let expected = "no plugin contributes the Task service: k.task was disabled by the configuration";
    assert!(why(&error).ends_with(expected), "{}", why(&error));

    // The service counts from whichever slot, and a shim may say that it has none.
    let own = Plugin::at(PROBLEM).init(|_, ()| async {
        let service = ttrpc::r#async::Service { methods: Default::default(), streams: Default::default() };
        Ok(Provided::new(Arc::new(())).service([("x.Y".to_owned(), service)].into()))
    });
    for shim in [new().plugin(task_elsewhere()), new().without_task().plugin(own)] {
        containerd.start(&Arc::new(shim), "c1").await.unwrap().terminate().await.unwrap();
    }
}

#[tokio::test]
async fn g16_the_socket_is_for_its_user_alone_and_its_name_is_a_hash() {
    let containerd = FakeContainerd::new(Daemon::V1_7).unwrap();
    let id = "a".repeat(76);
    let running = containerd.start(&simple(), &id).await.unwrap();
    let path = socket_path::path_of(&running.address).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(path.file_name().unwrap().len(), 64);
    running.terminate().await.unwrap();
}

fn of_pod() -> Bundle {
    let annotations = BTreeMap::from([("io.kubernetes.cri.sandbox-id".to_owned(), "pod1".to_owned())]);
    Bundle { annotations, ..Bundle::default() }
}

#[tokio::test]
async fn the_containers_of_a_pod_share_a_shim_and_one_that_comes_later_gets_a_new_one() {
    for daemon in Daemon::ALL {
        let containerd = FakeContainerd::new(daemon).unwrap();
        let shim = simple();
        let first = containerd.start_with(&shim, "c1", &of_pod()).await.unwrap();
        let second = containerd.start_with(&shim, "c2", &of_pod()).await.unwrap();
        let other = containerd.start(&shim, "c3").await.unwrap();
        assert_eq!(first.address, second.address);
        assert_ne!(first.address, other.address);
        assert_eq!(fs::read_to_string(containerd.bundle("c2").join("address")).unwrap(), first.address);
        other.terminate().await.unwrap();
        first.terminate().await.unwrap();
        assert_eq!(sockets(&containerd), 0);
        containerd.start_with(&shim, "c4", &of_pod()).await.unwrap().terminate().await.unwrap();
    }
}

#[tokio::test]
async fn a_pod_whose_containers_start_at_once_has_one_shim() {
    let containerd = FakeContainerd::new(Daemon::V2_0).unwrap();
    let (shim, pod) = (simple(), of_pod());
    // Each start finds the socket of a killed shim, and must not remove the socket of another
    // start.
    containerd.start_with(&shim, "c0", &pod).await.unwrap().kill().await;
    let ids: Vec<_> = (0..8).map(|index| format!("c{index}")).collect();
    let starts = futures_util::future::join_all(ids.iter().map(|id| containerd.start_with(&shim, id, &pod))).await;
    let started: Vec<_> = starts.into_iter().map(Result::unwrap).collect();
    assert_eq!(sockets(&containerd), 1);
    for running in started {
        running.terminate().await.unwrap();
    }
    assert_eq!(sockets(&containerd), 0);
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Settings {
    word: String,
}

#[tokio::test]
async fn what_containerd_says_about_a_plugin_reaches_it_in_every_dialect() {
    let plugin = Plugin::at(PROBLEM).configured::<Settings>().init(|init, ()| async move {
        assert!(init.state_dir()?.ends_with("k.problem"));
        Err(InitError::failed(format!("the word is {}", init.config.word)))
    });
    let shim = Arc::new(shim(&Arc::new(Semaphore::new(0))).plugin(plugin));
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "[plugins.\"k.problem\"]\nword = 'file'").unwrap();
    let mut path = vec![2 << 3 | 2, u8::try_from(file.path().as_os_str().len()).unwrap()];
    path.extend(file.path().to_str().unwrap().bytes());
    let ours = b"[plugins.\"k.problem\"]\nword = 'ours'".to_vec();
    let sources = [("type.example/runtimeoptions.v1.Options", path, "file"), (CONFIGURATION, ours, "ours")];
    for (type_url, value, word) in sources {
        for daemon in Daemon::ALL {
            let containerd = FakeContainerd::new(daemon).unwrap();
            let options = Any { type_url: type_url.to_owned(), value: value.clone(), ..Default::default() };
            let bundle = Bundle { options: Some(options), ..Bundle::default() };
            let error = containerd.start_with(&shim, "c1", &bundle).await.err().unwrap();
            assert!(why(&error).ends_with(&format!("the word is {word}")), "{}", why(&error));
        }
    }
}
