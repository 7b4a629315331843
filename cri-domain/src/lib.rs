//! What a CRI server needs to let NRI plugins change its containers.
//!
//! For now that is the [`generator`]: it applies the [`Adjustment`](nri_proto::Adjustment) that plugins agreed on to the
//! OCI spec of the container being created. Start reading there. It is pure: what it must know about the machine is asked
//! through a [`Host`](generator::Host) of functions.
//!
//! Planned: pods and containers as a domain of `nri-api`.

pub mod generator;
