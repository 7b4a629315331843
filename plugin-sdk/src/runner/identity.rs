//! Who a plugin is.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::path::Path;

use nri_proto::PluginId;
use nri_proto::defaults::{PLUGIN_INDEX_ENV, PLUGIN_NAME_ENV};
use nri_proto::plugin_id::PluginIdError;
use thiserror::Error;

/// Why a plugin has no name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// Name or index are not allowed.
    #[error("could not register a plugin with index {index:?} and name {name:?}")]
    NotAllowed {
        /// The index.
        index: String,
        /// The name.
        name: String,
        /// Why.
        source: PluginIdError,
    },
    /// Nobody says which index it has, and the program has none in its name.
    #[error("could not find the plugin's index: give one, or call the program as in 10-{program}")]
    NoIndex {
        /// The name of the program.
        program: String,
        /// What is wrong with it.
        source: PluginIdError,
    },
}

/// What is known of a plugin, each more telling than the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdentitySources<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) index: Option<&'a str>,
    pub(crate) env_name: Option<&'a str>,
    pub(crate) env_index: Option<&'a str>,
    /// The program's file name.
    pub(crate) program: &'a str,
}

impl IdentitySources<'_> {
    /// As upstream: what is said, what the environment says, what the program is called. If only the index is said the
    /// whole name of the program is the plugin's.
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

fn checked(index: &str, name: &str) -> Result<PluginId, IdentityError> {
    PluginId::new(index, name).map_err(|source| IdentityError::NotAllowed {
        index: index.to_owned(),
        name: name.to_owned(),
        source,
    })
}

/// Who this process is, unless it is said.
pub(crate) fn resolve(name: Option<&str>, index: Option<&str>) -> Result<PluginId, IdentityError> {
    let variable = |key| std::env::var(key).ok().filter(|value| !value.is_empty());
    let (env_name, env_index) = (variable(PLUGIN_NAME_ENV), variable(PLUGIN_INDEX_ENV));
    let program_path = std::env::args_os().next().unwrap_or_default();
    let program = Path::new(&program_path).file_name().unwrap_or(OsStr::new("")).to_string_lossy();
    let (env_name, env_index) = (env_name.as_deref(), env_index.as_deref());
    IdentitySources { name, index, env_name, env_index, program: &program }.identity()
}
