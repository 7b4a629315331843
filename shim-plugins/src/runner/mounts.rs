//! The mounts that a shim performs itself, and how `start` announces them.

use containerd_shim_protos::bootstrap_api::BootstrapResult;
use protobuf::{Message as _, UnknownFields};

/// The types and the transforms of mounts that a shim performs itself, in place of containerd 2.4.
///
/// A shim always announces its mounts, even if there are none: a daemon that is not told runs the
/// shim with `-info` for each container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts {
    /// The types of mounts.
    pub types: Vec<String>,
    /// The transforms, which prepare a mount.
    pub transforms: Vec<String>,
}

/// The field number of the extensions in `BootstrapResult`, which the generated message lacks.
const EXTENSIONS: u32 = 6;

const TYPE_NAME: &str = "containerd.types.MountCapabilities";

impl Mounts {
    /// Adds the mounts to an answer, as an extension.
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
    /// Reads the mounts from an answer as containerd 2.4 does. Returns `None` if the answer has
    /// none.
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

/// Decodes the fields of a message.
#[cfg(any(test, feature = "testing"))]
fn fields(message: &[u8]) -> UnknownFields {
    let message = protobuf::well_known_types::empty::Empty::parse_from_bytes(message).unwrap_or_default();
    message.special_fields.unknown_fields().clone()
}

/// Returns the values of a field.
#[cfg(any(test, feature = "testing"))]
fn texts(fields: &UnknownFields, number: u32) -> Vec<Vec<u8>> {
    let value = |(field, value)| {
        let protobuf::UnknownValueRef::LengthDelimited(bytes) = value else { return None };
        (field == number).then(|| bytes.to_vec())
    };
    fields.iter().filter_map(value).collect()
}

/// Encodes a message that consists of these fields.
fn encoded(fields: UnknownFields) -> Vec<u8> {
    let mut message = protobuf::well_known_types::empty::Empty::new();
    *message.special_fields.mut_unknown_fields() = fields;
    message.write_to_bytes().expect("a message is encoded into memory")
}
