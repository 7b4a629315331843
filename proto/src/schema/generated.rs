//! The messages and services that `build.rs` generates from `nri.proto`.

// The names are upstream's and the style is the generator's.
#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    rustdoc::all,
    unreachable_pub,
    unused
)]

include!(concat!(env!("OUT_DIR"), "/m.rs"));
