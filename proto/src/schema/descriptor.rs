//! What `nri.proto` describes, for who wants to walk over messages without knowing them: a logger, a test.
//!
//! Our messages know nothing of it, so that only a program that asks for it has it.

use protobuf::descriptor::FileDescriptorProto;
use protobuf::reflect::{FileDescriptor, MessageDescriptor};
use protobuf::{Message, MessageDyn};

/// The file, encoded as protobuf does.
pub static ENCODED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nri.bin"));

/// The descriptors of all messages and enums. To make them takes milliseconds, so make them once.
///
/// ```
/// use nri_proto::{api, descriptor};
///
/// let file = descriptor::file();
/// let pod = api::PodSandbox { name: "web".to_owned(), ..Default::default() };
/// let pod = descriptor::described(&file, &pod);
/// assert_eq!(protobuf::text_format::print_to_string(&*pod), r#"name: "web""#);
/// ```
#[must_use]
pub fn file() -> FileDescriptor {
    FileDescriptor::new_dynamic(proto(), &[]).expect("it needs no other file, and was checked when it was built")
}

/// The file as protobuf describes files.
#[must_use]
pub fn proto() -> FileDescriptorProto {
    FileDescriptorProto::parse_from_bytes(ENCODED).expect("the build has encoded it")
}

/// A message of ours as one that has fields by name.
#[must_use]
pub fn described<M: Message>(file: &FileDescriptor, message: &M) -> Box<dyn MessageDyn> {
    let bytes = message.write_to_bytes().expect("encoding to memory does not fail");
    kind::<M>(file).parse_from_bytes(&bytes).expect("it has just been encoded")
}

/// The descriptor of a message of ours.
#[must_use]
pub fn kind<M: Message>(file: &FileDescriptor) -> MessageDescriptor {
    file.message_by_package_relative_name(M::NAME).expect("it is a message of NRI")
}
