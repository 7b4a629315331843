//! For tests of a runtime: a domain in memory, and what every [`Domain`](crate::Domain) is to do, as tests.
//!
//! ```
//! use nri_api::testing::{FakeDomain, contract};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // Your own domain in place of this one: how a pod is run and removed there is what it says of itself as a `Fixture`.
//! let breaches = contract::check(&*FakeDomain::new()).await;
//! assert!(breaches.is_empty(), "{breaches:?}");
//! # }
//! ```

pub mod contract;
mod fake_domain;

pub use fake_domain::{FakeBehavior, FakeDomain};
