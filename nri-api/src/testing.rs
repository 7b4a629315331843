//! For tests of a runtime: a domain in memory, and the contract of [`Domain`](crate::Domain) as
//! checks.
//!
//! ```
//! use nri_api::testing::{FakeDomain, contract};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // Check your own domain instead: its `Fixture` says how the runtime runs and removes a pod.
//! let breaches = contract::check(&*FakeDomain::new()).await;
//! assert!(breaches.is_empty(), "{breaches:?}");
//! # }
//! ```

pub mod contract;
mod fake_domain;

pub use fake_domain::{FakeBehavior, FakeDomain};
