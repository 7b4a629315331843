//! Well-known paths, environment variables and timeouts, unless configured otherwise.

use std::time::Duration;

/// The socket on which a runtime accepts plugins.
pub const SOCKET_PATH: &str = "/var/run/nri/nri.sock";

/// The directory with the plugins that a runtime launches.
pub const PLUGIN_PATH: &str = "/opt/nri/plugins";

/// The directory with the configuration of launched plugins: `10-logger.conf`, or `logger.conf`.
pub const PLUGIN_CONFIG_PATH: &str = "/etc/nri/conf.d";

/// The environment variable with the name of a launched plugin.
pub const PLUGIN_NAME_ENV: &str = "NRI_PLUGIN_NAME";

/// The environment variable with the index of a launched plugin.
pub const PLUGIN_INDEX_ENV: &str = "NRI_PLUGIN_IDX";

/// The environment variable with the number of the file descriptor of a launched plugin's
/// connection to its runtime.
pub const PLUGIN_SOCKET_ENV: &str = "NRI_PLUGIN_SOCKET";

/// The file descriptor of a launched plugin's connection: the first after stdin, stdout and stderr.
pub const PLUGIN_SOCKET_FD: i32 = 3;

/// The time within which a plugin that has connected must register.
pub const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);

/// The time within which a plugin must reply to a request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
