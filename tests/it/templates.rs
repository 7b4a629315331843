//! The crates that `make new-plugin` and `make new-shim` write.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;

/// Writes a crate from a template, and returns what `scripts/new` prints.
fn write(kind: &str, name: &str, dir: &Path) -> Result<String> {
    let script = Workspace::load()?.dir.join("scripts/new");
    let output = Command::new(script).args([kind, name]).arg(dir).output()?;
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8(printed)?;
    ensure!(output.status.success(), "{printed}");
    Ok(printed)
}

#[test]
fn a_crate_from_a_template_has_its_own_name_and_stands_alone() -> Result<()> {
    let place = tempfile::tempdir()?;
    for (kind, package) in [("plugin", "my-first"), ("shim", "containerd-shim-my-first-v1")] {
        let dir = place.path().join(package);
        let printed = write(kind, "my-first", &dir)?;
        ensure!(printed.contains(&format!("wrote {package}")), "{printed}");
        for file in fs::read_dir(dir.join("src"))?.chain(fs::read_dir(&dir)?) {
            let path = file?.path();
            if path.is_dir() || path.ends_with("Cargo.lock") {
                continue;
            }
            let text = fs::read_to_string(&path)?;
            let is_own = |word: &str| !text.contains(word);
            ensure!(["template", "Template", "#[path"].into_iter().all(is_own), "{}: {text}", path.display());
        }
        // Every module has its file: rustfmt reads them all.
        let read =
            Command::new("rustfmt").args(["--check", "--edition", "2024"]).arg(dir.join("src/main.rs")).output()?;
        let errors = String::from_utf8_lossy(&read.stderr).into_owned();
        ensure!(errors.is_empty(), "{errors}");
        let manifest: toml::Table = fs::read_to_string(dir.join("Cargo.toml"))?.parse()?;
        ensure!(manifest["package"]["name"].as_str() == Some(package) && manifest.contains_key("workspace"));
        for (name, dependency) in manifest["dependencies"].as_table().context("dependencies are a table")? {
            if let Some(path) = dependency.get("path").and_then(toml::Value::as_str) {
                ensure!(dir.join(path).join("Cargo.toml").exists(), "{name} is not at {path}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_crate_is_not_written_over_another_nor_under_a_name_that_cannot_be() -> Result<()> {
    let place = tempfile::tempdir()?;
    let dir = place.path().join("mine");
    write("plugin", "mine", &dir)?;
    let refused = write("plugin", "mine", &dir).unwrap_err();
    ensure!(refused.to_string().contains("is there already"), "{refused}");
    for name in ["", "Mine", "my_plugin", "-x", "x-", "x--y", "my-template", "../x"] {
        let refused = write("plugin", name, &place.path().join("other")).unwrap_err();
        ensure!(refused.to_string().contains("is no name for a plugin"), "{refused}");
    }
    ensure!(!place.path().join("other").exists());
    Ok(())
}

#[test]
fn the_guide_for_shims_shows_the_service_of_the_template() -> Result<()> {
    let workspace = Workspace::load()?;
    let guide = workspace.read("docs/guides/shim-author.md")?;
    for file in ["proto/greeter.proto", "build.rs", "src/greeter.rs"] {
        let text = workspace.read(&format!("templates/shim/{file}"))?;
        let text = text.replace("Template", "Hello").replace("template", "hello");
        ensure!(guide.contains(&text), "the guide shows another {file}");
    }
    Ok(())
}
