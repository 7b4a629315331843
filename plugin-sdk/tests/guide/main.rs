//! The program of `docs/guides/plugin-author.md`: built and tested as it is printed there.

#[allow(dead_code, reason = "the program is not run here")]
mod open_files;

#[test]
fn the_guide_has_the_program_that_is_tested_here() {
    let guide = include_str!("../../../docs/guides/plugin-author.md");
    let blocks = guide.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
    let code = blocks.collect::<Vec<_>>().join("\n").replace("// src/main.rs\n", "");
    assert_eq!(code, include_str!("open_files.rs"));
}
