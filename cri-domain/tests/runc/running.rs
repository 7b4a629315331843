//! Effects of runc itself: hooks and devices.

use std::fs;

use cri_domain::generator::host::CdiDevices;
use nri_proto::{CdiDevice, Hook, Hooks};
use serde_json::json;

use crate::bundle::Bundle;

#[test]
fn annotations_are_those_that_runc_knows() {
    let Some(mut bundle) = Bundle::new() else { return };
    bundle.spec["annotations"] = json!({"a": "1", "b": "2"});
    bundle.adjustment.annotations.remove("a");
    bundle.adjustment.annotations.set("c", "3").unwrap();
    assert_eq!(bundle.state()["annotations"], json!({"b": "2", "c": "3"}));
}

#[test]
fn every_hook_is_run() {
    let Some(mut bundle) = Bundle::new() else { return };
    let log = bundle.path().join("hooks");
    let hook = |program: &str, moment: &str, log: &str| Hook {
        path: program.to_owned(),
        args: ["sh", "-c", &format!("echo {moment} $WORD >> {log}")].map(str::to_owned).to_vec(),
        env: vec!["WORD=ran".to_owned()],
        timeout: Some(10),
        ..Hook::default()
    };
    let outside = |moment: &str| vec![hook(bundle.busybox(), moment, log.to_str().unwrap())];
    bundle.adjustment.hooks = Some(Hooks {
        prestart: outside("prestart"),
        create_runtime: outside("createRuntime"),
        create_container: outside("createContainer"),
        // This hook runs inside the container's root.
        start_container: vec![hook("/bin/busybox", "startContainer", "/hooks")],
        poststart: outside("poststart"),
        poststop: outside("poststop"),
        ..Hooks::default()
    });
    assert_eq!(bundle.run("cat /hooks"), "startContainer ran\n");
    let said = fs::read_to_string(&log).unwrap();
    let expected =
        ["prestart", "createRuntime", "createContainer", "poststart", "poststop"].map(|it| format!("{it} ran"));
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_cdi_device_brings_what_it_needs() {
    let Some(mut bundle) = Bundle::new() else { return };
    let device = json!({"cdiVersion": "0.5.0", "kind": "vendor.com/null", "devices": [{
        "name": "a",
        "containerEdits": {
            "env": ["VENDOR=yes"],
            "deviceNodes": [{"path": "/dev/vendor", "hostPath": "/dev/null"}, {"path": "/dev/gone-too", "hostPath": "/dev/full"}],
            "mounts": [{"hostPath": "/proc/sys", "containerPath": "/data", "options": ["rbind", "ro"]}],
        },
    }]});
    let directory = bundle.path().join("cdi");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("vendor.json"), device.to_string()).unwrap();
    let (devices, problems) = CdiDevices::read(&[directory]);
    assert!(problems.is_empty(), "{problems:?}");
    bundle.host.cdi = Some(Box::new(move |spec, names| devices.inject(spec, names)));
    let name = "vendor.com/null=a".to_owned();
    bundle.adjustment.cdi_devices.push(CdiDevice { name, ..CdiDevice::default() });
    // The adjustment is applied after the edits of CDI devices.
    bundle.linux().devices.remove("/dev/gone-too");
    let said = bundle.run(
        "echo $VENDOR; echo x > /dev/vendor && echo written; ls -d /data/kernel; [ ! -e /dev/gone-too ] && echo gone",
    );
    assert_eq!(said, "yes\nwritten\n/data/kernel\ngone\n");
}
