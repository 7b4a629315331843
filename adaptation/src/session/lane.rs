//! The lanes of a plugin: permits to ask the plugin.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::queue::{KeyedQueue, QueueTurn};
use crate::config::policy::Concurrency;

/// The number of pods that a plugin with [`Concurrency::PerPod`] may be asked about at a time.
pub(super) const PODS_AT_A_TIME: u32 = 64;

/// All lanes of a plugin.
pub(super) struct Lanes {
    free: Arc<Semaphore>,
    /// The pods that a plugin with [`Concurrency::PerPod`] is being asked about.
    pods: KeyedQueue,
}

/// A permit to ask a plugin now. A call whose answer is late keeps the lane, so that the plugin
/// never works on two requests at a time, or on two requests about one pod if its concurrency is
/// [`Concurrency::PerPod`].
///
/// An update that the plugin starts by itself needs no lane, so a plugin may call back while it is
/// asked.
pub(crate) struct Lane {
    _permit: OwnedSemaphorePermit,
    _pod: Option<QueueTurn>,
}

impl Lanes {
    pub(super) fn new() -> Self {
        Self { free: Arc::new(Semaphore::new(PODS_AT_A_TIME as usize)), pods: KeyedQueue::default() }
    }

    /// Waits for a lane to ask about a pod. A plugin with [`Concurrency::Serial`] is asked only
    /// while no other call is in flight, so the concurrency may differ from call to call.
    pub(super) async fn one(&self, concurrency: Concurrency, pod: &str) -> Lane {
        match concurrency {
            Concurrency::Serial => self.all().await,
            Concurrency::PerPod => {
                let pod = self.pods.enqueue(pod).turn().await;
                let permit = Arc::clone(&self.free).acquire_owned().await.expect(NEVER_CLOSED);
                Lane { _permit: permit, _pod: Some(pod) }
            }
        }
    }

    /// Waits for all lanes: no other call is in flight while they are held.
    pub(super) async fn all(&self) -> Lane {
        let permit = Arc::clone(&self.free).acquire_many_owned(PODS_AT_A_TIME).await.expect(NEVER_CLOSED);
        Lane { _permit: permit, _pod: None }
    }
}

const NEVER_CLOSED: &str = "the lanes of a plugin are never closed";
