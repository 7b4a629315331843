//! What a CRI server needs to let NRI plugins change its containers.
//!
//! - What it knows of its pods and containers is [`records`]; what plugins see of them are [`words`] of `nri-proto`, made by pure
//!   functions with one precedence.
//! - The [`generator`] applies the [`Adjustment`](nri_proto::Adjustment) that plugins agreed on to the OCI spec of the container
//!   being created, and new limits to that of one that exists. It is pure, too: what it must know about the machine is asked through
//!   a [`Host`](generator::Host) of functions.

#[cfg(feature = "cri")]
pub mod cri;
pub mod generator;
pub mod limits;
pub mod records;
pub mod words;
