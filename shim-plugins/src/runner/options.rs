//! The configuration of plugins in what containerd says to `start`.

use std::path::PathBuf;
use std::{fs, io};

use protobuf::Message as _;
use protobuf::UnknownValueRef;
use protobuf::well_known_types::any::Any;
use protobuf::well_known_types::empty::Empty;

use crate::config::Configuration;

/// Containerd's options for a runtime that it knows nothing about: a file, or the text of one.
const RUNTIME_OPTIONS: &str = "runtimeoptions.v1.Options";

/// Our own: the value is the text.
pub const CONFIGURATION: &str = "shim-plugins.v1.Configuration";

/// Why the configuration cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The message is broken.
    #[error("could not read the options of the runtime")]
    Message(#[source] protobuf::Error),

    /// The file cannot be read.
    #[error("could not read the configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// The text is not one of a configuration.
    #[error("could not understand the configuration")]
    Text(#[source] toml::de::Error),

    /// The text is none.
    #[error("the configuration is no text")]
    NoText(#[source] std::string::FromUtf8Error),
}

/// The configuration in some of these, in their order; the rest is not about plugins.
pub(crate) fn configuration(extensions: &[Any]) -> Result<Configuration, OptionsError> {
    let mut configuration = Configuration::default();
    for extension in extensions {
        for text in texts(extension)? {
            let more = text.parse().map_err(OptionsError::Text)?;
            configuration = configuration.overridden_by(more);
        }
    }
    Ok(configuration)
}

fn texts(extension: &Any) -> Result<Vec<String>, OptionsError> {
    let name = extension.type_url.rsplit('/').next().unwrap_or_default();
    match name {
        CONFIGURATION => Ok(vec![text(extension.value.clone())?]),
        RUNTIME_OPTIONS => runtime_options(&extension.value),
        _ => Ok(Vec::new()),
    }
}

fn text(bytes: Vec<u8>) -> Result<String, OptionsError> {
    String::from_utf8(bytes).map_err(OptionsError::NoText)
}

/// Field 2 is the path of a file, field 3 the text of one.
fn runtime_options(message: &[u8]) -> Result<Vec<String>, OptionsError> {
    let message = Empty::parse_from_bytes(message).map_err(OptionsError::Message)?;
    let mut texts = Vec::new();
    for (number, value) in message.special_fields.unknown_fields().iter() {
        match (number, value) {
            (2, UnknownValueRef::LengthDelimited(path)) if !path.is_empty() => {
                let path = PathBuf::from(text(path.to_vec())?);
                texts.push(fs::read_to_string(&path).map_err(|source| OptionsError::Read { path, source })?);
            }
            (3, UnknownValueRef::LengthDelimited(body)) => texts.push(text(body.to_vec())?),
            _ => {}
        }
    }
    Ok(texts)
}
