//! A shim plugin: where it stands, what it asks for, and how it is initialised.
//!
//! - `request`: what a plugin asks for.
//! - `provided`: what it returns, for other plugins and for the server.
//! - `outcome`: what became of it.
//! - `shim_context`: the container and the containerd that the shim runs for.

mod outcome;
mod provided;
mod request;
mod shim_context;

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;

pub(crate) use outcome::ErrorChain;
pub use outcome::{InitError, InitFailure, LoadOutcome};
pub(crate) use provided::{Contributions, DebugEndpoint, ShutdownHook};
pub use provided::{DEFAULT_HOOK_LIMIT, Provided};
pub use request::{AllOfKind, DependencyError, LoadAfter, LoadedValues, OneOfKind, OptionalSlot, Request};
pub use shim_context::ShimContext;

use crate::config;
use crate::graph::{Interface, Node, Slot, Uri};

/// How long a plugin has to initialise, unless it says otherwise.
pub const DEFAULT_INIT_LIMIT: Duration = Duration::from_secs(10);

/// What it means for the shim that a plugin fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The shim does not start.
    #[default]
    Required,
    /// The shim goes on without it.
    BestEffort,
}

/// A shim plugin, to be registered. It is a value: nothing happens before a shim is run.
#[derive(Clone)]
pub struct Plugin {
    pub(crate) node: Node,
    pub(crate) policy: FailurePolicy,
    pub(crate) limit: Duration,
    pub(crate) init: Arc<dyn Initializer>,
}

impl Plugin {
    /// Begins to describe the plugin of a slot.
    pub fn at<T: ?Sized + Send + Sync + 'static>(slot: Slot<T>) -> PluginBuilder<T> {
        PluginBuilder {
            slot,
            request: (),
            decode: config::none,
            policy: FailurePolicy::default(),
            limit: DEFAULT_INIT_LIMIT,
        }
    }

    /// Its name.
    pub fn uri(&self) -> &Uri {
        &self.node.uri
    }
}

type Decode<C> = fn(Option<toml::Table>) -> Result<config::DecodedConfig<C>, toml::de::Error>;

/// A plugin that is being described. [`PluginBuilder::init`] ends it.
pub struct PluginBuilder<T: ?Sized, R = (), C = ()> {
    slot: Slot<T>,
    request: R,
    decode: Decode<C>,
    policy: FailurePolicy,
    limit: Duration,
}

impl<T: ?Sized + Send + Sync + 'static, R, C> PluginBuilder<T, R, C> {
    /// Asks for other plugins, in place of what was asked for before.
    pub fn asks<S: Request>(self, request: S) -> PluginBuilder<T, S, C> {
        let Self { slot, request: _, decode, policy, limit } = self;
        PluginBuilder { slot, request, decode, policy, limit }
    }

    /// Takes a configuration. What is not configured has the values of `Default`.
    pub fn configured<D: DeserializeOwned + Default>(self) -> PluginBuilder<T, R, D> {
        let Self { slot, request, decode: _, policy, limit } = self;
        PluginBuilder { slot, request, decode: config::decode::<D>, policy, limit }
    }

    /// Lets the shim go on without this plugin if it fails.
    #[must_use]
    pub fn best_effort(self) -> Self {
        Self { policy: FailurePolicy::BestEffort, ..self }
    }

    /// Gives it so long to initialise, in place of [`DEFAULT_INIT_LIMIT`].
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Says how it is initialised: with its configuration and place, and what it asked for.
    pub fn init<F, Fut>(self, init: F) -> Plugin
    where
        F: Fn(InitContext<C>, R::Output) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Provided<T>, InitError>> + Send + 'static,
        R: Request,
        C: Send + 'static,
    {
        let Self { slot, request, decode, policy, limit } = self;
        let node = Node { uri: slot.uri(), provides: Some(Interface::of::<T>()), needs: request.needs() };
        Plugin { node, policy, limit, init: Arc::new(TypedInit { request, decode, init, uri: slot.uri() }) }
    }
}

/// What a plugin is given when it is initialised, beside what it asked for.
pub struct InitContext<C> {
    /// Its configuration.
    pub config: C,
    /// Where the shim runs.
    pub context: Arc<ShimContext>,
    uri: Uri,
}

impl<C> InitContext<C> {
    /// A directory of the plugin's own, below the bundle; it goes when the bundle goes. It is made when it is asked for.
    pub fn state_dir(&self) -> io::Result<PathBuf> {
        let dir = self.context.bundle.join(self.uri.to_string());
        match fs::create_dir(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => Ok(dir),
        }
    }
}

/// What a plugin provides, its type forgotten.
pub(crate) type ErasedProvided = (Box<dyn Any + Send + Sync>, Contributions);

/// A plugin's initialisation, its types forgotten.
pub(crate) trait Initializer: Send + Sync {
    /// Prepares it, or says why it cannot be. Keys that the configuration does not have are returned.
    fn prepare(
        &self,
        table: Option<toml::Table>,
        context: &Arc<ShimContext>,
        values: &LoadedValues,
    ) -> Result<PreparedInit, InitFailure>;
}

pub(crate) struct PreparedInit {
    pub(crate) unknown_keys: Vec<String>,
    pub(crate) init: BoxFuture<'static, Result<ErasedProvided, InitError>>,
}

struct TypedInit<R, C, F> {
    request: R,
    decode: Decode<C>,
    init: F,
    uri: Uri,
}

impl<T, R, C, F, Fut> Initializer for TypedInit<R, C, F>
where
    T: ?Sized + Send + Sync + 'static,
    R: Request,
    C: Send + 'static,
    F: Fn(InitContext<C>, R::Output) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Provided<T>, InitError>> + Send + 'static,
{
    fn prepare(
        &self,
        table: Option<toml::Table>,
        context: &Arc<ShimContext>,
        values: &LoadedValues,
    ) -> Result<PreparedInit, InitFailure> {
        let given = self.request.take(values)?;
        let config::DecodedConfig { config, unknown_keys } = (self.decode)(table).map_err(InitFailure::Config)?;
        let init = (self.init)(InitContext { config, context: Arc::clone(context), uri: self.uri.clone() }, given);
        let init = async move {
            let Provided { value, contributions } = init.await?;
            Ok((Box::new(value) as Box<dyn Any + Send + Sync>, contributions))
        };
        Ok(PreparedInit { unknown_keys, init: Box::pin(init) })
    }
}
