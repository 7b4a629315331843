//! What a plugin asks for, and gets when it is initialised.

use std::any::Any;
use std::sync::Arc;

use super::outcome::LoadOutcome;
use crate::graph::{Interface, Kind, Need, Slot, Strength, Target, Uri};

/// Something that a plugin asks for: a [`Slot`], one made [`optional`](Slot::optional), a
/// [`Kind`]'s only plugin or all of them, what only comes [`after`](Slot::after) another, or a tuple
/// of these.
///
/// What a plugin needs follows from what it asks for, so it cannot get at what it did not declare.
pub trait Request: Send + Sync + 'static {
    /// What is given for it.
    type Output: Send;

    /// What has to come before.
    fn needs(&self) -> Vec<Need>;

    /// Takes it from the plugins that were initialised.
    fn take(&self, values: &LoadedValues) -> Result<Self::Output, DependencyError>;
}

/// What the plugins that were initialised provide.
#[derive(Default)]
pub struct LoadedValues {
    places: Vec<LoadedValue>,
}

struct LoadedValue {
    uri: Uri,
    /// An `Arc` of the interface, or why there is none.
    held: Result<Box<dyn Any + Send + Sync>, LoadOutcome>,
}

impl LoadedValues {
    pub(crate) fn put(&mut self, uri: Uri, held: Result<Box<dyn Any + Send + Sync>, LoadOutcome>) {
        self.places.push(LoadedValue { uri, held });
    }

    fn one<T: ?Sized + 'static>(&self, uri: &Uri) -> Result<Arc<T>, DependencyError> {
        let place = self.places.iter().find(|place| place.uri == *uri);
        let Some(place) = place else { return Err(DependencyError::Absent { uri: uri.clone() }) };
        place.provided().map_err(|outcome| DependencyError::NotLoaded { uri: uri.clone(), outcome: outcome.clone() })
    }

    /// Those of a kind that were initialised, with their ids.
    fn all<T: ?Sized + 'static>(&self, kind: &Kind<T>) -> Vec<(String, Arc<T>)> {
        let of_kind = self.places.iter().filter(|place| place.uri.kind == kind.name());
        of_kind.filter_map(|place| Some((place.uri.id.clone(), place.provided().ok()?))).collect()
    }
}

impl LoadedValue {
    fn provided<T: ?Sized + 'static>(&self) -> Result<Arc<T>, &LoadOutcome> {
        let held = self.held.as_ref()?;
        Ok(held.downcast_ref::<Arc<T>>().map(Arc::clone).expect("the graph compared the interfaces"))
    }
}

/// Why a plugin does not get what it requires.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DependencyError {
    /// It is not there.
    #[error("{uri} is not there")]
    Absent {
        /// What is required.
        uri: Uri,
    },

    /// It is there, but was not initialised.
    #[error("{uri} was not loaded: {outcome}")]
    NotLoaded {
        /// What is required.
        uri: Uri,
        /// What became of it.
        outcome: LoadOutcome,
    },

    /// One was expected.
    #[error("{found} plugins of the kind {kind} were loaded, and not one")]
    NotOne {
        /// The kind.
        kind: &'static str,
        /// How many there are.
        found: usize,
    },
}

impl<T: ?Sized + Send + Sync + 'static> Request for Slot<T> {
    type Output = Arc<T>;

    fn needs(&self) -> Vec<Need> {
        vec![Need {
            target: Target::Slot(self.uri()),
            strength: Strength::Required,
            interface: Some(Interface::of::<T>()),
        }]
    }

    fn take(&self, values: &LoadedValues) -> Result<Arc<T>, DependencyError> {
        values.one(&self.uri())
    }
}

/// A slot that may be empty: see [`Slot::optional`].
#[derive(Debug)]
pub struct OptionalSlot<T: ?Sized>(Slot<T>);

impl<T: ?Sized> Slot<T> {
    /// Asks for what stands here, if there is something.
    pub const fn optional(self) -> OptionalSlot<T> {
        OptionalSlot(self)
    }

    /// Asks to come after what stands here, if there is something.
    pub fn after(self) -> LoadAfter {
        LoadAfter(Target::Slot(self.uri()))
    }
}

impl<T: ?Sized + Send + Sync + 'static> Request for OptionalSlot<T> {
    type Output = Option<Arc<T>>;

    fn needs(&self) -> Vec<Need> {
        self.0.needs().into_iter().map(|need| Need { strength: Strength::Optional, ..need }).collect()
    }

    fn take(&self, values: &LoadedValues) -> Result<Option<Arc<T>>, DependencyError> {
        Ok(self.0.take(values).ok())
    }
}

/// The one plugin of a kind: see [`Kind::one`].
#[derive(Debug)]
pub struct OneOfKind<T: ?Sized>(Kind<T>);

/// All plugins of a kind: see [`Kind::all`].
#[derive(Debug)]
pub struct AllOfKind<T: ?Sized>(Kind<T>);

impl<T: ?Sized> Kind<T> {
    /// Asks for the one plugin of this kind that was loaded, whatever its id.
    pub const fn one(self) -> OneOfKind<T> {
        OneOfKind(self)
    }

    /// Asks for all plugins of this kind that were loaded, in the order of loading, with their ids. There may be none.
    pub const fn all(self) -> AllOfKind<T> {
        AllOfKind(self)
    }

    /// Asks to come after all plugins of this kind.
    pub fn after(self) -> LoadAfter {
        LoadAfter(Target::Kind(self.name().to_owned()))
    }
}

fn of_kind<T: ?Sized + 'static>(kind: &Kind<T>, strength: Strength) -> Vec<Need> {
    let target = Target::Kind(kind.name().to_owned());
    vec![Need { target, strength, interface: Some(Interface::of::<T>()) }]
}

impl<T: ?Sized + Send + Sync + 'static> Request for OneOfKind<T> {
    type Output = Arc<T>;

    fn needs(&self) -> Vec<Need> {
        of_kind(&self.0, Strength::Required)
    }

    fn take(&self, values: &LoadedValues) -> Result<Arc<T>, DependencyError> {
        let mut all = values.all(&self.0);
        match all.pop() {
            Some((_, only)) if all.is_empty() => Ok(only),
            Some(_) => Err(DependencyError::NotOne { kind: self.0.name(), found: all.len() + 1 }),
            None => Err(DependencyError::NotOne { kind: self.0.name(), found: 0 }),
        }
    }
}

impl<T: ?Sized + Send + Sync + 'static> Request for AllOfKind<T> {
    type Output = Vec<(String, Arc<T>)>;

    fn needs(&self) -> Vec<Need> {
        of_kind(&self.0, Strength::Optional)
    }

    fn take(&self, values: &LoadedValues) -> Result<Self::Output, DependencyError> {
        Ok(values.all(&self.0))
    }
}

/// Something that only comes before.
#[derive(Clone, Debug)]
pub struct LoadAfter(Target);

impl LoadAfter {
    /// Asks to come after all plugins of a kind, whatever they provide.
    pub fn kind(name: impl Into<String>) -> Self {
        Self(Target::Kind(name.into()))
    }

    /// Asks to come after all other plugins. It can be the only thing that a plugin asks for.
    pub fn everything() -> Self {
        Self(Target::Everything)
    }
}

impl Request for LoadAfter {
    type Output = ();

    fn needs(&self) -> Vec<Need> {
        vec![Need { target: self.0.clone(), strength: Strength::Order, interface: None }]
    }

    fn take(&self, _: &LoadedValues) -> Result<(), DependencyError> {
        Ok(())
    }
}

macro_rules! tuples {
    ($($name:ident)*) => {
        impl<$($name: Request),*> Request for ($($name,)*) {
            type Output = ($($name::Output,)*);

            fn needs(&self) -> Vec<Need> {
                #[expect(non_snake_case, reason = "one name for a type and its value")]
                let ($($name,)*) = self;
                let needs: Vec<Vec<Need>> = vec![$($name.needs()),*];
                needs.concat()
            }

            fn take(&self, values: &LoadedValues) -> Result<Self::Output, DependencyError> {
                #[expect(non_snake_case, reason = "one name for a type and its value")]
                let ($($name,)*) = self;
                Ok(($($name.take(values)?,)*))
            }
        }
    };
}

impl Request for () {
    type Output = ();

    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    fn take(&self, _: &LoadedValues) -> Result<(), DependencyError> {
        Ok(())
    }
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
