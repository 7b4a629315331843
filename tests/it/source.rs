//! The source of a crate: its modules, what each of them uses of the crate, and the types that it
//! declares.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, ItemEnum, ItemMod, ItemStruct, ItemTrait, ItemType, ItemUse, Macro, UseTree};

/// A file of a crate.
pub(crate) struct Module {
    /// The path from `src`, with slashes.
    pub(crate) file: String,
    /// The types and traits that the file declares, without those of its tests.
    pub(crate) types: Vec<String>,
    /// The path of the module: `["session", "journal"]`.
    path: Vec<String>,
    /// The names directly below the crate's root that the module uses.
    used: Vec<String>,
}

/// Returns all files of a crate except `lib.rs` and those that only tests use.
pub(crate) fn modules(source: &Path) -> Result<Vec<Module>> {
    let mut found = Vec::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("could not list {}", folder.display()))? {
            let path = entry?.path();
            let file = path.strip_prefix(source)?.to_string_lossy().into_owned();
            if matches!(path.file_stem().and_then(|name| name.to_str()), Some("tests" | "lib")) {
                continue;
            } else if path.is_dir() {
                folders.push(path);
            } else if file.ends_with(".rs") {
                let text = fs::read_to_string(&path).with_context(|| format!("could not read {file}"))?;
                found.push(Module::parse(&file, &text)?);
            }
        }
    }
    Ok(found)
}

impl Module {
    pub(crate) fn parse(file: &str, text: &str) -> Result<Self> {
        let path = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        let mut module = Self { file: file.to_owned(), types: Vec::new(), path, used: Vec::new() };
        let tree = syn::parse_file(text).with_context(|| format!("could not parse {file}"))?;
        module.visit_file(&tree);
        Ok(module)
    }

    /// Returns the room of the module: the module directly below `lib.rs` that it is or lies in.
    pub(crate) fn room(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }

    /// Returns the names directly below the crate's root that the module uses, except its own room.
    pub(crate) fn used_of_root(&self) -> impl Iterator<Item = &str> {
        self.used.iter().map(String::as_str).filter(|used| *used != self.room())
    }

    /// Records a path if it leads through the root of the crate.
    fn note(&mut self, path: &[String]) {
        let root = match path.first().map(String::as_str) {
            Some("crate") => Some(1),
            Some("super" | "self") => {
                let ups = path.iter().filter(|segment| *segment == "super").count();
                let steps = path.iter().take_while(|segment| matches!(&***segment, "super" | "self")).count();
                (ups == self.path.len()).then_some(steps)
            }
            _ => None,
        };
        if let Some(name) = root.and_then(|root| path.get(root)) {
            self.used.push(name.clone());
        }
    }

    fn note_tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |ident: &Ident| [before, &[ident.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.note_tree(&with(&path.ident), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_tree(before, tree)),
            UseTree::Name(name) => self.note(&with(&name.ident)),
            UseTree::Rename(rename) => self.note(&with(&rename.ident)),
            UseTree::Glob(_) => self.note(&[before, &["*".to_owned()]].concat()),
        }
    }

    /// Records the paths in the arguments of a macro, which have no syntax of their own.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            if matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ':') {
                colons += 1;
                continue;
            }
            if colons != 2 || !matches!(token, TokenTree::Ident(_)) {
                self.note(&std::mem::take(&mut path));
            }
            colons = 0;
            match token {
                TokenTree::Ident(ident) => path.push(ident.to_string()),
                TokenTree::Group(group) => self.note_tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        self.note(&path);
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if is_for_tests(&item.attrs) {
            return;
        }
        self.path.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.path.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.note_tree(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.note(&segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.note_tokens(item.tokens.clone());
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.types.push(item.ident.to_string());
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.types.push(item.ident.to_string());
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.types.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.types.push(item.ident.to_string());
        visit::visit_item_type(self, item);
    }
}

/// Returns whether an item is compiled for tests alone.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.parse_args::<Ident>().is_ok_and(|name| name == "test")
    })
}
