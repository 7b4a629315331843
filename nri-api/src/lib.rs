//! What a container runtime calls to have NRI plugins.

mod begun;
mod bounded;
mod domain;
mod domains;
mod ending;
mod error;
mod handle;
mod life;
mod node;
mod nri;
mod podless;
mod space;
mod stage;
mod table;
#[cfg(feature = "testing")]
pub mod testing;
mod way;

pub use begun::{ContainerUpdate, Creation, PodRun, PodUpdate, Start};
pub use domain::{Domain, DomainError, Inventory, KnownPod, PodState};
pub use error::{Error, Kind, RegisterError, StartError};
pub use handle::Handle;
pub use life::State;
pub use nri::Nri;
pub use podless::PodlessHandle;
pub use stage::LostExits;

pub use nri_adaptation::config;
pub use nri_adaptation::ledger;
pub use nri_adaptation::plugin;
pub use nri_adaptation::policy;
pub use nri_adaptation::request;
pub use nri_adaptation::snapshot;
pub use nri_adaptation::{
    AdmitError, Cause, Config, Failure, Happening, Metrics, NoMetrics, Plugin, PluginStatus, RelayError,
};
pub use nri_proto as proto;
pub use nri_proto::{
    Adjustment, Container, ContainerState, Event, Eviction, Field, LinuxContainer, LinuxPod, Owner, Owners, PluginId,
    Pod, Resources, Update,
};
