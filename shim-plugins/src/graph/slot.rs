//! The names of shim plugins, tied to the types that they provide.

use std::any::{TypeId, type_name};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::Target;

/// The name of a shim plugin: a kind and an id.
///
/// The written form is containerd's: kind and id, separated by a dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uri {
    /// The kind, such as `io.containerd.ttrpc.v1`.
    pub kind: String,
    /// The id of the plugin within its kind, such as `task`.
    pub id: String,
}

impl Uri {
    /// Creates a name.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { kind: kind.into(), id: id.into() }
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.id)
    }
}

/// The Rust type that a plugin provides, or that another plugin asks for.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    id: TypeId,
    name: &'static str,
}

impl Interface {
    /// Returns the interface `T`.
    pub fn of<T: ?Sized + 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }

    /// Returns the Rust name of the type.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl PartialEq for Interface {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// The name of one plugin, with the type that the plugin provides.
///
/// A slot is a constant that a plugin shares with the plugins that need it. So the compiler checks
/// that both use the same type:
///
/// ```compile_fail
/// # use std::sync::Arc;
/// # use shim_plugins::{Plugin, Provided, Slot};
/// const CLOCK: Slot<u32> = Slot::new("io.example.clock.v1", "wall");
/// // error: expected `Arc<String>`, found `Arc<u32>`
/// Plugin::at(CLOCK).init(|_, ()| async { Ok(Provided::new(Arc::new("noon".to_owned()))) });
/// ```
pub struct Slot<T: ?Sized> {
    kind: &'static str,
    id: &'static str,
    provides: PhantomData<fn() -> Arc<T>>,
}

impl<T: ?Sized> Slot<T> {
    /// Creates the slot of a kind and an id.
    pub const fn new(kind: &'static str, id: &'static str) -> Self {
        Self { kind, id, provides: PhantomData }
    }

    /// Returns the name of the plugin.
    pub fn uri(&self) -> Uri {
        Uri::new(self.kind, self.id)
    }

    /// Asks for the plugin of this slot, if it was loaded.
    pub const fn optional(self) -> OptionalSlot<T> {
        OptionalSlot(self)
    }

    /// Asks to be loaded after the plugin of this slot, if there is one, without using it.
    pub fn after(self) -> LoadAfter {
        LoadAfter(Target::Slot(self.uri()))
    }
}

impl<T: ?Sized> Clone for Slot<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Slot<T> {}

impl<T: ?Sized> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({}: {})", self.uri(), type_name::<T>())
    }
}

/// All plugins of one kind, which provide the same type.
pub struct Kind<T: ?Sized> {
    name: &'static str,
    provides: PhantomData<fn() -> Arc<T>>,
}

impl<T: ?Sized> Kind<T> {
    /// Creates the kind of a name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, provides: PhantomData }
    }

    /// Returns the slot of one plugin of this kind.
    pub const fn slot(self, id: &'static str) -> Slot<T> {
        Slot::new(self.name, id)
    }

    /// Returns the name of the kind.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Asks for the only loaded plugin of this kind, whatever its id.
    pub const fn one(self) -> OneOfKind<T> {
        OneOfKind(self)
    }

    /// Asks for all loaded plugins of this kind, with their ids, in the order of loading. There may
    /// be none.
    pub const fn all(self) -> AllOfKind<T> {
        AllOfKind(self)
    }

    /// Asks to be loaded after all plugins of this kind, without using them.
    pub fn after(self) -> LoadAfter {
        LoadAfter(Target::Kind(self.name().to_owned()))
    }
}

impl<T: ?Sized> Clone for Kind<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Kind<T> {}

impl<T: ?Sized> fmt::Debug for Kind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({}: {})", self.name, type_name::<T>())
    }
}

/// A request for a plugin that may be absent: see [`Slot::optional`].
#[derive(Debug)]
pub struct OptionalSlot<T: ?Sized>(pub(crate) Slot<T>);

/// A request for the only plugin of a kind: see [`Kind::one`].
#[derive(Debug)]
pub struct OneOfKind<T: ?Sized>(pub(crate) Kind<T>);

/// A request for all plugins of a kind: see [`Kind::all`].
#[derive(Debug)]
pub struct AllOfKind<T: ?Sized>(pub(crate) Kind<T>);

/// A request to be loaded after other plugins, without using them.
#[derive(Clone, Debug)]
pub struct LoadAfter(pub(crate) Target);

impl LoadAfter {
    /// Asks to be loaded after all plugins of a kind, whatever they provide.
    pub fn kind(name: impl Into<String>) -> Self {
        Self(Target::Kind(name.into()))
    }

    /// Asks to be loaded after all other plugins. A plugin with this request can have no other
    /// request.
    pub fn everything() -> Self {
        Self(Target::Everything)
    }
}
