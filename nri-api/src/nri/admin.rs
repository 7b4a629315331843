//! What an operator wants of a runtime that runs: another policy, and to know whether all plugins are there.

use std::time::Duration;

use nri_adaptation::{Config, Missing, NotReady};

use crate::nri::Nri;

impl Nri {
    /// From now on the policy of these settings holds: for plugins that are there, for those that join, and for requests that begin afterwards.
    /// Returns the keys of settings that are other ones only when the runtime is started again.
    ///
    /// ```
    /// # use nri_api::{Config, Nri, config::ConfigError};
    /// fn read_again(nri: &Nri, text: &str) -> Result<(), ConfigError> {
    ///     for key in nri.reload(&Config::from_toml(text)?) {
    ///         println!("{key} is another one when the runtime is started again");
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

    /// The plugins that must be there and are not, or do not answer. While there are some, containers may not be created, but for pods that may do without.
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        self.instance.as_ref().map(|instance| instance.adaptation.missing()).unwrap_or_default()
    }

    /// Waits until no plugin is [missing](Nri::missing), for so long at most.
    ///
    /// # Errors
    ///
    /// Those that are missing when the time is over, or when NRI is stopped.
    pub async fn ready(&self, limit: Duration) -> Result<(), NotReady> {
        match &self.instance {
            Some(instance) => instance.adaptation.ready(limit).await,
            None => Ok(()),
        }
    }
}
