//! Who may be a plugin of a name.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use nri_proto::PluginId;
use toml::Value;

use super::Declared;
use super::Effective;
use super::Origin;
use super::PluginKey;
use super::Policies;
use super::Word;
use crate::config::settings::{Choice, KeyPath, Setting};

/// How a plugin comes to the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PluginOrigin {
    /// The plugin is a part of the runtime's program.
    BuiltIn,
    /// A process has connected.
    Connected,
    /// The runtime has started a program.
    Launched,
}

/// The identity of a plugin, as the runtime knows it. The name is the plugin's own claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// How the plugin came.
    pub origin: PluginOrigin,
    /// The user of the process that connected, if that is known. A plugin that was launched or is
    /// built in has none here: it is the runtime's own.
    pub uid: Option<u32>,
}

impl Identity {
    pub(crate) const BUILT_IN: Self = Self { origin: PluginOrigin::BuiltIn, uid: None };
    pub(crate) const LAUNCHED: Self = Self { origin: PluginOrigin::Launched, uid: None };

    /// A process of this user that has connected.
    pub(crate) fn connected(uid: Option<u32>) -> Self {
        Self { origin: PluginOrigin::Connected, uid }
    }
}

/// The ways in which a plugin may come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AllowedOrigin {
    /// Each of them.
    #[default]
    Any,
    /// This one.
    Only(PluginOrigin),
}

/// The users whose processes may connect as a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Uids {
    /// Those that may connect at all.
    #[default]
    Any,
    /// These.
    Only(BTreeSet<u32>),
}

/// The treatment of plugins that no table of the operator names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unnamed {
    /// They are let in, and the defaults hold for them.
    #[default]
    Admit,
    /// They are refused.
    Refuse,
}

/// Why the operator does not let a peer be a plugin. The text names the setting that decides.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPermitted {
    /// No table names the plugin.
    #[error("unnamed = \"refuse\" lets in only plugins that have a table, such as [{table}]")]
    Unnamed {
        /// The table that would name it.
        table: String,
    },
    /// The plugin came in another way than it may.
    #[error("it is {origin}, and {setting} is {:?}", allowed.show())]
    Origin {
        /// How it came.
        origin: PluginOrigin,
        /// The way in which it may come.
        allowed: AllowedOrigin,
        /// Where the operator says so.
        setting: Word,
    },
    /// The process that connected is of another user than may connect under the name.
    #[error("{} is not among {setting}, {allowed}", user(*uid))]
    User {
        /// The user, if that is known.
        uid: Option<u32>,
        /// The users that may.
        allowed: Uids,
        /// Where the operator says so.
        setting: Word,
    },
}

impl Policies {
    /// Checks whether a peer may be a plugin.
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
    /// The operator does not permit it.
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
        // The other plugins are the runtime's own.
        if origin == PluginOrigin::Connected && !policy.uids.contains(uid) {
            let setting = word(id, "uids", origins.uids);
            return Err(NotPermitted::User { uid, allowed: policy.uids, setting });
        }
        Ok(())
    }
}

impl Uids {
    /// Says whether a peer's user is one of these. A user that is not known is only among all.
    #[must_use]
    pub fn contains(&self, uid: Option<u32>) -> bool {
        match self {
            Self::Any => true,
            Self::Only(uids) => uid.is_some_and(|uid| uids.contains(&uid)),
        }
    }
}

/// The word of the operator about an axis, by who decided.
fn word(id: &PluginId, axis: &'static str, origin: Origin) -> Word {
    let about = match origin {
        Origin::Id => Some(id.clone().into()),
        Origin::Name => Some(PluginKey::of_name(id)),
        Origin::Defaults | Origin::Declared | Origin::Required | Origin::Validates | Origin::BuiltIn => None,
    };
    Word { about, axis }
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
        uid.map_or(Ok(()), |uid| write!(f, " by user {uid}"))
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
