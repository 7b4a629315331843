//! Programs that users other than root and the runtime's own user could replace.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::time::Duration;

use crate::node::{Node, is_there};
use crate::plugin;

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Waits longer than the launch of a changed program takes.
async fn some_looks() {
    tokio::time::sleep(Duration::from_millis(3500)).await;
}

/// Adds a program that is not trusted: as root, a program of another user, otherwise a program that
/// its group can write. When it runs, it creates a file.
fn put_evil(node: &Node, name: &str) {
    node.put(name, node.script("echo >\"$dir/executed\""));
    let path = node.path("plugins").join(name);
    if rustix::process::geteuid().is_root() {
        chown(path, Some(12345), None).unwrap();
    } else {
        set_mode(path, 0o775);
    }
}

#[tokio::test]
async fn a_program_that_others_can_change_is_never_executed() {
    let mut node = Node::new();
    put_evil(&node, "10-evil");
    node.put("20-good", plugin::script());
    node.launch().await;
    assert_eq!(node.plugins(), ["20-good"]);
    let pid = node.launched().await;
    // A program that appears later, and a program that replaces a running plugin.
    put_evil(&node, "30-evil");
    put_evil(&node, "20-good");
    some_looks().await;
    assert!(!node.path("executed").exists());
    assert!(is_there(pid), "the plugin runs on");
    assert_eq!(node.plugins(), ["20-good"]);
    node.stop().await;
}

#[tokio::test]
async fn a_program_that_others_can_change_since_it_was_launched_is_not_launched_again() {
    let mut node = Node::new();
    node.put("10-a", node.script("echo >>\"$dir/executed\"; while :; do sleep 0.05; done"));
    let program = node.path("plugins/10-a");
    let launching = node.nri.launch();
    tokio::select! {
        _ = launching => panic!("it has not even registered"),
        () = crate::node::until(|| node.path("executed").exists()) => {}
    }
    let pid = node.launched().await;
    set_mode(&program, 0o757);
    fs::write(&program, node.script("echo >\"$dir/evil\"")).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let expected = format!(
        "10-a not launched: plugin {0} can be changed by others: \
         {0} is writable by its group or by others (mode 0757): take that permission away, again in 2s",
        program.display()
    );
    node.until(&expected).await;
    assert!(!node.path("evil").exists());
    node.stop().await;
}

#[tokio::test]
async fn a_plugin_whose_configuration_others_can_change_is_not_launched() {
    let mut node = Node::new();
    node.put("10-a", node.script("echo >\"$dir/executed\""));
    node.configure("10-a.conf", "");
    let config = node.path("conf.d/10-a.conf");
    set_mode(&config, 0o664);
    node.launch().await;
    let expected = format!(
        "10-a not launched: configuration {0} can be changed by others: \
         {0} is writable by its group or by others (mode 0664): take that permission away, again in 1s",
        config.display()
    );
    assert_eq!(node.happened(), [expected]);
    assert!(!node.path("executed").exists());
    node.stop().await;
}

#[tokio::test]
async fn a_directory_that_others_can_change_later_changes_nothing() {
    let mut node = Node::new();
    node.put("10-a", plugin::script());
    node.launch().await;
    let pid = node.launched().await;
    set_mode(node.path("plugins"), 0o1777);
    node.put("20-evil", node.script("echo >\"$dir/executed\""));
    some_looks().await;
    assert_eq!(node.plugins(), ["10-a"]);
    assert!(is_there(pid));
    assert!(!node.path("executed").exists());
    node.stop().await;
}

#[tokio::test]
async fn a_program_behind_a_link_that_others_could_have_taken_away_runs_on() {
    for is_replaced in [false, true] {
        let mut node = Node::new();
        let elsewhere = node.path("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        set_mode(&elsewhere, 0o755);
        let program = elsewhere.join("program");
        fs::write(&program, plugin::script()).unwrap();
        set_mode(&program, 0o755);
        symlink(&program, node.path("plugins/10-a")).unwrap();
        node.launch().await;
        let pid = node.launched().await;
        set_mode(&elsewhere, 0o777);
        fs::remove_file(&program).unwrap();
        if is_replaced {
            fs::create_dir(&program).unwrap();
        }
        some_looks().await;
        assert_eq!(node.plugins(), ["10-a"], "replaced: {is_replaced}");
        assert!(is_there(pid));
        node.stop().await;
    }
}

#[tokio::test]
async fn a_link_to_a_program_that_nobody_else_can_change_is_launched() {
    let mut node = Node::new();
    let elsewhere = node.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    set_mode(&elsewhere, 0o755);
    fs::write(elsewhere.join("program"), plugin::script()).unwrap();
    set_mode(elsewhere.join("program"), 0o755);
    symlink("../elsewhere/program", node.path("plugins/10-a")).unwrap();
    node.launch().await;
    assert_eq!(node.plugins(), ["10-a"]);
    // The plugin is not started again once others can replace the target of the link.
    set_mode(&elsewhere, 0o775);
    let pid = rustix::process::Pid::from_raw(node.launched().await.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let happened = node.until("10-a not launched").await;
    let refusal = format!("{} is writable by its group or by others (mode 0775)", elsewhere.display());
    assert!(happened.last().unwrap().contains(&refusal), "{happened:?}");
    node.stop().await;
}
