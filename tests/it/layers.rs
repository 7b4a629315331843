//! Which crate may use which: the table in `docs/architecture.md`, compared with the manifests.
//!
//! Dependencies and build dependencies count, whatever their platform; dev-dependencies do not.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use toml::{Table, Value};

use crate::workspace::{Member, Workspace};

const PAGE: &str = "docs/architecture.md";

#[test]
fn manifests_have_only_the_arrows_of_the_table() -> Result<()> {
    let workspace = Workspace::load()?;
    let table = Layers::parse(&workspace.read(PAGE)?)?;
    let breaches = table.breaches(&workspace);
    ensure!(breaches.is_empty(), "{}", breaches.join("\n"));
    Ok(())
}

/// The table: one row per crate, named by its folder.
struct Layers {
    rows: BTreeMap<String, Row>,
}

#[derive(Default)]
struct Row {
    /// The row as it is written, for messages.
    text: String,
    everything: bool,
    uses: BTreeSet<String>,
    /// The folders that a feature which is off by default may use in addition, by feature.
    with_feature: BTreeMap<String, BTreeSet<String>>,
}

impl Layers {
    /// Reads the one table of `page` whose head is `| crate | may use |`.
    fn parse(page: &str) -> Result<Self> {
        let mut lines = page.lines().skip_while(|line| cells(line) != Some(("crate", "may use")));
        ensure!(lines.next().is_some(), "{PAGE} has no table with the head `| crate | may use |`");
        let mut rows = BTreeMap::new();
        for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
            let (crates, uses) =
                cells(line).with_context(|| format!("{PAGE}: a row has two cells, unlike `{line}`"))?;
            for name in list(crates) {
                let row = Row::parse(&name, line, uses)?;
                ensure!(rows.insert(name.clone(), row).is_none(), "{PAGE}: {name} has two rows");
            }
        }
        let layers = Self { rows };
        layers.check_names()?;
        Ok(layers)
    }

    /// Checks that each name in the table has a row. A misspelt name would have no effect.
    fn check_names(&self) -> Result<()> {
        for row in self.rows.values() {
            for used in row.uses.iter().chain(row.with_feature.values().flatten()) {
                ensure!(self.rows.contains_key(used), "{PAGE}: `{used}` in `{}` has no row of its own", row.text);
            }
        }
        Ok(())
    }

    /// Returns the row of a member. A row also applies to the folders below its own, as `tests`
    /// does to `tests/bench`.
    fn row(&self, folder: &str) -> Option<&Row> {
        let parents = std::iter::successors(Some(folder), |folder| folder.rsplit_once('/').map(|(parent, _)| parent));
        parents.into_iter().find_map(|folder| self.rows.get(folder))
    }

    /// Returns a sentence for each dependency that the table does not allow.
    fn breaches(&self, workspace: &Workspace) -> Vec<String> {
        let mut breaches = Vec::new();
        for member in &workspace.members {
            let Some(row) = self.row(&member.folder) else {
                breaches.push(format!("{} is in the workspace, but has no row in {PAGE}", member.manifest()));
                continue;
            };
            for arrow in arrows(workspace, member) {
                if let Some(breach) = row.breach(member, &arrow) {
                    breaches.push(breach);
                }
            }
        }
        breaches
    }
}

impl Row {
    fn parse(name: &str, line: &str, uses: &str) -> Result<Self> {
        let mut row = Self { text: line.to_owned(), ..Self::default() };
        let (plain, note) = match uses.split_once('(') {
            Some((plain, note)) => (plain, note.trim_end().trim_end_matches(')')),
            None => (uses, ""),
        };
        let plain = plain.split(';').next().unwrap_or_default().trim();
        match plain {
            "everything" => row.everything = true,
            "nothing of ours" => {}
            _ => row.uses = list(plain).collect(),
        }
        // `plugin-sdk's `testing` feature also adaptation`; any other note is for people.
        if let Some((owner, rest)) = note.split_once("'s `") {
            let Some((feature, also)) = rest.split_once("` feature also ") else {
                bail!("{PAGE}: a note about a feature reads \"X's `F` feature also Y\", unlike `{note}`");
            };
            if owner == name {
                row.with_feature.insert(feature.to_owned(), list(also).collect());
            }
        }
        Ok(row)
    }

    fn breach(&self, member: &Member, arrow: &Arrow) -> Option<String> {
        if self.everything || self.uses.contains(&arrow.to) {
            return None;
        }
        let with_feature = self.with_feature.iter().filter(|(_, uses)| uses.contains(&arrow.to));
        let features: Vec<_> = with_feature.map(|(feature, _)| feature).collect();
        let Arrow { key, to, enabled_by } = arrow;
        let manifest = member.manifest();
        let why = match enabled_by {
            EnabledBy::Always if features.is_empty() => "",
            EnabledBy::Always => ", and here it is not optional",
            EnabledBy::Features(on) if on.iter().all(|on| features.contains(&on)) => return None,
            EnabledBy::Features(_) if features.is_empty() => "",
            EnabledBy::Features(_) => ", and here another feature turns it on",
        };
        Some(format!("{manifest} depends on {key} ({to}), which {PAGE} does not allow{why}: {}", self.text))
    }
}

/// A dependency of one member on another.
struct Arrow {
    key: String,
    /// The folder of the member that is used.
    to: String,
    enabled_by: EnabledBy,
}

enum EnabledBy {
    Always,
    /// An optional dependency, which these features turn on, directly or through others.
    Features(BTreeSet<String>),
}

fn arrows(workspace: &Workspace, member: &Member) -> Vec<Arrow> {
    let mut arrows = Vec::new();
    for (key, dependency) in dependencies(&member.toml) {
        let shared = workspace.shared_dependency(key);
        let spec = if dependency.get("workspace").is_some() { shared.unwrap_or(dependency) } else { dependency };
        let package = spec.get("package").and_then(Value::as_str).unwrap_or(key);
        let Some(used) = workspace.members.iter().find(|other| other.package() == package) else { continue };
        let optional = dependency.get("optional").and_then(Value::as_bool).unwrap_or_default();
        let enabled_by = if optional { EnabledBy::Features(enablers(&member.toml, key)) } else { EnabledBy::Always };
        arrows.push(Arrow { key: key.clone(), to: used.folder.clone(), enabled_by });
    }
    arrows
}

/// Returns all `dependencies` and `build-dependencies`, including those for single targets.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&String, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let places = std::iter::once(manifest).chain(targets.filter_map(Value::as_table));
    let kinds = places.flat_map(|place| ["dependencies", "build-dependencies"].map(|kind| place.get(kind)));
    kinds.flatten().filter_map(Value::as_table).flatten()
}

/// Returns the features that turn an optional dependency on, directly or through other features.
fn enablers(manifest: &Table, key: &str) -> BTreeSet<String> {
    let features: Vec<(&String, Vec<&str>)> =
        (manifest.get("features").and_then(Value::as_table).into_iter().flatten())
            .map(|(name, entries)| (name, entries.as_array().into_iter().flatten().filter_map(Value::as_str).collect()))
            .collect();
    let explicit = format!("dep:{key}");
    let mut on = BTreeSet::new();
    // Unless `dep:` is used, cargo creates a feature with the name of the dependency.
    if !features.iter().any(|(_, entries)| entries.contains(&&*explicit)) {
        on.insert(key.to_owned());
    }
    loop {
        let before = on.len();
        for (name, entries) in &features {
            let through = |entry: &&str| entry.split_once('/').is_some_and(|(dependency, _)| dependency == key);
            if entries.iter().any(|entry| *entry == explicit || through(entry) || on.contains(*entry)) {
                on.insert((*name).clone());
            }
        }
        if on.len() == before {
            return on;
        }
    }
}

fn cells(line: &str) -> Option<(&str, &str)> {
    let (left, right) = line.trim().strip_prefix('|')?.strip_suffix('|')?.split_once('|')?;
    Some((left.trim(), right.trim()))
}

fn list(names: &str) -> impl Iterator<Item = String> {
    names.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod checker {
    //! Tests of the checker itself, on an invented workspace: it must be able to fail.

    use super::*;

    const TABLE: &str = "\
Some words.

| crate | may use |
|---|---|
| proto | nothing of ours |
| adaptation, sdk | proto (sdk's `testing` feature also adaptation) |
| cmd/relay | adaptation, proto (people read this) |
| tests | everything; dev-dependencies of the others are not counted |

Words after it.
";

    /// Returns the breaches of [`TABLE`] in a workspace of these manifests, each given as a folder
    /// and the text that follows `[package]`.
    fn breaches(manifests: &[(&str, &str)]) -> Result<Vec<String>> {
        let folders: Vec<_> = manifests.iter().map(|(folder, _)| format!("{folder:?}")).collect();
        let shared = "nri-proto = { path = 'proto' }\nrenamed = { path = 'adaptation', package = 'nri-adaptation' }";
        let root = format!("[workspace]\nmembers = [{}]\n[workspace.dependencies]\n{shared}", folders.join(", "));
        let mut workspace = Workspace { root: root.parse()?, members: Vec::new(), dir: "/nowhere".into() };
        for (folder, rest) in manifests {
            let name = folder.rsplit('/').next().unwrap_or_default();
            let toml = format!("[package]\nname = \"nri-{name}\"\n{rest}").parse()?;
            workspace.members.push(Member { folder: (*folder).to_owned(), toml });
        }
        Ok(Layers::parse(TABLE)?.breaches(&workspace))
    }

    /// Checks that there is exactly one breach, and that its text contains all of `words`.
    fn check_breach(manifests: &[(&str, &str)], words: &[&str]) {
        let breaches = breaches(manifests).unwrap();
        assert_eq!(breaches.len(), 1, "{breaches:?}");
        for word in words {
            assert!(breaches[0].contains(word), "{word:?} is not in {:?}", breaches[0]);
        }
    }

    fn check_clean(manifests: &[(&str, &str)]) {
        assert_eq!(breaches(manifests).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_of_the_table_is_allowed() {
        check_clean(&[
            ("proto", ""),
            ("adaptation", "[dependencies]\nnri-proto.workspace = true"),
            ("cmd/relay", "[dependencies]\nnri-adaptation = { path = '../../adaptation' }\nserde = '1'"),
            ("tests/bench", "[dependencies]\nnri-relay = '1'\nnri-proto = '1'"),
        ]);
    }

    #[test]
    fn a_forbidden_arrow_names_manifest_crate_and_row() {
        let words = ["proto/Cargo.toml", "nri-adaptation (adaptation)", "| proto | nothing of ours |"];
        check_breach(&[("proto", "[dependencies]\nnri-adaptation = '1'"), ("adaptation", "")], &words);
    }

    #[test]
    fn an_arrow_hides_in_no_corner_of_a_manifest() {
        for corner in [
            "[build-dependencies]\nnri-adaptation = '1'",
            "[target.'cfg(unix)'.dependencies]\nnri-adaptation = '1'",
            "[target.'cfg(unix)'.build-dependencies]\nnri-adaptation = '1'",
            "[dependencies]\nother = { version = '1', package = 'nri-adaptation' }",
            "[dependencies]\nrenamed.workspace = true",
            "[dependencies]\nnri-adaptation = { version = '1', optional = true }\n[features]\nx = ['dep:nri-adaptation']",
        ] {
            check_breach(&[("proto", corner), ("adaptation", "")], &["proto/Cargo.toml"]);
        }
    }

    #[test]
    fn dev_dependencies_are_not_counted() {
        check_clean(&[("proto", "[dev-dependencies]\nnri-adaptation = '1'"), ("adaptation", "")]);
    }

    #[test]
    fn a_crate_without_a_row_is_a_breach() {
        check_breach(&[("cmd/other", "")], &["cmd/other/Cargo.toml", "no row"]);
    }

    #[test]
    fn a_feature_may_use_what_its_note_says_and_only_it() {
        let optional = "[dependencies]\nnri-adaptation = { version = '1', optional = true }\n[features]\n";
        let sdk = |features: &str| format!("{optional}{features}");
        let clean = sdk("testing = ['dep:nri-adaptation', 'nri-adaptation/x']\nfast = ['nri-adaptation?/fast']");
        check_clean(&[("sdk", &clean), ("adaptation", "")]);

        let always = "[dependencies]\nnri-adaptation = '1'";
        check_breach(&[("sdk", always), ("adaptation", "")], &["not optional"]);
        for features in [
            "testing = ['dep:nri-adaptation']\ndefault = ['testing']",
            "testing = ['dep:nri-adaptation']\nextra = ['dep:nri-adaptation']",
            "testing = ['nri-adaptation']",
            "",
        ] {
            check_breach(&[("sdk", &sdk(features)), ("adaptation", "")], &["another feature"]);
        }
        // The note is about sdk, which shares its row.
        check_breach(&[("adaptation", "[dependencies]\nnri-sdk = '1'"), ("sdk", "")], &["adaptation/Cargo.toml"]);
    }

    #[test]
    fn a_table_that_says_nothing_is_refused() {
        for page in
            ["no table", &TABLE.replace("| tests |", "| proto |"), &TABLE.replace("adaptation, proto", "adaption")]
        {
            assert!(Layers::parse(page).is_err(), "{page}");
        }
    }
}
