//! A short run of each fuzz target: its corpus, and random inputs.

use std::fs;
use std::path::Path;

use nri_tests::fuzz::{TARGETS, Target};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, TestRunner};

/// Returns how many random inputs each target gets. `NRI_LONG` asks for a longer run.
fn cases() -> u32 {
    if std::env::var_os("NRI_LONG").is_some() { 200_000 } else { 5_000 }
}

fn target(name: &str) -> Target {
    TARGETS.into_iter().find(|(known, _)| *known == name).expect("the target exists").1
}

fn run(name: &str, longest: usize) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let inputs = fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
    let mut replayed = 0;
    for input in inputs {
        target(name)(&fs::read(input.unwrap().path()).unwrap());
        replayed += 1;
    }
    assert!(replayed > 0, "the corpus of {name} is empty");
    // Failures are not stored in a file beside this one: the printed seed reproduces them.
    let config = Config { cases: cases(), failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&vec(any::<u8>(), 0..longest), |input| {
            target(name)(&input);
            Ok(())
        })
        .unwrap();
}

#[test]
fn frames_are_decoded_alike_however_they_are_cut() {
    run("frames", 1000);
}

#[test]
fn two_muxes_keep_their_streams_over_any_stream() {
    run("muxes", 200);
}

#[test]
fn every_call_ends_whatever_the_peer_answers() {
    run("calls", 500);
}

#[test]
fn a_server_survives_whatever_the_peer_sends() {
    run("serving", 500);
}

#[test]
fn a_runtime_survives_whatever_a_plugin_does() {
    run("peers", 200);
}

#[test]
fn a_merge_keeps_its_promises_whatever_plugins_reply() {
    run("merges", 2000);
}

#[test]
fn a_spec_is_adjusted_as_a_whole_or_not_at_all_whatever_is_asked() {
    run("generates", 2000);
}

#[test]
fn what_containerd_says_to_a_shim_is_of_one_dialect_at_most() {
    run("bootstrap", 300);
}

#[test]
fn shim_plugins_have_an_order_or_a_reason_why_not() {
    run("graph", 300);
}

#[test]
fn a_configuration_is_read_or_refused_with_a_reason() {
    run("configs", 300);
}

#[test]
fn every_target_has_a_binary_for_libfuzzer() {
    let manifest = include_str!("../fuzz/Cargo.toml");
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "tests/fuzz/Cargo.toml has no {name}");
    }
}
