//! The configuration of a launched plugin.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use nri_proto::PluginId;

use super::error::StartError;

/// The largest configuration. A message that brings it to the plugin could not be larger either.
const MAX_CONFIG: u64 = 4 << 20;

/// What a plugin is configured with: the first of `10-logger.conf` and `logger.conf` that is there, verbatim.
pub(super) fn read(dir: &Path, id: &PluginId) -> Result<String, StartError> {
    for name in [id.as_str(), id.name()] {
        let path = dir.join(format!("{name}.conf"));
        match read_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(config) if config.len() as u64 > MAX_CONFIG => {
                return Err(StartError::LargeConfig { path, limit: MAX_CONFIG });
            }
            read => return read.map_err(|source| StartError::ReadConfig { path, source }),
        }
    }
    Ok(String::new())
}

fn read_file(path: &Path) -> io::Result<String> {
    let mut config = String::new();
    File::open(path)?.take(MAX_CONFIG + 1).read_to_string(&mut config)?;
    Ok(config)
}

#[cfg(test)]
mod tests;
