//! The README of each crate is generated from the front page of its documentation.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;

/// The variable with which the READMEs are written: `NRI_WRITE_READMES=1 cargo test -p nri-tests
/// --test it readme`.
const WRITE: &str = "NRI_WRITE_READMES";

#[test]
fn the_readme_of_a_crate_is_its_front_page() -> Result<()> {
    let workspace = Workspace::load()?;
    let is_published = |toml: &toml::Table| toml["package"].get("publish").is_none();
    for member in workspace.members.iter().filter(|member| is_published(&member.toml)) {
        let path = format!("{}/README.md", member.folder);
        let expected = readme(member.package(), &workspace.read(&format!("{}/src/lib.rs", member.folder))?);
        if std::env::var_os(WRITE).is_some() {
            fs::write(workspace.dir.join(&path), &expected).with_context(|| format!("could not write {path}"))?;
        }
        let found = workspace.read(&path).unwrap_or_default();
        ensure!(found == expected, "{path} is not what lib.rs says: write it anew with {WRITE}=1");
    }
    Ok(())
}

/// Returns a front page for readers without rustdoc: without hidden lines, and without links to
/// items.
fn readme(package: &str, lib: &str) -> String {
    let lines = lib.lines().map_while(|line| line.strip_prefix("//!"));
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
    let mut text = format!("# {package}\n\n");
    let mut in_code = false;
    for line in lines {
        if line.starts_with("```") {
            text.push_str(if in_code || line != "```" { line } else { "```rust" });
            in_code = !in_code;
        } else if in_code && (line == "#" || line.starts_with("# ")) {
            continue;
        } else if in_code {
            text.push_str(line);
        } else {
            // Headings of the front page are one level lower in the README.
            text.push_str(if line.starts_with('#') { "#" } else { "" });
            text.push_str(&without_links_to_items(line));
        }
        text.push('\n');
    }
    text
}

/// Replaces the links ``[`Item`]``, ``[`Item`](path::Item)`` and `[words](path::Item)` by their
/// text. Links to pages stay.
fn without_links_to_items(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((shown, behind)) = after.split_once(']') else { break };
        text.push_str(before);
        let target = behind.strip_prefix('(').and_then(|behind| behind.split_once(')'));
        match target {
            Some((target, behind)) if !target.contains("://") && !target.contains('/') => {
                text.push_str(shown);
                rest = behind;
            }
            None if shown.starts_with('`') => {
                text.push_str(shown);
                rest = behind;
            }
            _ => {
                text.push('[');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod maker {
    use super::*;

    #[test]
    fn hidden_lines_and_links_to_items_are_left_out() {
        let lib =
            "//! A [`Thing`], [some](crate::Thing) of [`them`](crate::them) in `a[0]`, see [page](https://x.org/[y]).
//!
//! # More
//!
//! ```
//! # use x;
//! let a = b[0];
//! #
//! #[derive(Debug)]
//! ```

mod thing;
//! no";
        let expected = "# name

A `Thing`, some of `them` in `a[0]`, see [page](https://x.org/[y]).

## More

```rust
let a = b[0];
#[derive(Debug)]
```
";
        assert_eq!(readme("name", lib), expected);
    }
}
