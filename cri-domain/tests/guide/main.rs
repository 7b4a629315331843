//! The code of `docs/guides/cri-author.md`, as it stands there: it is built, and its tests run.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    reason = "it is what a reader would write"
)]

#[allow(dead_code, reason = "no server calls it here")]
mod nri;

#[test]
fn the_guide_has_the_code_that_is_tested_here() {
    let guide = include_str!("../../../docs/guides/cri-author.md");
    let blocks = guide.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
    let code = blocks.collect::<Vec<_>>().join("\n").replace("// src/nri.rs\n", "");
    assert_eq!(code, include_str!("nri.rs"));
}
