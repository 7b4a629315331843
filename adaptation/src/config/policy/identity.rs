//! Decides whether a peer may be a plugin of a given name.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use nri_proto::PluginId;
use toml::Value;

use super::Declared;
use super::Effective;
use super::Origin;
use super::PluginKey;
use super::Policies;
use super::SettingRef;
use crate::config::settings::{Choice, KeyPath, Setting};

/// How a plugin reaches the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PluginOrigin {
    /// The plugin is part of the runtime's own program.
    BuiltIn,
    /// The plugin is a process that connected to the socket.
    Connected,
    /// The plugin is a program that the runtime started.
    Launched,
}

/// The identity of a plugin, as the runtime knows it. The plugin's name is not part of it, because
/// the plugin claims the name itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// How the plugin reached the runtime.
    pub origin: PluginOrigin,
    /// The user of the process that connected, if known. `None` for a plugin that the runtime
    /// launched or has built in.
    pub uid: Option<u32>,
}

impl Identity {
    pub(crate) const BUILT_IN: Self = Self { origin: PluginOrigin::BuiltIn, uid: None };
    pub(crate) const LAUNCHED: Self = Self { origin: PluginOrigin::Launched, uid: None };

    /// Returns the identity of a process of this user that connected.
    pub(crate) fn connected(uid: Option<u32>) -> Self {
        Self { origin: PluginOrigin::Connected, uid }
    }
}

/// The ways in which a plugin may reach the runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AllowedOrigin {
    /// Any way.
    #[default]
    Any,
    /// Only this way.
    Only(PluginOrigin),
}

/// The users whose processes may connect as a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Uids {
    /// All users that may connect at all.
    #[default]
    Any,
    /// Only these users.
    Only(BTreeSet<u32>),
}

/// Whether plugins without a table of their own are admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unnamed {
    /// Plugins without a table are admitted, under the operator's defaults.
    #[default]
    Admit,
    /// Plugins without a table are refused.
    Refuse,
}

/// Why the operator does not permit a peer to be a plugin. The text names the setting that decides.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPermitted {
    /// The operator admits only plugins that have a table, and no table names the plugin.
    #[error("unnamed = \"refuse\" lets in only plugins that have a table, such as [{table}]")]
    Unnamed {
        /// A table that would name the plugin.
        table: String,
    },
    /// The plugin reached the runtime in a way that is not allowed.
    #[error("it is {origin}, and {setting} is {:?}", allowed.show())]
    Origin {
        /// How the plugin reached the runtime.
        origin: PluginOrigin,
        /// The way that is allowed.
        allowed: AllowedOrigin,
        /// The setting that decides.
        setting: SettingRef,
    },
    /// The user of the process that connected may not connect as this plugin.
    #[error("{} is not among {setting}, {allowed}", user(*uid))]
    User {
        /// The user, if known.
        uid: Option<u32>,
        /// The users that may connect as this plugin.
        allowed: Uids,
        /// The setting that decides.
        setting: SettingRef,
    },
}

impl Policies {
    /// Checks whether a peer may be a plugin of this id.
    ///
    /// ```
    /// use nri_adaptation::policy::{Identity, PluginOrigin, Policies, PolicyRules, Uids};
    ///
    /// let guard = PolicyRules { uids: Some(Uids::Only([0].into())), ..PolicyRules::default() };
    /// let policies = Policies { plugins: [("guard".parse()?, guard)].into(), ..Policies::default() };
    /// let peer = |uid| Identity { origin: PluginOrigin::Connected, uid: Some(uid) };
    /// assert!(policies.check_identity(&"10-guard".parse()?, peer(0)).is_ok());
    /// let refused = policies.check_identity(&"10-guard".parse()?, peer(1000)).unwrap_err();
    /// assert_eq!(refused.to_string(), "user 1000 is not among plugins.guard.uids, [0]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the operator does not permit it.
    pub fn check_identity(&self, id: &PluginId, identity: Identity) -> Result<(), NotPermitted> {
        let keys = [id.clone().into(), PluginKey::of_name(id)];
        if self.unnamed == Unnamed::Refuse && !keys.iter().any(|key| self.plugins.contains_key(key)) {
            let table = KeyPath::default().of("plugins").of(id.name()).to_string();
            return Err(NotPermitted::Unnamed { table });
        }
        let Effective { policy, origins } = self.effective(id, Declared::default());
        let Identity { origin, uid } = identity;
        if policy.origin != AllowedOrigin::Any && policy.origin != AllowedOrigin::Only(origin) {
            let setting = word(id, "origin", origins.origin);
            return Err(NotPermitted::Origin { origin, allowed: policy.origin, setting });
        }
        // Launched and built-in plugins belong to the runtime, so their user is not checked.
        if origin == PluginOrigin::Connected && !policy.uids.contains(uid) {
            let setting = word(id, "uids", origins.uids);
            return Err(NotPermitted::User { uid, allowed: policy.uids, setting });
        }
        Ok(())
    }
}

impl Uids {
    /// Returns whether the set contains a peer's user. An unknown user is only in [`Uids::Any`].
    #[must_use]
    pub fn contains(&self, uid: Option<u32>) -> bool {
        match self {
            Self::Any => true,
            Self::Only(uids) => uid.is_some_and(|uid| uids.contains(&uid)),
        }
    }
}

/// Returns the operator's setting that decided, given the source of the effective value.
fn word(id: &PluginId, axis: &'static str, origin: Origin) -> SettingRef {
    let about = match origin {
        Origin::Id => Some(id.clone().into()),
        Origin::Name => Some(PluginKey::of_name(id)),
        Origin::Defaults | Origin::Declared | Origin::Required | Origin::Validates | Origin::BuiltIn => None,
    };
    SettingRef { about, axis }
}

fn user(uid: Option<u32>) -> String {
    uid.map_or_else(|| "its user, who is not known,".to_owned(), |uid| format!("user {uid}"))
}

impl Display for PluginOrigin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BuiltIn => "built into the runtime",
            Self::Connected => "connected to the runtime",
            Self::Launched => "launched by the runtime",
        })
    }
}

impl Display for Identity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { origin, uid } = self;
        origin.fmt(f)?;
        match (origin, uid) {
            (_, Some(uid)) => write!(f, " by user {uid}"),
            (PluginOrigin::Connected, None) => f.write_str(" by an unknown user"),
            (PluginOrigin::BuiltIn | PluginOrigin::Launched, None) => Ok(()),
        }
    }
}

impl Display for Uids {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Only(uids) => {
                let uids: Vec<_> = uids.iter().map(u32::to_string).collect();
                write!(f, "[{}]", uids.join(" "))
            }
        }
    }
}

impl Choice for AllowedOrigin {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("any", Self::Any),
        ("launched", Self::Only(PluginOrigin::Launched)),
        ("connected", Self::Only(PluginOrigin::Connected)),
        ("built-in", Self::Only(PluginOrigin::BuiltIn)),
    ];
}

impl Choice for Unnamed {
    const CHOICES: &'static [(&'static str, Self)] = &[("admit", Self::Admit), ("refuse", Self::Refuse)];
}

impl Setting for Uids {
    fn read(value: &Value) -> Result<Self, String> {
        if value.as_str() == Some("any") {
            return Ok(Self::Any);
        }
        let uids = Vec::<u32>::read(value).ok().filter(|uids| !uids.is_empty());
        uids.map(|uids| Self::Only(uids.into_iter().collect()))
            .ok_or_else(|| "a list of user ids with at least one, or \"any\"".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}
