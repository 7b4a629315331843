//! Plugins of another user, as processes that connect to the real socket.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nri_adaptation::policy::{Identity, PluginOrigin};
use nri_adaptation::{Adaptation, Config};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::node::DONE;

/// Users and groups that need not exist.
const USER: u32 = 61_001;
const STRANGER: u32 = 61_002;
const GROUP: u32 = 61_010;
const OTHER_GROUP: u32 = 61_011;
const LIMIT: Duration = Duration::from_secs(20);

/// Starts a plugin as a process of a user and a group, which are the only ones that it has.
fn plugin(place: &Path, index: &str, (uid, gid): (u32, u32)) -> Child {
    Command::new(place.join("storyteller"))
        .args(["--index", index, "--socket"])
        .arg(place.join("nri/nri.sock"))
        .uid(uid)
        .gid(gid)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_plugin_of_another_user_connects_if_its_group_has_the_socket_and_its_user_is_allowed() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::set_permissions(place, Permissions::from_mode(0o755)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_storyteller"), place.join("storyteller")).unwrap();
    let text = format!("allowed_uids = [0, {USER}]\nsocket_gid = {GROUP}\n[plugins.storyteller]\nuids = [{USER}]");
    let config = Config { socket: Some(place.join("nri/nri.sock")), ..Config::from_toml(&text).unwrap() };
    let nri = Adaptation::new(config, std::sync::Arc::new(DONE));
    nri.listen().unwrap();

    let outsider = plugin(place, "10", (USER, OTHER_GROUP));
    let outsider = timeout(LIMIT, outsider.wait_with_output()).await.expect("it found a way in").unwrap();
    let said = String::from_utf8_lossy(&outsider.stderr);
    assert!(!outsider.status.success() && said.contains("Permission denied"), "{said}");

    let _stranger = plugin(place, "20", (STRANGER, GROUP));
    let _plugin = plugin(place, "30", (USER, GROUP));
    let joined = async {
        while nri.plugins().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LIMIT, joined).await.expect("it did not join");
    sleep(Duration::from_millis(200)).await;
    let there: Vec<_> = nri.plugins().into_iter().map(|plugin| (plugin.id.to_string(), plugin.identity)).collect();
    let identity = Identity { origin: PluginOrigin::Connected, uid: Some(USER) };
    assert_eq!(there, [("30-storyteller".to_owned(), identity)]);
    nri.stop().await;
}
