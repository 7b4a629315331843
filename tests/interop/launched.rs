//! Plugins of ours on Go's own stub, launched by our adaptation.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use nri_adaptation::Happening;
use nri_proto::Event;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::node::{Node, container, pod};
use crate::peer::PATIENCE;
use crate::stubs::{ENDED, LIFE, Stub, heard, on_every_stub, tell};

on_every_stub! {
    a_launched_plugin_is_known_by_its_file_configured_and_hears_a_whole_life,
    a_launched_plugin_adjusts_containers,
    a_launched_plugin_that_is_killed_is_started_and_synchronized_again,
}

/// A runtime, and a directory for its plugins and their records.
struct Launching {
    node: Node,
    directory: tempfile::TempDir,
}

impl Launching {
    /// Launches a plugin with these arguments, through a script.
    async fn start(stub: &Stub, args: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        for name in ["plugins", "conf.d"] {
            fs::create_dir(path(name)).unwrap();
            fs::set_permissions(path(name), Permissions::from_mode(0o755)).unwrap();
        }
        let script = format!("#!/bin/sh\nexec {} {args} >>{}\n", stub.program.display(), path("diary"));
        fs::write(path("new"), script).unwrap();
        fs::set_permissions(path("new"), Permissions::from_mode(0o755)).unwrap();
        fs::rename(path("new"), path("plugins/42-launched")).unwrap();
        fs::write(path("conf.d/launched.conf"), "level: 7\n").unwrap();
        fs::set_permissions(path("conf.d/launched.conf"), Permissions::from_mode(0o644)).unwrap();
        let paths = format!("plugin_path = {:?}\nplugin_config_path = {:?}", path("plugins"), path("conf.d"));
        let node = Node::with_policy(&paths, 2, 10);
        timeout(PATIENCE, node.nri.launch()).await.expect("launching hangs").unwrap();
        assert_eq!(node.nri.plugins()[0].id.as_str(), "42-launched");
        Self { node, directory }
    }

    fn diary(&self) -> Vec<Value> {
        let path: PathBuf = self.directory.path().join("diary");
        fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

async fn a_launched_plugin_is_known_by_its_file_configured_and_hears_a_whole_life(stub: Stub) {
    let mut launching = Launching::start(&stub, "").await;
    let node = &mut launching.node;
    let life = node.nri.begin(pod());
    for event in LIFE {
        tell(&life, event).await.unwrap();
    }
    life.commit();
    node.nri.stop().await;
    let status = loop {
        if let Happening::Exited { status, again_in, .. } = node.next().await {
            assert_eq!(again_in, None);
            break status;
        }
    };
    assert_eq!(status, "exit status: 0");

    let diary = launching.diary();
    assert_eq!((&diary[0]["heard"], &diary[0]["config"]), (&json!("Configure"), &json!("level: 7\n")));
    assert_eq!(diary[1], json!({"heard": "Synchronize", "pods": 1, "containers": 2, "env_bytes": 20}));
    let rest = stub.life().map(heard).chain(ENDED.map(|end| json!({"heard": end})));
    assert_eq!(diary[2..], rest.collect::<Vec<_>>());
}

async fn a_launched_plugin_adjusts_containers(stub: Stub) {
    let Launching { node, directory: _kept } = Launching::start(&stub, "-adjust env=LAUNCHED=yes").await;
    let merged = node.nri.begin(pod()).create_container(container("c9")).await.unwrap();
    assert!(merged.adjustment.env.get("LAUNCHED").is_some());
    let entries = node.nri.ledger(|ledger| ledger.of("c9"));
    assert!(entries[0].to_string().starts_with("42-launched set Env LAUNCHED: yes"), "{}", entries[0]);
    node.nri.stop().await;
}

/// A38.
async fn a_launched_plugin_that_is_killed_is_started_and_synchronized_again(stub: Stub) {
    let mut launching = Launching::start(&stub, "-die StartContainer").await;
    let node = &mut launching.node;
    node.joined().await;
    tell(&node.nri.begin(pod()), Event::StartContainer).await.unwrap();
    loop {
        if let Happening::Exited { again_in, .. } = node.next().await {
            assert_eq!(again_in, Some(Duration::from_secs(1)));
            break;
        }
    }
    node.joined().await;
    tell(&node.nri.begin(pod()), Event::StopContainer).await.unwrap();
    node.nri.stop().await;
    let heard: Vec<_> = launching.diary().into_iter().map(|mut line| line["heard"].take()).collect();
    assert_eq!(
        heard,
        [
            "Configure",
            "Synchronize",
            "StartContainer",
            "Configure",
            "Synchronize",
            "StopContainer",
            "Shutdown",
            "Closed"
        ]
    );
}
