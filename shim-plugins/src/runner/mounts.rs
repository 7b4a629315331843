//! Which mounts a shim performs itself.

use containerd_shim_protos::bootstrap_api::BootstrapResult;
use protobuf::{Message as _, UnknownFields};

/// The types of mounts, and the ways to prepare one, that a shim takes over from containerd 2.4.
///
/// A shim always says so, if only that there are none: a daemon that is not told asks again at each container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts {
    /// Types of mounts.
    pub types: Vec<String>,
    /// Ways to prepare a mount.
    pub transforms: Vec<String>,
}

/// The number of the extensions in an answer, which the generated message does not have yet.
const EXTENSIONS: u32 = 6;

const TYPE_NAME: &str = "containerd.types.MountCapabilities";

impl Mounts {
    pub(super) fn attach_to(&self, result: &mut BootstrapResult) {
        let mut capabilities = UnknownFields::new();
        for kind in &self.types {
            capabilities.add_length_delimited(1, kind.clone().into_bytes());
        }
        for transform in &self.transforms {
            capabilities.add_length_delimited(2, transform.clone().into_bytes());
        }
        let mut any = UnknownFields::new();
        any.add_length_delimited(1, TYPE_NAME.as_bytes().to_vec());
        any.add_length_delimited(2, encoded(capabilities));
        let mut extension = UnknownFields::new();
        extension.add_length_delimited(1, encoded(any));
        result.special_fields.mut_unknown_fields().add_length_delimited(EXTENSIONS, encoded(extension));
    }
}

#[cfg(any(test, feature = "testing"))]
impl Mounts {
    /// What an answer says, as containerd 2.4 reads it; `None` if it says nothing.
    pub(crate) fn in_answer(result: &BootstrapResult) -> Option<Self> {
        let extensions = texts(result.special_fields.unknown_fields(), EXTENSIONS);
        let anys = extensions.iter().flat_map(|extension| texts(&fields(extension), 1)).map(|any| fields(&any));
        let any = anys.into_iter().find(|any| texts(any, 1) == [TYPE_NAME.as_bytes()])?;
        let capabilities = fields(texts(&any, 2).first()?);
        let names = |number| {
            let texts = texts(&capabilities, number).into_iter();
            texts.map(|text| String::from_utf8_lossy(&text).into_owned()).collect()
        };
        Some(Self { types: names(1), transforms: names(2) })
    }
}

/// The fields of a message.
#[cfg(any(test, feature = "testing"))]
fn fields(message: &[u8]) -> UnknownFields {
    let message = protobuf::well_known_types::empty::Empty::parse_from_bytes(message).unwrap_or_default();
    message.special_fields.unknown_fields().clone()
}

/// The values of a field.
#[cfg(any(test, feature = "testing"))]
fn texts(fields: &UnknownFields, number: u32) -> Vec<Vec<u8>> {
    let value = |(field, value)| {
        let protobuf::UnknownValueRef::LengthDelimited(bytes) = value else { return None };
        (field == number).then(|| bytes.to_vec())
    };
    fields.iter().filter_map(value).collect()
}

/// A message that has only these fields.
fn encoded(fields: UnknownFields) -> Vec<u8> {
    let mut message = protobuf::well_known_types::empty::Empty::new();
    *message.special_fields.mut_unknown_fields() = fields;
    message.write_to_bytes().expect("a message is encoded into memory")
}
