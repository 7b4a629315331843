//! The index and the name of a plugin.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::Path;

use nri_proto::PluginId;
use nri_proto::defaults::{PLUGIN_INDEX_ENV, PLUGIN_NAME_ENV};
use nri_proto::plugin_id::PluginIdError;
use thiserror::Error;

/// Errors from determining the index and the name of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The index or the name is not valid.
    #[error("could not register a plugin with index {index:?} and name {name:?}")]
    NotAllowed {
        /// The index that was given.
        index: String,
        /// The name that was given.
        name: String,
        /// The reason why the index or the name is invalid.
        source: PluginIdError,
    },
    /// No index was given, and the name of the program does not begin with one.
    #[error("could not determine the plugin's index: set one, or rename the program to 10-{program} or similar")]
    NoIndex {
        /// The name of the program.
        program: String,
        /// The reason why the name of the program contains no index.
        source: PluginIdError,
    },
}

/// The places that an index and a name can come from, in order of precedence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdentitySources<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) index: Option<&'a str>,
    pub(crate) env_name: Option<&'a str>,
    pub(crate) env_index: Option<&'a str>,
    /// The file name of the program.
    pub(crate) program: &'a str,
}

impl IdentitySources<'_> {
    /// Determines the index and the name by upstream's rules.
    ///
    /// Explicit values come before the environment, and the environment before the name of the
    /// program. If there is an index but no name, the plugin has the full name of the program.
    pub(crate) fn identity(self) -> Result<PluginId, IdentityError> {
        let named = self.name.or(self.env_name);
        match (self.index.or(self.env_index), named) {
            (Some(index), name) => checked(index, name.unwrap_or(self.program)),
            (None, name) => {
                let id: PluginId = (self.program.parse())
                    .map_err(|source| IdentityError::NoIndex { program: self.program.to_owned(), source })?;
                name.map_or(Ok(id.clone()), |name| checked(id.index(), name))
            }
        }
    }
}

/// Validates an index and a name.
fn checked(index: &str, name: &str) -> Result<PluginId, IdentityError> {
    PluginId::new(index, name).map_err(|source| IdentityError::NotAllowed {
        index: index.to_owned(),
        name: name.to_owned(),
        source,
    })
}

/// Determines the index and the name of this process, unless they are given.
pub(crate) fn resolve(name: Option<&str>, index: Option<&str>) -> Result<PluginId, IdentityError> {
    let variable = |key| std::env::var(key).ok().filter(|value| !value.is_empty());
    let (env_name, env_index) = (variable(PLUGIN_NAME_ENV), variable(PLUGIN_INDEX_ENV));
    let program_path = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program_path).file_name().unwrap_or(OsStr::new("")).to_string_lossy();
    let (env_name, env_index) = (env_name.as_deref(), env_index.as_deref());
    IdentitySources { name, index, env_name, env_index, program: &program }.identity()
}
