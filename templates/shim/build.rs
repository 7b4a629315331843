//! Generates the messages and the service of `proto/greeter.proto`, without `protoc`.

use std::path::PathBuf;
use std::{env, fs, io};

use ttrpc_codegen::{Codegen, Customize, ProtobufCustomize};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=proto");
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    Codegen::new()
        .out_dir(&out_dir)
        .include("proto")
        .input("proto/greeter.proto")
        .rust_protobuf()
        // The lite runtime leaves the descriptors out of the program.
        .rust_protobuf_customize(ProtobufCustomize::default().lite_runtime(true))
        .customize(Customize { async_all: true, ..Customize::default() })
        .run()?;
    // The generator writes a list of modules that cannot be included, so this is another one.
    fs::write(out_dir.join("generated.rs"), "pub mod greeter;\npub mod greeter_ttrpc;\n")
}
