//! Tests of a plugin against a fake runtime, over an in-memory pipe.

#[cfg(feature = "testing")]
mod adjusting;
mod callbacks;
mod events;
mod fake;
mod faults;
mod reconnecting;
mod registering;
mod stopping;
mod synchronizing;
