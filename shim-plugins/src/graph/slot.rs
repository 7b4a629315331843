//! The name of a shim plugin, tied to what it provides.

use std::any::{TypeId, type_name};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The name of a shim plugin: what kind of thing it is, and which one.
///
/// It is written as containerd writes it, kind and id with a dot between.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uri {
    /// The kind, such as `io.containerd.ttrpc.v1`.
    pub kind: String,
    /// Which one of that kind, such as `task`.
    pub id: String,
}

impl Uri {
    /// A name of two parts.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { kind: kind.into(), id: id.into() }
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.id)
    }
}

/// A Rust type that a plugin provides, or that one asks for.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    id: TypeId,
    name: &'static str,
}

impl Interface {
    /// The interface `T`.
    pub fn of<T: ?Sized + 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }

    /// How Rust calls it.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl PartialEq for Interface {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// The place of one plugin, and the interface of whatever stands there.
///
/// A slot is a constant that the plugin and those who need it share. So what one gets is what the
/// other provides:
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
    /// The slot of that kind and id.
    pub const fn new(kind: &'static str, id: &'static str) -> Self {
        Self { kind, id, provides: PhantomData }
    }

    /// Its name.
    pub fn uri(&self) -> Uri {
        Uri::new(self.kind, self.id)
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

/// All plugins of one kind, which provide the same interface.
pub struct Kind<T: ?Sized> {
    name: &'static str,
    provides: PhantomData<fn() -> Arc<T>>,
}

impl<T: ?Sized> Kind<T> {
    /// The kind of that name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, provides: PhantomData }
    }

    /// The slot of one plugin of this kind.
    pub const fn slot(self, id: &'static str) -> Slot<T> {
        Slot::new(self.name, id)
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
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
