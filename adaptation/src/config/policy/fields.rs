//! The axes of a policy. Each is a line at the end of this file: its name is also its key in a
//! file.

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
        /// What holds for one plugin.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Policy {
            $($(#[doc = $doc])+ pub $axis: $kind,)+
        }

        impl Default for Policy {
            fn default() -> Self {
                Self { $($axis: $default,)+ }
            }
        }

        /// What an operator says about plugins, axis by axis; `None` where nothing is said.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct PolicyRules {
            $($(#[doc = $doc])+ pub $axis: Option<$kind>,)+
        }

        /// Who decided, axis by axis.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Origins {
            $(#[doc = concat!("Who decided about [`", stringify!($axis), "`](Policy::", stringify!($axis), ").")]
            pub $axis: Origin,)+
        }

        impl PolicyRules {
            /// The keys of all axes.
            pub(crate) const KEYS: &'static [&'static str] = &[$(stringify!($axis)),+];

            /// Takes the axes out of a table.
            pub(crate) fn read(section: &mut Section<'_>) -> Self {
                Self { $($axis: section.take(stringify!($axis)),)+ }
            }
        }

        impl Effective {
            /// On each axis the first that is said, else the default.
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
    /// Whether requests fail while the plugin is absent, joins for too long, or does not answer.
    required: bool = false;
    /// What becomes of a request that the plugin does not answer in time. One that is required has
    /// no choice.
    on_timeout: OnTimeout = OnTimeout::Skip;
    /// After how many timeouts in a row the plugin is closed, or suspended if it is kept connected.
    /// Go has 1.
    strikes: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);
    /// Whether the plugin is suspended where it would be closed for being silent.
    keep_connected: bool = false;
    /// Whether what the plugin declares about itself counts.
    declarations: Declarations = Declarations::Honour;
    /// How long the plugin may take to answer a request.
    request_timeout: Duration = defaults::REQUEST_TIMEOUT;
    /// How long the plugin may take to be synchronized, in all.
    sync_timeout: Duration = Duration::from_secs(30);
    /// How long requests wait for the plugin while it joins. Nobody waits for one that is not
    /// required.
    join_timeout: Duration = Duration::from_secs(10);
    /// How long a request waits until the plugin is free to be asked.
    lane_timeout: Duration = Duration::from_secs(10);
    /// How long a plugin's backlog, the requests that it has missed and can be told, may take to
    /// become shorter; at least two request timeouts. After that a plugin that joins begins anew,
    /// and one that has joined is closed. If requests ask the plugin again but about some pods,
    /// that holds for the backlog of each of those pods.
    catch_up_timeout: Duration = Duration::from_secs(10);
    /// How long the first pause of a suspended plugin is. Each pause that follows without an answer
    /// in time is twice as long.
    first_pause: Duration = Duration::from_secs(10);
    /// How long a pause of a suspended plugin may become. If it is shorter than the first pause,
    /// all pauses are that long.
    longest_pause: Duration = Duration::from_secs(300);
    /// Whether the plugin is asked about different pods at the same time.
    concurrency: Concurrency = Concurrency::Serial;
    /// Whether no container is created without the plugin's verdict: while it is absent, joins, is
    /// silent or is suspended, creates fail by its name. It is kept connected unless the operator
    /// says otherwise. A plugin that merely subscribes to validation fails creates until it has its
    /// strikes; then containers are created without it.
    validator: bool = false;
    /// The users whose processes may connect as this plugin, of those that may connect at all. A
    /// plugin that the runtime launches or has built in is its own, and not asked.
    uids: Uids = Uids::Any;
    /// How the plugin may come: connected, launched, or built in.
    origin: AllowedOrigin = AllowedOrigin::Any;
    /// What the plugin may change, and which events it may see.
    allow: Allowed = Allowed::default();
    /// The namespaces of Kubernetes whose pods the plugin sees. In others it may change nothing.
    namespaces: Namespaces = Namespaces::all();
    /// Whether what the plugin answers counts, or is only recorded.
    mode: Mode = Mode::Enforce;
}
