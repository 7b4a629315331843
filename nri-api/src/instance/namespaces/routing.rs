//! Which namespace has the container that a plugin wants changed.

use std::sync::Arc;

use nri_proto::{Owners, PluginId};
use thiserror::Error;

use super::Namespaces;
use crate::domain::timeout::DomainCallError;
use crate::lifecycle::namespace::{Namespace, Presence};

/// Why an update or eviction was not applied.
#[derive(Debug, Error)]
pub(crate) enum ChangeError {
    #[error("there is no such container")]
    Unknown,
    #[error("the container is still being created")]
    BeingCreated,
    #[error("several namespaces have a container with this id")]
    Ambiguous,
    #[error("the plugin may not see the container's pod")]
    Hidden,
    #[error("NRI was stopped")]
    Stopped,
    #[error("namespace {namespace} could not apply the change")]
    Domain { namespace: String, source: DomainCallError },
}

impl ChangeError {
    /// Returns the error for a failed call of a namespace's domain.
    pub(crate) fn domain(namespace: &Namespace, source: DomainCallError) -> Self {
        Self::Domain { namespace: namespace.name.clone(), source }
    }
}

/// Changes that plugins want, by the namespace that has the container.
pub(crate) struct RoutedChanges<C> {
    pub(crate) by_namespace: Vec<(Arc<Namespace>, Vec<C>)>,
    /// Changes that no namespace can apply.
    pub(crate) failed: Vec<(C, ChangeError)>,
}

/// The plugins that want a change of a container.
#[derive(Clone, Copy)]
pub(crate) enum Requester<'a> {
    /// One plugin, on its own initiative or in its reply.
    Plugin(&'a PluginId),
    /// The plugins that own what the merged reply to a request changes.
    Owners(&'a Owners),
}

impl Namespaces {
    /// Finds the namespace that has a container. Returns `None` if the container has just ended.
    ///
    /// The namespace of the request, `own`, comes first, then all others.
    fn locate(&self, own: Option<&Arc<Namespace>>, id: &str) -> Result<Option<Arc<Namespace>>, ChangeError> {
        match own.map(|own| (own, own.presence(id))) {
            Some((own, Presence::Alive)) => return Ok(Some(Arc::clone(own))),
            Some((_, Presence::BeingCreated)) => return Err(ChangeError::BeingCreated),
            // Plugins know that the container has ended, so they mean one in another namespace.
            Some((_, Presence::Ended | Presence::Unknown)) | None => {}
        }
        let places: Vec<_> = self.list().into_iter().map(|namespace| (namespace.presence(id), namespace)).collect();
        let mut alive = places.iter().filter(|(presence, _)| *presence == Presence::Alive);
        match (alive.next(), alive.next()) {
            (Some((_, namespace)), None) => return Ok(Some(Arc::clone(namespace))),
            (Some(_), Some(_)) => return Err(ChangeError::Ambiguous),
            (None, _) => {}
        }
        let is_any = |wanted: Presence| places.iter().any(|(presence, _)| *presence == wanted);
        match (is_any(Presence::BeingCreated), is_any(Presence::Ended)) {
            (true, _) => Err(ChangeError::BeingCreated),
            (false, true) => Ok(None),
            (false, false) => Err(ChangeError::Unknown),
        }
    }

    /// Sorts changes by the namespace that has the container. Changes of containers that have just
    /// ended are left out.
    ///
    /// The adaptation has checked before that the plugins see the container. Another container may
    /// have the same id by now, so `may_change` checks the container that is found here.
    pub(crate) fn route<C>(
        &self,
        own: Option<&Arc<Namespace>>,
        changes: Vec<C>,
        id: impl Fn(&C) -> &str,
        may_change: impl Fn(&C, &Namespace) -> bool,
    ) -> RoutedChanges<C> {
        let mut routed = RoutedChanges { by_namespace: Vec::<(Arc<Namespace>, Vec<C>)>::new(), failed: Vec::new() };
        for change in changes {
            match self.locate(own, id(&change)) {
                Ok(Some(namespace)) if !may_change(&change, &namespace) => {
                    routed.failed.push((change, ChangeError::Hidden));
                }
                Ok(Some(namespace)) => {
                    match routed.by_namespace.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &namespace)) {
                        Some((_, changes)) => changes.push(change),
                        None => routed.by_namespace.push((namespace, vec![change])),
                    }
                }
                Ok(None) => {}
                Err(error) => routed.failed.push((change, error)),
            }
        }
        routed
    }
}
