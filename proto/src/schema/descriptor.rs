//! The descriptors of `nri.proto`, for code that handles messages of any type, such as a logger.
//!
//! The generated messages do not refer to their descriptors. Only a program that uses this module
//! contains them.

use protobuf::descriptor::FileDescriptorProto;
use protobuf::reflect::{FileDescriptor, MessageDescriptor};
use protobuf::{Message, MessageDyn};

/// The encoded `FileDescriptorProto` of `nri.proto`.
pub static ENCODED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nri.bin"));

/// Returns the descriptors of all messages and enums.
///
/// Building them takes milliseconds, so call this once.
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
    FileDescriptor::new_dynamic(proto(), &[]).expect("nri.proto has no imports, and the build parsed it")
}

/// Returns `nri.proto` as a `FileDescriptorProto`.
#[must_use]
pub fn proto() -> FileDescriptorProto {
    FileDescriptorProto::parse_from_bytes(ENCODED).expect("the build encoded the descriptor")
}

/// Converts a generated message into a dynamic one, whose fields are accessible by name.
#[must_use]
pub fn described<M: Message>(file: &FileDescriptor, message: &M) -> Box<dyn MessageDyn> {
    let bytes = message.write_to_bytes().expect("encoding to memory does not fail");
    kind::<M>(file).parse_from_bytes(&bytes).expect("the message was encoded just before")
}

/// Returns the descriptor of the message type `M`.
#[must_use]
pub fn kind<M: Message>(file: &FileDescriptor) -> MessageDescriptor {
    file.message_by_package_relative_name(M::NAME).expect("M is a message of nri.proto")
}
