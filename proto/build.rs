//! Generates the messages and services of `nri.proto`. No protoc is involved.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use ttrpc_codegen::{Codegen, Customize};

/// The generator's own list of modules cannot be included: it has inner attributes, and no messages.
const MODULES: &str = "pub mod nri;\npub mod nri_ttrpc;\n";

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=nri.proto");

    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    Codegen::new()
        .out_dir(&out_dir)
        .include(".")
        .input("nri.proto")
        .rust_protobuf()
        .customize(Customize { async_all: true, ..Customize::default() })
        .run()?;
    stay_safe(&out_dir.join("nri_ttrpc.rs"))?;
    fs::write(out_dir.join("m.rs"), MODULES)
}

/// Takes back the leave to be unsafe that the generator gives its code, which does not use it: a
/// workspace that forbids `unsafe` would not compile it.
fn stay_safe(file: &Path) -> io::Result<()> {
    fs::write(file, fs::read_to_string(file)?.replace("#![allow(unsafe_code)]\n", ""))
}
