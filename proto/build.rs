//! Generates code and tables from `nri.proto`, without `protoc`: the messages and services, the
//! descriptors, the numbers of fields, and the table of fields that contain messages.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use protobuf::Message;
use protobuf::descriptor::field_descriptor_proto::{Label, Type};
use protobuf::descriptor::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};
use ttrpc_codegen::{Codegen, Customize, ProtobufCustomize};

/// The list of generated modules. The generator's own list cannot be included, because it has inner
/// attributes and lacks the messages.
const MODULES: &str = "pub mod nri;\npub mod nri_ttrpc;\n";

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=nri.proto");

    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    generate(&out_dir)?;
    stay_safe(&out_dir.join("nri_ttrpc.rs"))?;
    fs::write(out_dir.join("m.rs"), MODULES)?;

    let file = parse()?;
    fs::write(out_dir.join("nri.bin"), file.write_to_bytes()?)?;
    fs::write(out_dir.join("field_numbers.rs"), field_numbers(&file))?;
    fs::write(out_dir.join("shapes.rs"), shapes(&file))
}

fn generate(out_dir: &Path) -> io::Result<()> {
    // The lite runtime leaves out the descriptors, which would be in each program. See
    // `src/schema/descriptor.rs`.
    let messages = ProtobufCustomize::default().lite_runtime(true);
    Codegen::new()
        .out_dir(out_dir)
        .include(".")
        .input("nri.proto")
        .rust_protobuf()
        .rust_protobuf_customize(messages)
        .customize(Customize { async_all: true, ..Customize::default() })
        .run()
}

/// Removes the attribute with which the generator allows `unsafe` in its code.
///
/// The code uses none, and a workspace that forbids `unsafe` does not compile the attribute.
fn stay_safe(file: &Path) -> io::Result<()> {
    fs::write(file, fs::read_to_string(file)?.replace("#![allow(unsafe_code)]\n", ""))
}

fn parse() -> io::Result<FileDescriptorProto> {
    let parsed = protobuf_parse::Parser::new().pure().include(".").input("nri.proto").file_descriptor_set();
    let set = parsed.map_err(|error| io::Error::other(format!("{error:#}")))?;
    set.file.into_iter().next().ok_or_else(|| io::Error::other("the parser returned no file for nri.proto"))
}

/// Returns the source of a module for each message, with a constant for the number of each field.
fn field_numbers(file: &FileDescriptorProto) -> String {
    let mut modules = String::new();
    for message in &file.message_type {
        let mut fields: Vec<_> = message.field.iter().map(|field| (field.number(), field.name())).collect();
        fields.sort_unstable();
        let all: Vec<_> = fields.iter().map(|(number, _)| number).collect();
        modules += &format!("pub mod {} {{\n    pub const ALL: [u32; {}] = {all:?};\n", message.name(), all.len());
        for (number, name) in fields {
            // Messages have the same name for a field that is a keyword of Rust.
            let name = if name == "type" { "type_" } else { name };
            modules += &format!("    pub const {name}: u32 = {number};\n");
        }
        modules += "}\n";
    }
    modules
}

/// Returns the source of the table of shapes: a row for each message, with the fields that contain
/// messages, maps or lists of numbers.
fn shapes(file: &FileDescriptorProto) -> String {
    let messages = &file.message_type;
    let mut table = "&[\n".to_owned();
    for message in messages {
        write!(table, "    (\"{}\", &[", message.name()).expect("writing to a string does not fail");
        for field in &message.field {
            let is_number = !matches!(field.type_(), Type::TYPE_MESSAGE | Type::TYPE_STRING | Type::TYPE_BYTES);
            let kind = if field.type_() == Type::TYPE_MESSAGE {
                message_kind(messages, message, field)
            } else if is_number && field.label() == Label::LABEL_REPEATED {
                "FieldKind::Numbers".to_owned()
            } else {
                continue;
            };
            write!(table, "({}, {kind}), ", field.number()).expect("writing to a string does not fail");
        }
        table.push_str("]),\n");
    }
    table.push(']');
    table
}

/// Returns the kind of a field that contains messages, as source code.
fn message_kind(messages: &[DescriptorProto], message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let index = |field: &FieldDescriptorProto| {
        let name = field.type_name().rsplit('.').next().unwrap_or_default();
        messages.iter().position(|message| message.name() == name)
    };
    let is_entry =
        |nested: &&DescriptorProto| field.type_name().ends_with(&format!(".{}.{}", message.name(), nested.name()));
    match message.nested_type.iter().find(is_entry) {
        Some(entry) => {
            let value = entry.field.iter().find(|field| field.number() == 2);
            let value = value.filter(|value| value.type_() == Type::TYPE_MESSAGE).and_then(index);
            format!("FieldKind::Map({value:?})")
        }
        None => {
            let several = if field.label() == Label::LABEL_REPEATED { "s" } else { "" };
            let index = index(field).expect("nri.proto nests no messages but the entries of maps");
            format!("FieldKind::Message{several}({index})")
        }
    }
}
