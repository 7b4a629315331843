//! Rules of this workspace that no lint checks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use toml::Value;

use crate::workspace::Workspace;

#[test]
fn every_member_takes_what_the_workspace_gives() -> Result<()> {
    let workspace = Workspace::load()?;
    // A template becomes a crate outside of the workspace.
    for member in workspace.members.iter().filter(|member| !member.folder.starts_with("templates/")) {
        let inherits = |table: Option<&Value>| table.and_then(|table| table.get("workspace")) == Some(&true.into());
        let manifest = member.manifest();
        ensure!(inherits(member.toml.get("lints")), "{manifest}: [lints] needs `workspace = true`");
        let package = member.toml.get("package").with_context(|| format!("{manifest} has no [package]"))?;
        for key in ["version", "edition", "rust-version", "license", "authors"] {
            ensure!(inherits(package.get(key)), "{manifest}: write `{key}.workspace = true`");
        }
        ensure!(package.get("description").is_some(), "{manifest}: a crate says in `description` what it is");
    }
    Ok(())
}

/// Crates that are not published are exempt.
#[test]
fn a_published_crate_says_what_it_is_for() -> Result<()> {
    for member in Workspace::load()?.members {
        let package = member.toml.get("package").with_context(|| format!("{} has no [package]", member.manifest()))?;
        if package.get("publish").is_some() {
            continue;
        }
        for key in ["keywords", "categories", "readme"] {
            ensure!(package.get(key).is_some(), "{}: `{key}` is missing", member.manifest());
        }
        let docs = package.get("metadata").and_then(|metadata| metadata.get("docs")).and_then(|docs| docs.get("rs"));
        let all = docs.and_then(|docs| docs.get("all-features")) == Some(&true.into());
        ensure!(all, "{}: docs.rs shows all features", member.manifest());
        let license = Workspace::load()?.dir.join(&member.folder).join("LICENSE");
        ensure!(license.exists(), "{}: there is no LICENSE beside it", member.manifest());
    }
    Ok(())
}

/// Each build then checks the minimum version.
#[test]
fn the_minimum_rust_version_is_the_one_that_everything_is_built_with() -> Result<()> {
    let workspace = Workspace::load()?;
    let toolchain: toml::Table = workspace.read("rust-toolchain.toml")?.parse()?;
    let channel = toolchain["toolchain"]["channel"].as_str().context("a channel is text")?;
    let minimum = workspace.root["workspace"]["package"]["rust-version"].as_str().context("a version is text")?;
    ensure!(channel.strip_suffix(".0") == Some(minimum), "rust-version is {minimum}, and the toolchain {channel}");
    Ok(())
}

#[test]
fn a_module_lies_beside_its_folder_never_in_mod_rs() -> Result<()> {
    for file in files("rs")? {
        ensure!(!file.ends_with("mod.rs"), "{}: name the file after the module", file.display());
    }
    Ok(())
}

#[test]
fn comments_wrap_at_100_columns() -> Result<()> {
    for file in files("rs")? {
        let mut in_code = false;
        for (number, line) in fs::read_to_string(&file)?.lines().enumerate() {
            let comment =
                line.trim_start().strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']).trim_start());
            in_code = comment.is_some_and(|text| in_code != text.starts_with("```"));
            let Some(text) = comment.filter(|text| !in_code && !text.starts_with('|') && text.contains(' ')) else {
                continue;
            };
            let width = line.chars().count();
            ensure!(width <= 100, "{}:{}: {width} columns: {text}", file.display(), number + 1);
        }
    }
    Ok(())
}

#[test]
fn links_in_the_documents_lead_somewhere() -> Result<()> {
    for page in files("md")? {
        let text = fs::read_to_string(&page)?;
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            let folder = page.parent().context("a page lies in a folder")?;
            ensure!(folder.join(file).exists(), "{}: there is no {file}", page.display());
        }
    }
    Ok(())
}

/// A path starts at the root, at the page, or at the source of a crate. A path below `src` is in a
/// reader's own project.
#[test]
fn source_files_that_the_documents_name_exist() -> Result<()> {
    let workspace = Workspace::load()?;
    let sources = workspace.members.iter().map(|member| workspace.dir.join(&member.folder).join("src"));
    let sources: Vec<_> = sources.chain([workspace.dir.clone()]).collect();
    for page in files("md")? {
        let text = fs::read_to_string(&page)?;
        let is_path = |word: &&str| {
            word.contains('/') && word.ends_with(".rs") && !word.starts_with("src/") && !word.contains(['*', ' ', '{'])
        };
        for path in text.split('`').skip(1).step_by(2).filter(is_path) {
            let beside = page.parent().into_iter().map(Path::to_owned);
            let exists = sources.iter().cloned().chain(beside).any(|folder| folder.join(path).exists());
            ensure!(exists, "{}: there is no {path}", page.display());
        }
    }
    Ok(())
}

/// In these pages each row names the tests that show it, or says why there is none.
#[test]
fn differences_and_faults_are_shown_by_tests_that_exist() -> Result<()> {
    let tests = test_names()?;
    let is_row = |line: &&str| line.starts_with('|') && !line.starts_with("|-") && !line.ends_with("| shown by |");
    let pages =
        ["SECURITY.md", "docs/differences.md", "docs/faults.md", "docs/spec-fields.md", "docs/upstream-suite.md"];
    for page in pages {
        for row in Workspace::load()?.read(page)?.lines().filter(is_row) {
            let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
            let named: Vec<_> = last.split('`').skip(1).step_by(2).collect();
            let has_reason = last.trim().strip_prefix("none: ").is_some_and(|reason| !reason.is_empty());
            ensure!(has_reason || !named.is_empty(), "{page}: no test is named in `{row}`");
            for name in named.into_iter().filter(|_| !has_reason) {
                ensure!(tests.contains(name), "{page}: no test is called `{name}`");
            }
        }
    }
    Ok(())
}

/// Returns the names of all functions, which include the tests.
fn test_names() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for file in files("rs")? {
        let text = fs::read_to_string(file)?;
        let ends = |c: char| !c.is_alphanumeric() && c != '_';
        names.extend(text.split("fn ").skip(1).filter_map(|rest| rest.split(ends).next()).map(str::to_owned));
    }
    Ok(names)
}

/// Returns our files with this extension. Folders of built or fetched files are left out.
fn files(extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![Workspace::load()?.dir];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("could not list {}", folder.display()))? {
            let path = entry?.path();
            let is_ours = |name: &str| !name.starts_with('.') && name != "target" && name != "corpus";
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && is_ours(name) {
                folders.push(path);
            } else if path.is_file() && Path::new(name).extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    Ok(found)
}
