//! The rooms of each crate, and the names in them: the table in `docs/architecture.md`, compared
//! with the source.
//!
//! A room is a module directly below `lib.rs`. It uses rooms that stand before it in the row of its
//! crate, and no others. Tests may use all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::source::{Module, modules};
use crate::workspace::Workspace;

const PAGE: &str = "docs/architecture.md";
const HEAD: &str = "| crate | rooms, lowest first |";

#[test]
fn a_room_uses_only_the_rooms_below_it() -> Result<()> {
    let workspace = Workspace::load()?;
    let rows = rows(&workspace.read(PAGE)?)?;
    ensure!(!rows.is_empty(), "{PAGE} has no row below `{HEAD}`");
    let mut breaches = Vec::new();
    for (folder, rooms) in &rows {
        let source = workspace.dir.join(folder).join("src");
        breaches.extend(unlisted(&rooms_of(&source)?, rooms).map(|breach| format!("{folder}: {breach}")));
        for module in modules(&source)? {
            breaches.extend(upward(&module, rooms).map(|breach| format!("{folder}: {breach}")));
        }
    }
    ensure!(breaches.is_empty(), "{}", breaches.join("\n"));
    Ok(())
}

#[test]
fn no_two_types_of_a_crate_have_one_name() -> Result<()> {
    let workspace = Workspace::load()?;
    let mut twice = Vec::new();
    for (folder, _) in rows(&workspace.read(PAGE)?)? {
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for module in modules(&workspace.dir.join(&folder).join("src"))? {
            for name in module.types {
                places.entry(name).or_default().push(module.file.clone());
            }
        }
        let of_one_name = places.into_iter().filter(|(_, files)| files.len() > 1);
        twice.extend(
            of_one_name.map(|(name, files)| format!("{folder}: {name} is a type in {}", files.join(" and in "))),
        );
    }
    ensure!(twice.is_empty(), "{}", twice.join("\n"));
    Ok(())
}

/// Returns the rows of the table: the folder of a crate, and its rooms from the lowest to the
/// highest.
fn rows(page: &str) -> Result<Vec<(String, Vec<String>)>> {
    let lines = page.lines().skip_while(|line| line.trim() != HEAD).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|')).map(|line| {
        let (folder, rooms) =
            line.trim_matches('|').split_once('|').with_context(|| format!("no two cells: `{line}`"))?;
        Ok((folder.trim().to_owned(), rooms.split(',').map(|room| room.trim().to_owned()).collect()))
    });
    rows.collect()
}

/// Returns the modules directly below `lib.rs`, without its tests.
fn rooms_of(source: &Path) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(source).with_context(|| format!("could not list {}", source.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().trim_end_matches(".rs").to_owned()));
    let names = names.collect::<Result<BTreeSet<_>>>()?;
    Ok(names.into_iter().filter(|name| !matches!(&**name, "lib" | "main" | "tests")).collect())
}

/// Returns a sentence for each room that only one of the table and the source has.
fn unlisted<'a>(found: &'a BTreeSet<String>, listed: &'a [String]) -> impl Iterator<Item = String> + 'a {
    let new = found.iter().filter(|room| !listed.contains(room));
    let gone = listed.iter().filter(|room| !found.contains(*room));
    new.map(|room| format!("{PAGE} does not say where the room {room} stands"))
        .chain(gone.map(|room| format!("{PAGE} names a room {room}, which is not there")))
}

/// Returns a sentence for each use of a room above the module's own, and of a name of the crate's
/// root.
fn upward<'a>(module: &'a Module, rooms: &'a [String]) -> impl Iterator<Item = String> + 'a {
    let place = |room: &str| rooms.iter().position(|other| other == room);
    let own = place(module.room()).unwrap_or(rooms.len());
    module.used_of_root().filter_map(move |used| match place(used) {
        Some(other) if other <= own => None,
        Some(_) => Some(format!("{} uses {used}, which stands above {}", module.file, module.room())),
        None => Some(format!("{} uses crate::{used}: import it from the room that it lies in", module.file)),
    })
}

#[cfg(test)]
mod checker {
    //! Tests of the checker itself: it must be able to fail.

    use super::*;

    fn breaches(file: &str, text: &str) -> Vec<String> {
        let rooms = ["low", "middle", "high"].map(str::to_owned);
        let module = Module::parse(file, text).unwrap();
        upward(&module, &rooms).collect()
    }

    #[test]
    fn what_lies_below_may_be_used_in_every_way() {
        let text = "use crate::low::{A, b::C}; use super::low::D; use self::inner::E; use other::high::F;
            mod inner { use super::super::super::low::G; use super::H; }
            fn f() -> crate::middle::I { x!(crate::low::J) }
            #[cfg(test)] mod tests { use crate::high::K; }";
        assert_eq!(breaches("middle.rs", text), Vec::<String>::new().as_slice());
    }

    #[test]
    fn what_lies_above_hides_in_no_corner() {
        for text in [
            "use crate::high::A;",
            "use crate::{low::A, high::B};",
            "pub use super::high;",
            "mod inner { use super::super::high::A; }",
            "fn f() { crate::high::g(); }",
            "fn f(a: Vec<crate::high::A>) {}",
            "fn f() { assert!(matches!(a, crate::high::A)); }",
        ] {
            assert_eq!(breaches("middle.rs", text).len(), 1, "{text}");
        }
        assert_eq!(breaches("middle/deep/one.rs", "use super::super::super::high::A;").len(), 1);
    }

    #[test]
    fn a_name_of_the_root_is_no_way_around() {
        assert_eq!(breaches("low.rs", "use crate::Reexported;").len(), 1);
    }

    #[test]
    fn a_room_that_only_one_side_knows_is_found() {
        let found = BTreeSet::from(["low", "new"].map(str::to_owned));
        let breaches: Vec<_> = unlisted(&found, &["low".to_owned(), "gone".to_owned()]).collect();
        assert_eq!(breaches.len(), 2, "{breaches:?}");
    }
}
