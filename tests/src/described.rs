//! `nri.proto` as read when a test runs: our messages have no descriptors of their own.

use std::path::Path;

use protobuf::Message;
use protobuf::descriptor::FileDescriptorProto;
use protobuf::reflect::FileDescriptor;
use protobuf::text_format::print_to_string_pretty;

/// What our messages are generated from.
pub fn file() -> FileDescriptorProto {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    let parsed =
        protobuf_parse::Parser::new().pure().include(&proto).input(proto.join("nri.proto")).file_descriptor_set();
    parsed.expect("nri.proto can be read").file.remove(0)
}

/// A message as text, which leaves out what is not set.
pub fn text<M: Message>(message: &M) -> String {
    let file = FileDescriptor::new_dynamic(file(), &[]).expect("nri.proto needs no other");
    let kind = file.message_by_package_relative_name(M::NAME).expect("it is a message of NRI");
    let bytes = message.write_to_bytes().expect("encoding to memory does not fail");
    print_to_string_pretty(&*kind.parse_from_bytes(&bytes).expect("it has just been encoded"))
}
