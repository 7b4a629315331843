//! What a CRI server needs to let NRI plugins change its containers.
//!
//! - What it knows of its pods and containers is [`model`]; what plugins see of them are [`to_nri`] of `nri-proto`, made by pure
//!   functions with one precedence.
//! - [`CriDomain`] is its pods and containers as a [`Domain`](nri_api::Domain) of `nri-api`, over two seams: a [`Store`] remembers them,
//!   a [`Runtime`] runs them. Neither refers back to NRI.
//! - [`CriHandle`] is where the server calls NRI, one call in each of its own. Start reading there.
//! - The [`generator`] applies the [`Adjustment`](nri_proto::Adjustment) that plugins agreed on to the OCI spec of the container
//!   being created, and new limits to that of one that exists. It is pure, too: what it must know about the machine is asked through
//!   a [`Host`](generator::Host) of functions.
//! - With the feature `cri`, conversions from and to the messages of the CRI.
//!
//! It runs no tasks. `examples/mini-runtime` is a whole runtime on it, with runc.

#[cfg(feature = "cri")]
pub mod cri;
pub mod domain;
pub mod generator;
pub mod handle;
pub mod limits;
pub mod model;
pub mod runtime;
pub mod store;
pub mod to_nri;

pub use domain::CriDomain;
pub use handle::CriHandle;
pub use runtime::Runtime;
pub use store::Store;
