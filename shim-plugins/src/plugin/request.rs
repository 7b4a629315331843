//! The requests of a plugin for other plugins, by slot or by kind.

use std::sync::Arc;

use super::loaded_values::LoadedValues;
use super::outcome::LoadOutcome;
use crate::graph::{AllOfKind, Interface, Kind, LoadAfter, Need, OneOfKind, OptionalSlot, Slot, Strength, Target, Uri};

/// A request of a plugin: the values of other plugins that it receives when it is initialized.
///
/// A request is a [`Slot`], an [optional slot](Slot::optional), [one](Kind::one) or
/// [all](Kind::all) plugins of a [`Kind`], an order without a value ([`Slot::after`]), or a tuple
/// of requests. The needs of a plugin follow from its request, so it receives nothing that it did
/// not declare.
pub trait Request: Send + Sync + 'static {
    /// The value that the plugin receives.
    type Output: Send;

    /// Returns what must be loaded before the plugin.
    fn needs(&self) -> Vec<Need>;

    /// Takes the value from the plugins that were loaded.
    fn take(&self, values: &LoadedValues) -> Result<Self::Output, DependencyError>;
}

/// Why a plugin does not receive a value that it requires.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DependencyError {
    /// The required plugin is not registered.
    #[error("{uri} is not registered")]
    Absent {
        /// The required plugin.
        uri: Uri,
    },

    /// The required plugin was not loaded.
    #[error("{uri} was not loaded: {outcome}")]
    NotLoaded {
        /// The required plugin.
        uri: Uri,
        /// The outcome of loading the required plugin.
        outcome: LoadOutcome,
    },

    /// Not exactly one plugin of a kind was loaded.
    #[error("expected one plugin of kind {kind}, found {found}")]
    NotOne {
        /// The kind.
        kind: &'static str,
        /// The number of loaded plugins of the kind.
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

impl<T: ?Sized + Send + Sync + 'static> Request for OptionalSlot<T> {
    type Output = Option<Arc<T>>;

    fn needs(&self) -> Vec<Need> {
        self.0.needs().into_iter().map(|need| Need { strength: Strength::Optional, ..need }).collect()
    }

    fn take(&self, values: &LoadedValues) -> Result<Option<Arc<T>>, DependencyError> {
        Ok(self.0.take(values).ok())
    }
}

/// Returns the need for the plugins of a kind.
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
                #[expect(non_snake_case, reason = "a type and its value share one name")]
                let ($($name,)*) = self;
                let needs: Vec<Vec<Need>> = vec![$($name.needs()),*];
                needs.concat()
            }

            fn take(&self, values: &LoadedValues) -> Result<Self::Output, DependencyError> {
                #[expect(non_snake_case, reason = "a type and its value share one name")]
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
