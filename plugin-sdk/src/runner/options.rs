use std::time::Duration;

use nri_proto::defaults;

use crate::connection::Connection;

/// Who a plugin is and how it reaches its runtime. What is not set is found out as Go's plugins do.
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
    /// The name. Not set: `NRI_PLUGIN_NAME`, or else from the name of the program.
    pub name: Option<String>,
    /// The index, two digits. Not set: `NRI_PLUGIN_IDX`, or else from the name of the program, as in `10-logger`.
    pub index: Option<String>,
    /// How the runtime is reached.
    pub connection: Connection,
    /// The configuration, for runtimes that have none for this plugin.
    pub config: Option<String>,
    /// How long each step of being let in may take: to connect, to register, and to be configured. A runtime that said the last time that
    /// it gives plugins longer is given as long when it is connected to again, up to an hour.
    pub registration_timeout: Duration,
    /// How long it may take to be told what there is, once configured. A plugin that was launched waits for as long as it
    /// takes: runtimes on Go's NRI before 0.7 tell it of events alone.
    pub sync_timeout: Duration,
    /// How long an update that the plugin asks for may take.
    pub update_timeout: Duration,
    /// How long the handlers that run may take when the plugin stops.
    pub grace: Duration,
    /// The most that is taken in of what there is, in encoded bytes: what the runtime tells in parts is kept until the last.
    pub max_sync: usize,
    /// What to do when a runtime leaves that the plugin was connected to by a path. None: the plugin ends.
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

/// How long to wait before each attempt: twice as long as before the last, up to a limit, and a random part less so that many plugins do not
/// come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Before the first.
    pub first: Duration,
    /// At most.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(100), most: Duration::from_secs(5) }
    }
}

impl Backoff {
    /// Before the attempt after this many that failed. `chance` is any number.
    pub(crate) fn delay(self, failures: u32, random: u64) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        let whole = self.first.saturating_mul(factor).min(self.most);
        // Between half of it and all of it.
        whole / 2 + whole.mul_f64((random % 1024) as f64 / 2048.0)
    }
}
