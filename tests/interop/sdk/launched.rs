//! Plugins that Go's adaptation launches from a directory, with a connection as descriptor 3.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use nri_proto::Event;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{NAME, STORYTELLER, under_every_runtime};
use crate::peer::PATIENCE;
use crate::sdk::host::{GoRuntime, Host};
use crate::stubs::{Version, heard};

under_every_runtime! {
    a_launched_plugin_is_configured_and_hears_a_whole_life,
    a_launched_plugin_ends_with_its_runtime,
}

/// Starts a runtime that launches the test plugin, and returns the plugin's diary.
async fn launch(host: &Host, settings: &str) -> (GoRuntime, Diary) {
    let (plugins, configs) = (host.path("plugins"), host.path("configs"));
    fs::create_dir(&plugins).unwrap();
    fs::create_dir(&configs).unwrap();
    // Runtimes launch plugins without arguments.
    let script = plugins.join(NAME);
    fs::write(&script, format!("#!/bin/sh\nexec {STORYTELLER} --hasty --diary {}\n", host.path("").display())).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let diary = host.path("diary");
    fs::write(configs.join("storyteller.conf"), format!("--diary {} {settings}", diary.display())).unwrap();
    let args = ["-plugins", plugins.to_str().unwrap(), "-configs", configs.to_str().unwrap(), "-containers", "2"];
    (host.start(&args).await, Diary { text: diary, read: 0 })
}

/// The file that a launched plugin writes, because it has no output of its own.
struct Diary {
    text: PathBuf,
    read: usize,
}

impl Diary {
    async fn wrote(&mut self) -> Value {
        let given_up = Instant::now() + PATIENCE;
        loop {
            let text = fs::read_to_string(&self.text).unwrap_or_default();
            if let Some(line) = text.lines().nth(self.read) {
                self.read += 1;
                return serde_json::from_str(line).unwrap();
            }
            assert!(Instant::now() < given_up, "it writes nothing");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the plugin has joined. Runtimes before v0.7 do not synchronize launched plugins.
    async fn is_in(&mut self, version: Version) {
        assert_eq!(self.wrote().await["heard"], "Configure");
        if version >= Version::V0_8_0 {
            let snapshot = json!({"heard": "Synchronize", "pods": 1, "containers": 2, "env_bytes": 4});
            assert_eq!(self.wrote().await, snapshot);
        }
    }
}

async fn a_launched_plugin_is_configured_and_hears_a_whole_life(host: Host) {
    let (mut runtime, mut diary) = launch(&host, "--env COLOR=red").await;
    diary.is_in(host.version).await;
    if host.version < Version::V0_8_0 {
        // Longer than this plugin waits for its snapshot.
        sleep(Duration::from_millis(600)).await;
    }
    for event in host.version.life() {
        let reply = runtime.tell(event).await.unwrap();
        assert_eq!(diary.wrote().await, heard(event));
        if event == Event::CreateContainer {
            assert_eq!(reply["adjust"]["env"], json!([{"key": "COLOR", "value": "red"}]));
        }
    }
    runtime.stop().await;
}

/// The plugin cannot reconnect, because its connection was inherited.
async fn a_launched_plugin_ends_with_its_runtime(host: Host) {
    let (runtime, mut diary) = launch(&host, "").await;
    diary.is_in(host.version).await;
    assert_eq!(launched(&host).len(), 1);
    runtime.kill().await;
    let given_up = Instant::now() + PATIENCE;
    while !launched(&host).is_empty() {
        assert!(Instant::now() < given_up, "it goes on");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the running plugins that were launched on this host.
fn launched(host: &Host) -> Vec<u32> {
    let own = format!("{STORYTELLER}\0--hasty\0--diary\0{}\0", host.path("").display());
    let is_own = |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == own.as_bytes());
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(is_own).collect()
}
