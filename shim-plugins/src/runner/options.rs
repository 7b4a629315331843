//! Reads the configuration of plugins from the options that containerd sends to `start`.

use std::path::PathBuf;
use std::{fs, io};

use protobuf::Message as _;
use protobuf::UnknownValueRef;
use protobuf::well_known_types::any::Any;
use protobuf::well_known_types::empty::Empty;

use crate::config::Configuration;

/// Containerd's options for an arbitrary runtime: the path of a file, or its text.
const RUNTIME_OPTIONS: &str = "runtimeoptions.v1.Options";

/// The type of our own options, whose value is the text of a configuration.
pub const CONFIGURATION: &str = "shim-plugins.v1.Configuration";

/// Why the configuration of the plugins could not be read.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The message could not be decoded.
    #[error("could not decode the options of the runtime")]
    Message(#[source] protobuf::Error),

    /// The file could not be read.
    #[error("could not read configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// The text is not a valid configuration.
    #[error("could not parse the configuration")]
    Text(#[source] toml::de::Error),

    /// The text is not valid UTF-8.
    #[error("the configuration is not valid UTF-8")]
    NotUtf8(#[source] std::string::FromUtf8Error),
}

/// Merges the configurations among some extensions, in order. Other extensions are ignored.
pub(crate) fn configuration(extensions: &[Any]) -> Result<Configuration, OptionsError> {
    let mut configuration = Configuration::default();
    for extension in extensions {
        for (file, text) in texts(extension)? {
            let more = Configuration::parse(&text, file.as_deref()).map_err(OptionsError::Text)?;
            configuration = configuration.overridden_by(more);
        }
    }
    Ok(configuration)
}

/// A text, and the file that it is from.
type SourceText = (Option<PathBuf>, String);

/// Returns the configuration texts of an extension.
fn texts(extension: &Any) -> Result<Vec<SourceText>, OptionsError> {
    let name = extension.type_url.rsplit('/').next().unwrap_or_default();
    match name {
        CONFIGURATION => Ok(vec![(None, text(extension.value.clone())?)]),
        RUNTIME_OPTIONS => runtime_options(&extension.value),
        _ => Ok(Vec::new()),
    }
}

fn text(bytes: Vec<u8>) -> Result<String, OptionsError> {
    String::from_utf8(bytes).map_err(OptionsError::NotUtf8)
}

/// Reads `runtimeoptions.v1.Options`: field 2 is the path of a file, field 3 a text.
fn runtime_options(message: &[u8]) -> Result<Vec<SourceText>, OptionsError> {
    let message = Empty::parse_from_bytes(message).map_err(OptionsError::Message)?;
    let mut texts = Vec::new();
    for (number, value) in message.special_fields.unknown_fields().iter() {
        match (number, value) {
            (2, UnknownValueRef::LengthDelimited(path)) if !path.is_empty() => {
                let path = PathBuf::from(text(path.to_vec())?);
                match fs::read_to_string(&path) {
                    Ok(text) => texts.push((Some(path), text)),
                    Err(source) => return Err(OptionsError::Read { path, source }),
                }
            }
            (3, UnknownValueRef::LengthDelimited(body)) => texts.push((None, text(body.to_vec())?)),
            _ => {}
        }
    }
    Ok(texts)
}
