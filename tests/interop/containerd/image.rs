//! An image with one static program, which needs no registry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The name of the image, which is also used for the sandboxes of pods.
pub(crate) const NAME: &str = "example.test/inmate:1";

/// Makes an archive of an image with one program, below `dir`.
pub(crate) fn make(dir: &Path, program: &Path) -> PathBuf {
    let layout = Layout(dir.join("image"));
    fs::create_dir_all(layout.0.join("blobs/sha256")).unwrap();
    let name = program.file_name().unwrap();
    tar(&dir.join("layer"), program.parent().unwrap(), &[name.to_str().unwrap()]);
    let layer = layout.add("layer.v1.tar", &fs::read(dir.join("layer")).unwrap());
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {"Entrypoint": [Path::new("/").join(name)]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    });
    let config = layout.add("config.v1+json", config.to_string().as_bytes());
    let manifest =
        json!({"schemaVersion": 2, "mediaType": media_type("manifest.v1+json"), "config": config, "layers": [layer]});
    let mut manifest = layout.add("manifest.v1+json", manifest.to_string().as_bytes());
    manifest["annotations"] = json!({"io.containerd.image.name": NAME});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(layout.0.join("index.json"), index.to_string()).unwrap();
    fs::write(layout.0.join("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}).to_string()).unwrap();
    let archive = dir.join("image.tar");
    tar(&archive, &layout.0, &["oci-layout", "index.json", "blobs"]);
    archive
}

/// A directory with the layout of an OCI image.
struct Layout(PathBuf);

impl Layout {
    /// Adds a blob, and returns its descriptor.
    fn add(&self, kind: &str, bytes: &[u8]) -> Value {
        let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(self.0.join("blobs/sha256").join(&digest), bytes).unwrap();
        json!({"mediaType": media_type(kind), "digest": format!("sha256:{digest}"), "size": bytes.len()})
    }
}

fn media_type(kind: &str) -> String {
    format!("application/vnd.oci.image.{kind}")
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn tar(archive: &Path, dir: &Path, names: &[&str]) {
    let mut command = Command::new("tar");
    command.arg("-C").arg(dir).args(["--owner=0", "--group=0", "-cf"]).arg(archive).args(names);
    assert!(command.status().unwrap().success());
}
