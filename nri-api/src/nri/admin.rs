//! Methods of [`Nri`] for the operator of a running runtime: new policy, and missing plugins.

use std::time::Duration;

use nri_adaptation::{Config, Missing, NotReady};

use super::Nri;

impl Nri {
    /// Applies the policy of new settings: to all plugins, to plugins that join, and to requests
    /// that begin from now on. Returns the keys of changed settings that take effect only after a
    /// restart of the runtime.
    ///
    /// ```
    /// # use nri_api::{Config, Nri, config::ConfigError};
    /// fn read_again(nri: &Nri, text: &str) -> Result<(), ConfigError> {
    ///     for key in nri.reload(&Config::from_toml(text)?) {
    ///         println!("{key} takes effect after a restart");
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn reload(&self, config: &Config) -> Vec<&'static str> {
        match &self.instance {
            Some(instance) => instance.adaptation.reload(config),
            None if config.disable => Vec::new(),
            None => vec!["disable"],
        }
    }

    /// Returns the required plugins that are absent or do not answer. While there are any,
    /// containers are created only in pods that are exempt.
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        self.instance.as_ref().map(|instance| instance.adaptation.missing()).unwrap_or_default()
    }

    /// Waits until no plugin is [missing](Nri::missing), but no longer than `limit`.
    ///
    /// # Errors
    ///
    /// The plugins that are missing when the limit is over, or when NRI is stopped.
    pub async fn ready(&self, limit: Duration) -> Result<(), NotReady> {
        match &self.instance {
            Some(instance) => instance.adaptation.ready(limit).await,
            None => Ok(()),
        }
    }
}
