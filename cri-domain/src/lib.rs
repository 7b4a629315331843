//! Connects a CRI server to NRI plugins.
//!
//! - The [`model`] has the server's records of pods and containers. The functions of [`to_nri`]
//!   convert them to what plugins see.
//! - [`CriDomain`] implements the [`Domain`](nri_api::Domain) of `nri-api` over two interfaces: a
//!   [`Store`] remembers pods and containers, and a [`Runtime`] runs containers. Implementations of
//!   both know nothing of NRI.
//! - [`CriHandle`] is what the server calls: one method for each of its own calls. Start reading
//!   there.
//! - The [`generator`] applies an [`Adjustment`](nri_proto::Adjustment) to the OCI spec of a
//!   container that is being created, and new limits to the spec of one that exists. It queries the
//!   machine only through the functions of a [`Host`](generator::Host).
//! - With the feature `cri`, the module `cri` converts the messages of the CRI from and to the
//!   model.
//!
//! # Rooms
//!
//! A module uses only modules above it:
//!
//! | module | purpose |
//! |---|---|
//! | [`model`] | records of pods and containers, settings of the server |
//! | [`limits`] | limits, field by field |
//! | [`generator`] | applies adjustments and limits to OCI specs |
//! | [`to_nri`] | converts records to what plugins see |
//! | `cri` | converts messages of the CRI |
//! | [`runtime`], [`store`] | the two interfaces that a server implements |
//! | [`domain`] | the server's pods and containers as a domain of NRI |
//! | [`handle`] | the calls of the server to NRI |
//!
//! The crate spawns no tasks. `examples/mini-runtime` is a complete runtime on top of it, with
//! runc.

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
