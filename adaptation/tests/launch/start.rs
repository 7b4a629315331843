//! How plugins are started.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nri_adaptation::{Config, LaunchError};
use tokio::time::Instant;

use crate::node::{Node, until};
use crate::plugin;

#[tokio::test]
async fn plugins_are_there_when_launching_is_over_under_the_names_of_their_files() {
    let node = Node::new();
    for name in ["20-b", "10-a", "10-with.dots+and-dashes"] {
        node.put(name, plugin::script());
    }
    node.launch().await;
    assert_eq!(node.plugins(), ["10-a", "10-with.dots+and-dashes", "20-b"]);
    assert!(matches!(node.nri.launch().await, Err(LaunchError::Twice)));
    node.stop().await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_is_told_and_one_that_is_not_there_is_empty() {
    let node = Node::new();
    fs::remove_dir(node.path("plugins")).unwrap();
    node.launch().await;
    node.stop().await;

    let node = Node::new();
    fs::remove_dir(node.path("plugins")).unwrap();
    fs::write(node.path("plugins"), "").unwrap();
    let error = node.nri.launch().await.unwrap_err();
    assert_eq!(error.to_string(), format!("could not read plugin directory {}", node.path("plugins").display()));
    node.stop().await;
}

#[tokio::test]
async fn a_program_that_is_not_permitted_is_not_started_until_a_reload_permits_it() {
    let mut node = Node::with_policy("unnamed = 'refuse'\n[plugins.b]\norigin = 'connected'\n[plugins.c]");
    for name in ["10-a", "20-b", "30-c"] {
        node.put(name, plugin::script());
    }
    node.launch().await;
    assert_eq!(node.plugins(), ["30-c"]);
    let happened = node.happened();
    for expected in [
        "10-a not launched: plugin 10-a is not permitted: unnamed = \"refuse\" lets in only",
        "20-b not launched: plugin 20-b is not permitted: it is launched by the runtime, and plugins.b.origin is",
    ] {
        assert!(happened.iter().any(|line| line.starts_with(expected)), "{happened:?}");
    }
    assert_eq!(node.counts.n_launched.load(Ordering::Relaxed), 1);
    node.nri.reload(&Config::default());
    until(|| node.plugins() == ["10-a", "20-b", "30-c"]).await;
    node.stop().await;
}

#[tokio::test]
async fn launching_may_be_tried_again_after_it_was_given_up_or_has_failed() {
    let node = Node::new();
    node.put("10-a", plugin::script());
    {
        let given_up = node.nri.launch();
        tokio::pin!(given_up);
        assert!(futures_util::poll!(&mut given_up).is_pending(), "it looks at the directory");
        assert!(matches!(node.nri.launch().await, Err(LaunchError::Twice)));
    }
    fs::set_permissions(node.path("plugins"), Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(node.nri.launch().await, Err(LaunchError::UntrustedDirectory { .. })));
    fs::set_permissions(node.path("plugins"), Permissions::from_mode(0o755)).unwrap();
    node.launch().await;
    assert_eq!(node.plugins(), ["10-a"]);
    assert!(matches!(node.nri.launch().await, Err(LaunchError::Twice)));
    node.stop().await;
}

#[tokio::test]
async fn a_plugin_has_three_variables_four_descriptors_no_arguments_and_a_group_of_its_own() {
    let node = Node::new();
    // A socket that listens, and a connection to it. Neither may be inherited.
    node.nri.listen().unwrap();
    let _connection = std::os::unix::net::UnixStream::connect(node.path("nri.sock")).unwrap();
    let script = node.script(
        r#"told=$dir/$NRI_PLUGIN_IDX
           tr '\0' '\n' </proc/$$/environ >"$told.tmp"
           echo "arguments $#" >>"$told.tmp"
           read -r stat </proc/$$/stat; set -- $stat; [ "$5" = $$ ] && echo "its own group" >>"$told.tmp"
           echo $$ >"$told.pid"
           mv "$told.tmp" "$told.told"
           exec sleep 1000"#,
    );
    for name in ["10-first", "20-second"] {
        node.put(name, &script);
    }
    let launching = node.nri.launch();
    tokio::pin!(launching);
    let told = |index: &str| node.path(&format!("{index}.told"));
    tokio::select! {
        _ = &mut launching => panic!("they have not even registered"),
        () = until(|| told("10").exists() && told("20").exists()) => {}
    }
    for (index, name) in [("10", "first"), ("20", "second")] {
        let text = fs::read_to_string(told(index)).unwrap();
        let expected = format!(
            "NRI_PLUGIN_IDX={index}\nNRI_PLUGIN_NAME={name}\nNRI_PLUGIN_SOCKET=3\narguments 0\nits own group\n"
        );
        assert_eq!(text, expected);
        let pid = fs::read_to_string(node.path(&format!("{index}.pid"))).unwrap();
        let process = Path::new("/proc").join(pid.trim());
        until(|| fs::read_to_string(process.join("comm")).unwrap() == "sleep\n").await;
        let passed_on = passed_on();
        let descriptors = fs::read_dir(process.join("fd")).unwrap().filter_map(|entry| {
            let entry = entry.unwrap();
            let number = entry.file_name().into_string().unwrap();
            let leads_to = fs::read_link(entry.path()).unwrap().display().to_string();
            let is_ours = !passed_on.contains(&number);
            is_ours.then(|| format!("{number} {}", leads_to.split(':').next().unwrap()))
        });
        let descriptors: BTreeSet<_> = descriptors.collect();
        let expected = ["0 /dev/null", "1 pipe", "2 pipe", "3 socket"].map(str::to_owned);
        assert_eq!(descriptors, expected.into());
    }
    node.stop().await;
    assert!(launching.await.is_ok());
}

/// Returns the descriptors beyond the first four that this process has inherited, and so passes on
/// to every process that it starts.
fn passed_on() -> Vec<String> {
    const CLOSED: u32 = 0o2_000_000;
    let flags = |number: &str| {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        u32::from_str_radix(flags.trim(), 8).ok()
    };
    let numbers = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    numbers
        .filter(|number| number.parse::<u32>().is_ok_and(|number| number > 3))
        .filter(|number| flags(number).is_some_and(|flags| flags & CLOSED == 0))
        .collect()
}

#[tokio::test]
async fn a_plugin_is_configured_with_its_drop_in() {
    let node = Node::new();
    let script = plugin::script().replacen("exec ", &format!("exec >{}\nexec ", node.path("said").display()), 1);
    node.put("10-a", script);
    node.configure("a.conf", "by = \"name\"\n");
    node.configure("10-a.conf", "by = \"index\"\n");
    node.launch().await;
    assert_eq!(node.plugins(), ["10-a"]);
    let said = fs::read_to_string(node.path("said")).unwrap();
    assert!(said.contains(&format!("configured with {:?}\n", "by = \"index\"\n")), "{said}");
    node.stop().await;
}

/// A37: this includes a program for a machine that does not exist, which upstream would load.
#[tokio::test]
async fn a37_a_program_that_cannot_be_run_is_reported_and_tried_again_and_keeps_no_other() {
    let mut node = Node::new();
    node.put("10-no-interpreter", "#!/nonexistent\n");
    fs::write(node.path("data"), "").unwrap();
    node.put("20-no-permission", format!("#!{}\n", node.path("data").display()));
    node.put("30-wasm", b"\0asm\x01\0\0\0");
    fs::create_dir(node.path("conf.d/40-no-config.conf")).unwrap();
    node.put("40-no-config", plugin::script());
    node.put("50-good", plugin::script());
    node.launch().await;
    assert_eq!(node.plugins(), ["50-good"]);
    let mut happened = node.happened();
    happened.retain(|line| !line.starts_with("50-good"));
    happened.sort();
    let program = |name: &str| node.path("plugins").join(name).display().to_string();
    assert_eq!(
        happened,
        [
            format!(
                "10-no-interpreter not launched: could not start plugin {}: \
                 No such file or directory (os error 2), again in 1s",
                program("10-no-interpreter")
            ),
            format!(
                "20-no-permission not launched: could not start plugin {}: Permission denied (os error 13), again in 1s",
                program("20-no-permission")
            ),
            format!(
                "30-wasm not launched: plugin {} is WebAssembly, which is not supported, again in 1s",
                program("30-wasm")
            ),
            format!(
                "40-no-config not launched: could not read configuration {}: Is a directory (os error 21), again in 1s",
                node.path("conf.d/40-no-config.conf").display()
            ),
        ]
    );
    // The problem is fixed, and the pause is over.
    fs::remove_dir(node.path("conf.d/40-no-config.conf")).unwrap();
    node.until("40-no-config joined").await;
    node.stop().await;
}

#[tokio::test]
async fn nobody_waits_longer_for_a_plugin_that_does_not_register_than_it_may_take() {
    let mut node = Node::new();
    node.put("10-mute", node.script("exec sleep 1000"));
    node.put("20-good", plugin::script());
    let begun = Instant::now();
    node.launch().await;
    assert_eq!(node.plugins(), ["20-good"]);
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(10), "{took:?}");
    let happened = node.until("10-mute exited").await;
    assert_eq!(happened.last().unwrap(), "10-mute exited: signal: 15 (SIGTERM), again in 1s");
    node.stop().await;
}
