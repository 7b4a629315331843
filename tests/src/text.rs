//! Messages as text.

use nri_proto::descriptor;
use protobuf::Message;
use protobuf::text_format::print_to_string_pretty;

/// Formats a message as text, without fields that are not set.
pub fn text<M: Message>(message: &M) -> String {
    print_to_string_pretty(&*descriptor::described(&descriptor::file(), message))
}
