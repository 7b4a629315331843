//! The values that loaded plugins provide for other plugins.

use std::any::Any;
use std::sync::Arc;

use super::outcome::LoadOutcome;
use super::request::DependencyError;
use crate::graph::{Kind, Uri};

/// The values of the plugins that were loaded so far, and why others have no value.
#[derive(Default)]
pub struct LoadedValues {
    values: Vec<LoadedValue>,
}

/// The value of one plugin.
struct LoadedValue {
    uri: Uri,
    /// An `Arc` of the interface, or why the plugin has no value.
    value: Result<Box<dyn Any + Send + Sync>, LoadOutcome>,
}

impl LoadedValues {
    /// Stores the value of a plugin.
    pub(crate) fn insert(&mut self, uri: Uri, value: Result<Box<dyn Any + Send + Sync>, LoadOutcome>) {
        self.values.push(LoadedValue { uri, value });
    }

    /// Returns the value of a plugin.
    pub(super) fn one<T: ?Sized + 'static>(&self, uri: &Uri) -> Result<Arc<T>, DependencyError> {
        let value = self.values.iter().find(|value| value.uri == *uri);
        let Some(value) = value else { return Err(DependencyError::Absent { uri: uri.clone() }) };
        value.get().map_err(|outcome| DependencyError::NotLoaded { uri: uri.clone(), outcome: outcome.clone() })
    }

    /// Returns the values of the loaded plugins of a kind, with their ids.
    pub(super) fn all<T: ?Sized + 'static>(&self, kind: &Kind<T>) -> Vec<(String, Arc<T>)> {
        let of_kind = self.values.iter().filter(|value| value.uri.kind == kind.name());
        of_kind.filter_map(|value| Some((value.uri.id.clone(), value.get().ok()?))).collect()
    }
}

impl LoadedValue {
    fn get<T: ?Sized + 'static>(&self) -> Result<Arc<T>, &LoadOutcome> {
        let value = self.value.as_ref()?;
        Ok(value.downcast_ref::<Arc<T>>().map(Arc::clone).expect("the graph compared the interfaces"))
    }
}
