//! Compares the protocol with Go's, item by item.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use nri_proto::descriptor;
use nri_tests::go;
use protobuf::descriptor::field_descriptor_proto::Label;
use protobuf::descriptor::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, MethodDescriptorProto,
    ServiceDescriptorProto,
};

#[test]
fn our_schema_is_that_of_the_go_module_field_by_field() {
    let Ok(descriptors) = go::program("descriptors") else { return };
    let output = Command::new(descriptors).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let theirs = String::from_utf8(output.stdout).unwrap();

    check(&lines(&descriptor::proto()), &theirs.lines().map(str::to_owned).collect());
}

/// `cri-domain` has its own messages, with which it reads those of a CRI server.
#[test]
fn our_messages_of_the_cri_are_those_of_kubernetes_field_by_field() {
    let Ok(module) = go::module("k8s.io/cri-api") else { return };
    let ours = parsed(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../cri-domain"), "cri.proto");
    // This option changes no message, and our parser does not know it.
    let theirs = fs::read_to_string(module.join("pkg/apis/runtime/v1/api.proto")).unwrap();
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("api.proto"), theirs.replace(" [debug_redact = true]", "")).unwrap();
    let theirs = parsed(place.path(), "api.proto");
    let invented: Vec<&String> = ours.difference(&theirs).collect();
    assert!(invented.is_empty(), "Kubernetes has nothing of this: {invented:#?}");
    assert!(ours.len() > 100, "there are only {} lines", ours.len());
}

fn parsed(directory: &Path, name: &str) -> BTreeSet<String> {
    let file = directory.join(name);
    let set = protobuf_parse::Parser::new().pure().include(directory).input(file).file_descriptor_set().unwrap();
    set.file.iter().flat_map(lines).collect()
}

fn check(ours: &BTreeSet<String>, theirs: &BTreeSet<String>) {
    let missing = theirs.difference(ours).map(|line| format!("- {line}\n"));
    let invented = ours.difference(theirs).map(|line| format!("+ {line}\n"));
    let difference: String = missing.chain(invented).collect();
    assert!(difference.is_empty(), "Go has (-), we have (+):\n{difference}");
    assert!(theirs.len() > 400, "the Go program printed only {} lines", theirs.len());
}

/// Returns the lines that the Go program `descriptors` prints, for our own descriptors.
fn lines(file: &FileDescriptorProto) -> BTreeSet<String> {
    let scope = file.package();
    let mut lines = BTreeSet::new();
    lines.extend(file.message_type.iter().flat_map(|message| message_lines(scope, message)));
    lines.extend(file.enum_type.iter().flat_map(|values| enum_lines(scope, values)));
    lines.extend(file.service.iter().flat_map(|service| service_lines(scope, service)));
    lines
}

fn message_lines(scope: &str, message: &DescriptorProto) -> Vec<String> {
    let name = format!("{scope}.{}", message.name());
    let mut lines = vec![format!("message {name}")];
    lines.extend(message.field.iter().map(|field| {
        format!("field {name}.{} = {}: {}", field.name(), field.number(), labelled(&name, message, field))
    }));
    let nested = message.nested_type.iter().filter(|nested| !nested.options.map_entry());
    lines.extend(nested.flat_map(|nested| message_lines(&name, nested)));
    lines.extend(message.enum_type.iter().flat_map(|values| enum_lines(&name, values)));
    lines
}

fn labelled(name: &str, message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let entry = message.nested_type.iter().find(|nested| {
        nested.options.map_entry() && full_name(field.type_name()) == format!("{name}.{}", nested.name())
    });
    if let Some(entry) = entry {
        return format!("map<{}, {}>", type_of(&entry.field[0]), type_of(&entry.field[1]));
    }
    let label = match (field.label(), field.oneof_index) {
        (Label::LABEL_REPEATED, _) => "repeated ",
        (_, Some(_)) if field.proto3_optional() => "optional ",
        (_, Some(_)) => "oneof ",
        (_, None) => "",
    };
    format!("{label}{}", type_of(field))
}

fn type_of(field: &FieldDescriptorProto) -> String {
    let kind = format!("{:?}", field.type_()).trim_start_matches("TYPE_").to_lowercase();
    match full_name(field.type_name()) {
        "" => kind,
        name => format!("{kind} {name}"),
    }
}

fn enum_lines(scope: &str, values: &EnumDescriptorProto) -> Vec<String> {
    let name = format!("{scope}.{}", values.name());
    values.value.iter().map(|value| format!("enum {name}: {} = {}", value.name(), value.number())).collect()
}

fn service_lines(scope: &str, service: &ServiceDescriptorProto) -> Vec<String> {
    let name = format!("{scope}.{}", service.name());
    let stream = |streaming| if streaming { "stream " } else { "" };
    let method_line = |method: &MethodDescriptorProto| {
        format!(
            "rpc {name}.{}({}{}) returns ({}{})",
            method.name(),
            stream(method.client_streaming()),
            full_name(method.input_type()),
            stream(method.server_streaming()),
            full_name(method.output_type()),
        )
    };
    service.method.iter().map(method_line).collect()
}

/// Returns a name without the leading dot: descriptors have `.a.b.C`, Go has `a.b.C`.
fn full_name(name: &str) -> &str {
    name.trim_start_matches('.')
}
