//! A shim plugin: its slot, what it asks for, and how it is initialized.
//!
//! - `request`: what a plugin asks for. `loaded_values`: the values that plugins receive.
//! - `provided`: what the initialization returns, for other plugins and for the shim.
//! - `outcome`: the outcome of loading a plugin, and the errors of its initialization.
//! - `shim_context`: the container and the containerd that the shim runs for.

mod loaded_values;
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

pub use loaded_values::LoadedValues;
pub(crate) use outcome::ErrorChain;
pub use outcome::{InitError, InitFailure, LoadOutcome};
pub(crate) use provided::{Contributions, DebugEndpoint, ShutdownHook};
pub use provided::{DEFAULT_HOOK_LIMIT, Provided};
pub use request::{DependencyError, Request};
pub use shim_context::ShimContext;

use crate::config;
use crate::graph::{Interface, Node, Slot, Uri};

/// The limit of an initialization, unless the plugin sets another one.
pub const DEFAULT_INIT_LIMIT: Duration = Duration::from_secs(10);

/// The effect of a failed plugin on the shim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The shim does not start.
    #[default]
    Required,
    /// The shim starts without the plugin.
    BestEffort,
}

/// A shim plugin, ready to be registered.
///
/// A plugin is a plain value: nothing runs before the shim loads it.
#[derive(Clone)]
pub struct Plugin {
    pub(crate) node: Node,
    pub(crate) policy: FailurePolicy,
    pub(crate) limit: Duration,
    pub(crate) init: Arc<dyn Initializer>,
}

impl Plugin {
    /// Creates a builder for the plugin of a slot.
    pub fn at<T: ?Sized + Send + Sync + 'static>(slot: Slot<T>) -> PluginBuilder<T> {
        PluginBuilder {
            slot,
            request: (),
            decode: config::none,
            policy: FailurePolicy::default(),
            limit: DEFAULT_INIT_LIMIT,
        }
    }

    /// Returns the name of the plugin.
    pub fn uri(&self) -> &Uri {
        &self.node.uri
    }
}

/// Decodes the settings of a plugin.
type Decode<C> = fn(Option<toml::Value>) -> Result<config::DecodedConfig<C>, toml::de::Error>;

/// Builds a [`Plugin`]. [`PluginBuilder::init`] completes the plugin.
pub struct PluginBuilder<T: ?Sized, R = (), C = ()> {
    slot: Slot<T>,
    request: R,
    decode: Decode<C>,
    policy: FailurePolicy,
    limit: Duration,
}

impl<T: ?Sized + Send + Sync + 'static, R, C> PluginBuilder<T, R, C> {
    /// Asks for other plugins. Replaces an earlier request.
    pub fn asks<S: Request>(self, request: S) -> PluginBuilder<T, S, C> {
        let Self { slot, request: _, decode, policy, limit } = self;
        PluginBuilder { slot, request, decode, policy, limit }
    }

    /// Declares the type of the configuration. Without a configuration, the plugin receives
    /// `Default`.
    pub fn configured<D: DeserializeOwned + Default>(self) -> PluginBuilder<T, R, D> {
        let Self { slot, request, decode: _, policy, limit } = self;
        PluginBuilder { slot, request, decode: config::decode::<D>, policy, limit }
    }

    /// Lets the shim start without this plugin if the plugin fails.
    #[must_use]
    pub fn best_effort(self) -> Self {
        Self { policy: FailurePolicy::BestEffort, ..self }
    }

    /// Sets the limit of the initialization, in place of [`DEFAULT_INIT_LIMIT`].
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Completes the plugin with its initialization, which receives an [`InitContext`] and the
    /// values that the plugin asked for.
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

/// The arguments of an initialization besides the values that the plugin asked for.
pub struct InitContext<C> {
    /// The configuration of the plugin.
    pub config: C,
    /// The container and the containerd that the shim runs for.
    pub context: Arc<ShimContext>,
    uri: Uri,
}

impl<C> InitContext<C> {
    /// Returns a directory of the plugin's own in the bundle, and creates it if necessary. The
    /// directory is removed with the bundle.
    pub fn state_dir(&self) -> io::Result<PathBuf> {
        let dir = self.context.bundle.join(self.uri.to_string());
        match fs::create_dir(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => Ok(dir),
        }
    }
}

/// The value and the contributions of a plugin, with the type of the value erased.
pub(crate) type ErasedProvided = (Box<dyn Any + Send + Sync>, Contributions);

/// The initialization of a plugin, with its types erased.
pub(crate) trait Initializer: Send + Sync {
    /// Decodes the configuration and takes the requested values. Returns the initialization as a
    /// future, and the keys of the configuration that are unknown.
    fn prepare(
        &self,
        settings: config::PluginSettings,
        context: &Arc<ShimContext>,
        values: &LoadedValues,
    ) -> Result<PreparedInit, InitFailure>;
}

/// An initialization that is ready to run.
pub(crate) struct PreparedInit {
    pub(crate) unknown_keys: Vec<String>,
    pub(crate) init: BoxFuture<'static, Result<ErasedProvided, InitError>>,
}

/// The initialization of a plugin, with its types.
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
        settings: config::PluginSettings,
        context: &Arc<ShimContext>,
        values: &LoadedValues,
    ) -> Result<PreparedInit, InitFailure> {
        let requested = self.request.take(values)?;
        let decoded = (self.decode)(settings.table.clone()).map_err(|source| {
            let place = settings.place_of(&source, self.decode).map(str::to_owned);
            InitFailure::Config { place, source }
        });
        let config::DecodedConfig { config, unknown_keys } = decoded?;
        let init = (self.init)(InitContext { config, context: Arc::clone(context), uri: self.uri.clone() }, requested);
        let init = async move {
            let Provided { value, contributions } = init.await?;
            Ok((Box::new(value) as Box<dyn Any + Send + Sync>, contributions))
        };
        Ok(PreparedInit { unknown_keys, init: Box::pin(init) })
    }
}
