//! Limits the number of connected peers that are not admitted as plugins yet.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The places for peers that are not admitted as plugins yet. Each user has an equal share, so that
/// silent peers of one user do not keep out the peers of others.
pub(crate) struct Strangers {
    share: usize,
    taken: Arc<Mutex<TakenPlaces>>,
}

/// The number of places that each user's peers occupy.
type TakenPlaces = HashMap<u32, usize>;

/// A place for one peer. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct StrangerPlace {
    uid: u32,
    taken: Arc<Mutex<TakenPlaces>>,
}

impl Strangers {
    /// Divides `limit` places among `users`. Each user gets at least one place.
    pub(crate) fn new(limit: usize, users: &[u32]) -> Self {
        let n_users = users.iter().collect::<BTreeSet<_>>().len();
        Self { share: (limit / n_users.max(1)).max(1), taken: Arc::default() }
    }

    /// Takes a place for a peer of this user. Returns `None` if the user's share is used up.
    pub(crate) fn try_take(&self, uid: u32) -> Option<StrangerPlace> {
        let mut taken = lock(&self.taken);
        let count = taken.get(&uid).copied().unwrap_or_default();
        if count >= self.share {
            return None;
        }
        taken.insert(uid, count + 1);
        Some(StrangerPlace { uid, taken: Arc::clone(&self.taken) })
    }
}

impl Drop for StrangerPlace {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        match taken.get_mut(&self.uid) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => _ = taken.remove(&self.uid),
        }
    }
}

fn lock(taken: &Mutex<TakenPlaces>) -> MutexGuard<'_, TakenPlaces> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_peers_of_one_user_leave_the_places_of_others_alone() {
        let strangers = Strangers::new(64, &[0, 1000, 1000]);
        let flood: Vec<_> = std::iter::from_fn(|| strangers.try_take(1000)).collect();
        assert_eq!(flood.len(), 32);
        let _root = strangers.try_take(0).expect("root has a place");
        drop(flood);
        assert!(strangers.try_take(1000).is_some(), "the places are free again");
        assert_eq!(lock(&strangers.taken).len(), 1, "nothing is kept of a user without peers");
    }

    #[test]
    fn one_user_alone_has_all_places_and_each_of_many_has_one() {
        let alone = Strangers::new(3, &[0]);
        assert_eq!(std::iter::from_fn(|| alone.try_take(0)).collect::<Vec<_>>().len(), 3);
        let many = Strangers::new(1, &[0, 1, 2]);
        let places = [0, 1, 2].map(|uid| many.try_take(uid));
        assert!(places.iter().all(Option::is_some));
        assert!(many.try_take(0).is_none());
    }
}
