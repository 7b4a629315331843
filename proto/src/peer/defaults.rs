//! Where both ends meet, unless someone says otherwise.

use std::time::Duration;

/// The socket on which a runtime waits for plugins.
pub const SOCKET_PATH: &str = "/var/run/nri/nri.sock";

/// The directory of the plugins that a runtime launches.
pub const PLUGIN_PATH: &str = "/opt/nri/plugins";

/// The directory of their configuration: `10-logger.conf`, or `logger.conf`.
pub const PLUGIN_CONFIG_PATH: &str = "/etc/nri/conf.d";

/// The environment variable that tells a launched plugin its name.
pub const PLUGIN_NAME_ENV: &str = "NRI_PLUGIN_NAME";

/// The environment variable that tells a launched plugin its index.
pub const PLUGIN_INDEX_ENV: &str = "NRI_PLUGIN_IDX";

/// The environment variable that tells a launched plugin which file descriptor leads to its runtime.
pub const PLUGIN_SOCKET_ENV: &str = "NRI_PLUGIN_SOCKET";

/// That file descriptor: the first after stdin, stdout and stderr.
pub const PLUGIN_SOCKET_FD: i32 = 3;

/// How long a plugin that has connected may take to register.
pub const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a plugin may take to answer a request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
