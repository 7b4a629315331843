//! The options of a plugin.

use std::time::Duration;

use nri_proto::defaults;

use crate::connection::Connection;

/// The options of a plugin: its identity, its connection, and its limits.
///
/// By default, the plugin finds its identity and its connection in the same way as plugins on Go's
/// stub.
///
/// ```
/// use nri_plugin::{Connection, Options};
///
/// let options = Options {
///     index: Some("10".to_owned()),
///     connection: Connection::Path("/run/my.sock".into()),
///     ..Options::default()
/// };
/// ```
#[derive(Debug)]
pub struct Options {
    /// The name of the plugin. The default is `NRI_PLUGIN_NAME`, or else the name of the program.
    pub name: Option<String>,
    /// The index of the plugin, two digits. The default is `NRI_PLUGIN_IDX`, or else the prefix of
    /// the name of the program, as in `10-logger`.
    pub index: Option<String>,
    /// How the plugin connects to its runtime.
    pub connection: Connection,
    /// The configuration of the plugin, used if the runtime has none for it.
    pub config: Option<String>,
    /// The timeout of each step of the registration: connecting, registering, and being configured.
    ///
    /// If a runtime has reported a longer registration timeout, that one is used for reconnecting,
    /// up to an hour.
    pub registration_timeout: Duration,
    /// The timeout for being synchronized after the configuration.
    ///
    /// A plugin that was launched by a runtime does not use this timeout, since runtimes on Go's
    /// NRI before 0.7 never synchronize such a plugin.
    pub sync_timeout: Duration,
    /// The timeout of [`Runtime::update`](crate::Runtime::update).
    pub update_timeout: Duration,
    /// How long running handlers may take to finish when the plugin stops.
    pub grace: Duration,
    /// The maximum size of a snapshot in encoded bytes. The parts of a snapshot are kept in memory
    /// until the last one arrives.
    pub max_sync: usize,
    /// The delays of reconnecting after the runtime has disconnected. If this is `None`, the plugin
    /// ends instead. It also ends if its connection is a [`Stream`](crate::Stream) or was
    /// inherited.
    pub reconnect: Option<Backoff>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            index: None,
            connection: Connection::Found { path: None },
            config: None,
            registration_timeout: defaults::REGISTRATION_TIMEOUT,
            sync_timeout: Duration::from_secs(60),
            update_timeout: Duration::from_secs(10),
            grace: Duration::from_secs(2),
            max_sync: 64 << 20,
            reconnect: Some(Backoff::default()),
        }
    }
}

/// The delays between attempts to reconnect: exponential, with a limit and a random part.
///
/// Each delay is twice the previous one. A random part of up to half the delay is taken off, so
/// that plugins do not reconnect all at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay before the first attempt.
    pub first: Duration,
    /// The maximum delay.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(100), most: Duration::from_secs(5) }
    }
}

impl Backoff {
    /// Returns the delay after this many failed attempts. `random` is any number.
    pub(crate) fn delay(self, failures: u32, random: u64) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        let whole = self.first.saturating_mul(factor).min(self.most);
        // The result lies between half of the delay and all of it.
        whole / 2 + whole.mul_f64((random % 1024) as f64 / 2048.0)
    }
}
