//! Generates the messages and services of `nri.proto`. No protoc is involved.

fn main() {}
