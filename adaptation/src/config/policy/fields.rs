//! The settings of a policy. Each is a line at the end of this file, whose name is also its key in
//! a configuration file.

use std::fmt::{self, Display, Formatter};
use std::num::NonZeroU32;
use std::time::Duration;

use nri_proto::defaults;

use super::Allowed;
use super::AllowedOrigin;
use super::Concurrency;
use super::Declarations;
use super::Effective;
use super::Mode;
use super::Namespaces;
use super::OnTimeout;
use super::Origin;
use super::Uids;
use crate::config::settings::{Section, Setting};

macro_rules! axes {
    ($($(#[doc = $doc:literal])+ $axis:ident: $kind:ty = $default:expr;)+) => {
        /// The policy of one plugin.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Policy {
            $($(#[doc = $doc])+ pub $axis: $kind,)+
        }

        impl Default for Policy {
            fn default() -> Self {
                Self { $($axis: $default,)+ }
            }
        }

        /// The policy settings in one table of the operator. `None`: the table does not have the
        /// setting.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct PolicyRules {
            $($(#[doc = $doc])+ pub $axis: Option<$kind>,)+
        }

        /// The source of each setting of a policy.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Origins {
            $(#[doc = concat!("Who decided about [`", stringify!($axis), "`](Policy::", stringify!($axis), ").")]
            pub $axis: Origin,)+
        }

        impl PolicyRules {
            /// The keys of all settings.
            pub(crate) const KEYS: &'static [&'static str] = &[$(stringify!($axis)),+];

            /// Takes the settings from a table.
            pub(crate) fn read(section: &mut Section<'_>) -> Self {
                Self { $($axis: section.take(stringify!($axis)),)+ }
            }
        }

        impl Effective {
            /// Returns the effective policy: for each setting the first value in `said`, or else
            /// the default.
            pub(super) fn of(said: &[(Origin, &PolicyRules)]) -> Self {
                let Policy { $($axis,)+ } = Policy::default();
                $(let $axis = said
                    .iter()
                    .find_map(|(origin, rules)| Some((rules.$axis.clone()?, *origin)))
                    .unwrap_or(($axis, Origin::BuiltIn));)+
                Self {
                    policy: Policy { $($axis: $axis.0,)+ },
                    origins: Origins { $($axis: $axis.1,)+ },
                }
            }
        }

        impl Display for Effective {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                let mut separator = "";
                $(
                    write!(f, "{separator}{}={}", stringify!($axis), self.policy.$axis.show())?;
                    if self.origins.$axis != Origin::BuiltIn {
                        write!(f, " ({})", self.origins.$axis)?;
                    }
                    separator = ", ";
                )+
                let _ = separator;
                Ok(())
            }
        }
    };
}

axes! {
    /// Whether requests fail while the plugin is absent, does not finish joining in time, or does
    /// not answer.
    required: bool = false;
    /// The effect on a request that the plugin does not answer in time. For a required plugin the
    /// request always fails.
    on_timeout: OnTimeout = OnTimeout::Skip;
    /// The number of timeouts in a row after which the plugin is closed, or is suspended if it is
    /// kept connected. Upstream closes a plugin after one.
    strikes: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);
    /// Whether the plugin is suspended, and not closed, when it is silent for too long.
    keep_connected: bool = false;
    /// Whether the plugin's declarations about itself are used.
    declarations: Declarations = Declarations::Honour;
    /// How long the plugin may take to answer a request.
    request_timeout: Duration = defaults::REQUEST_TIMEOUT;
    /// How long the synchronization of the plugin may take in all.
    sync_timeout: Duration = Duration::from_secs(30);
    /// How long requests wait for the plugin while it joins. Requests do not wait for a plugin that
    /// is not required.
    join_timeout: Duration = Duration::from_secs(10);
    /// How long a request waits until the plugin is free to be asked.
    lane_timeout: Duration = Duration::from_secs(10);
    /// How long the plugin's backlog, which is the requests that it missed and can still be told,
    /// may take to become shorter. At least two request timeouts. After that, a joining plugin
    /// starts its join again, and a plugin that has joined is closed. If the plugin is asked again
    /// about all but some pods, the limit applies to the backlog of each of those pods. A reply
    /// that is overdue in between does not extend the limit. The time in which the plugin is
    /// suspended does not count.
    catch_up_timeout: Duration = Duration::from_secs(10);
    /// The length of the first pause of a suspended plugin. Each further pause is twice as long,
    /// until the plugin answers in time.
    first_pause: Duration = Duration::from_secs(10);
    /// The longest pause of a suspended plugin. If this is shorter than the first pause, every
    /// pause is as long as the first.
    longest_pause: Duration = Duration::from_secs(300);
    /// Whether the plugin is asked about different pods at the same time.
    concurrency: Concurrency = Concurrency::Serial;
    /// Whether no container is created without the plugin's verdict. If true, creates fail, with
    /// the plugin's name, while the plugin is absent, joins, is silent or is suspended. Such a
    /// plugin is kept connected unless the operator says otherwise. If false, a plugin that
    /// subscribes to validation makes creates fail only until it has its strikes. After that,
    /// containers are created without its verdict.
    validator: bool = false;
    /// The users whose processes may connect as this plugin, among the users that may connect at
    /// all. Not used for plugins that the runtime launches or has built in.
    uids: Uids = Uids::Any;
    /// How the plugin may reach the runtime: connected, launched or built in.
    origin: AllowedOrigin = AllowedOrigin::Any;
    /// The changes that the plugin may make, and the events that it may see.
    allow: Allowed = Allowed::default();
    /// The Kubernetes namespaces whose pods the plugin sees. The plugin may change nothing in other
    /// namespaces.
    namespaces: Namespaces = Namespaces::all();
    /// Whether the plugin's replies are applied, or only recorded.
    mode: Mode = Mode::Enforce;
}
