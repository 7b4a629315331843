//! The programs of `docs/guides/plugin-author.md` and of the front page, `README.md`: built and
//! tested as they are printed there.

#[allow(dead_code, reason = "the program is not run here")]
mod front_page;
#[allow(dead_code, reason = "the program is not run here")]
mod open_files;

#[test]
fn the_guide_has_the_program_that_is_tested_here() {
    let code = program(include_str!("../../../docs/guides/plugin-author.md"));
    assert_eq!(code, include_str!("open_files.rs"));
}

#[test]
fn the_front_page_has_the_program_that_is_tested_here() {
    assert_eq!(program(include_str!("../../../README.md")), include_str!("front_page.rs"));
}

/// Returns the Rust code of a page as one program.
fn program(page: &str) -> String {
    let blocks = page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.collect::<Vec<_>>().join("\n").replace("// src/main.rs\n", "")
}
