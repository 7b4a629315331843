//! The lanes of a plugin: who asks it now.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::queue::{KeyedQueue, Turn};
use crate::config::policy::Concurrency;

/// How many pods a plugin is asked about at a time, if it may be asked about several.
pub(super) const PODS_AT_A_TIME: u32 = 64;

/// All lanes of a plugin.
pub(super) struct Lanes {
    free: Arc<Semaphore>,
    /// The pods that it is being asked about, if it may be asked about several at a time.
    pods: KeyedQueue,
}

/// The right to ask a plugin now. A late answer keeps it, so that the plugin never has two
/// requests at a time (about a pod, if it allows several pods). An update that the plugin starts
/// takes none, so it may call back while it is asked.
pub(crate) struct Lane {
    _permit: OwnedSemaphorePermit,
    _pod: Option<Turn>,
}

impl Lanes {
    pub(super) fn new() -> Self {
        Self { free: Arc::new(Semaphore::new(PODS_AT_A_TIME as usize)), pods: KeyedQueue::default() }
    }

    /// What it takes to ask about a pod. It may change how many pods it is asked about at a time:
    /// who asks it alone, asks it when nobody else does.
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

    /// All of them: nobody else asks it meanwhile.
    pub(super) async fn all(&self) -> Lane {
        let permit = Arc::clone(&self.free).acquire_many_owned(PODS_AT_A_TIME).await.expect(NEVER_CLOSED);
        Lane { _permit: permit, _pod: None }
    }
}

const NEVER_CLOSED: &str = "the lanes of a plugin are never closed";
