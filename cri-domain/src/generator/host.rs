//! The functions through which the generator queries the machine and the operator.
//!
//! The result of the generator depends only on the spec, the adjustment and these functions. This
//! room also has implementations for a real machine.
//!
//! Files:
//!
//! - `allowlist.rs` has the changes that plugins may make.
//! - `contradictions.rs` refuses limits that contradict each other.
//! - `cgroup.rs` checks where a cgroup lies.
//! - `hugetlb.rs` looks for the cgroup controller of huge pages.
//! - `namespaces.rs` compares namespaces with those of the host.
//! - `propagation.rs` finds the propagation of a mount.
//! - `rdt.rs` resolves RDT classes.
//! - `yaml.rs` reads YAML files.
//! - `blockio.rs` resolves classes of block I/O.
//! - `cdi.rs` reads CDI devices, and applies their edits.

mod allowlist;
mod blockio;
mod cdi;
mod cgroup;
mod contradictions;
mod hugetlb;
mod namespaces;
mod propagation;
mod rdt;
mod yaml;

use std::fmt;
use std::path::Path;

use nri_proto::Change;
use oci_spec::runtime::{LinuxBlockIo, LinuxIntelRdt};
use serde_json::{Map, Value};

pub use self::allowlist::{Allowlist, AllowlistError};
pub(super) use self::allowlist::{check_annotation, check_sysctl, namespace_of};
pub use self::blockio::{BlockIoClasses, BlockIoError};
pub use self::cdi::{CdiDevices, CdiError};
pub use self::cgroup::{CgroupOutsideParent, check_cgroup_parent, is_cgroup_v2};
pub use self::contradictions::refuse_contradictions;
pub use self::hugetlb::has_hugetlb;
pub use self::namespaces::{NamespaceRef, is_host_namespace};
pub use self::propagation::{Propagation, mount_propagation};
pub use self::rdt::{clos, existing_clos};
pub use self::yaml::YamlError;
use super::HostError;

/// A function that the generator calls, if it is set.
type HostFunction<F> = Option<Box<F>>;

/// The functions through which the generator queries the machine and the operator, and the changes
/// that plugins may make.
///
/// A change of an annotation that a runtime or shim uses as a setting, or of a kernel parameter of
/// the host, is refused unless [`allow`](Self::allow) names it. Values that the spec already has
/// are not checked.
///
/// ```
/// use cri_domain::generator::{Host, host, host::Allowlist};
///
/// let annotations = vec!["io.katacontainers.*".to_owned()];
/// let host = Host {
///     allow: Allowlist { annotations, ..Allowlist::default() },
///     resources: Some(Box::new(host::refuse_contradictions)),
///     ..Host::of_this_machine()
/// };
/// assert!(host.propagation.is_some() && host.blockio.is_none());
/// ```
#[expect(clippy::type_complexity, reason = "each is one function, and is best read as such")]
pub struct Host {
    /// Annotations and kernel parameters that plugins may change although runtimes, shims or the
    /// host act on them.
    pub allow: Allowlist,
    /// Returns whether a namespace that a container joins is a namespace of the host. If this is
    /// `None`, every namespace that the spec names by a path counts as one of the host.
    pub is_host_namespace: HostFunction<dyn Fn(NamespaceRef<'_>) -> Result<bool, HostError> + Send + Sync>,
    /// Returns the propagation of the mount that has this path. If this is `None`, mounts are not
    /// checked.
    pub propagation: HostFunction<dyn Fn(&Path) -> Result<Propagation, HostError> + Send + Sync>,
    /// Returns the settings of a class of block I/O. If this is `None`, classes are ignored.
    pub blockio: HostFunction<dyn Fn(&str) -> Result<LinuxBlockIo, HostError> + Send + Sync>,
    /// Returns the settings of an RDT class (caches and memory bandwidth). If this is `None`,
    /// classes are ignored.
    pub rdt: HostFunction<dyn Fn(&str) -> Result<LinuxIntelRdt, HostError> + Send + Sync>,
    /// Whether the machine can limit huge pages. If not, such limits are removed from a spec whose
    /// resources change.
    pub hugetlb: bool,
    /// Whether cgroups are of version 2. Some limits are reset with another value there.
    pub cgroup_v2: bool,
    /// Checks the resources that result from an adjustment (`linux.resources` of the spec). The
    /// function may change or refuse them.
    pub resources: HostFunction<dyn Fn(&mut Map<String, Value>) -> Result<(), HostError> + Send + Sync>,
    /// Checks whether the container may be in this cgroup.
    pub cgroup: HostFunction<dyn Fn(&str) -> Result<(), HostError> + Send + Sync>,
    /// Filters changes of annotations. A change that the filter keeps must also be allowed: see
    /// [`allow`](Self::allow).
    pub annotations: HostFunction<dyn Fn(&str, Change<&str>) -> Result<FilterDecision, HostError> + Send + Sync>,
    /// Filters changes of kernel parameters, given the namespaces of the container. A change that
    /// the filter keeps must also be allowed: see [`allow`](Self::allow).
    pub sysctl: HostFunction<
        dyn Fn(&str, Change<&str>, &[NamespaceRef<'_>]) -> Result<FilterDecision, HostError> + Send + Sync,
    >,
    /// Adds the edits of CDI devices to a spec. On an error the spec may be partly edited. If this
    /// is `None`, CDI devices are ignored.
    pub cdi: HostFunction<dyn Fn(&mut Value, &[&str]) -> Result<(), HostError> + Send + Sync>,
}

/// The decision of a filter about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterDecision {
    /// The change is applied.
    Kept,
    /// The change is left out without an error.
    Dropped,
}

impl Host {
    /// Returns functions that query this machine as containerd does by default: the propagation of
    /// mounts, the cgroup controller of huge pages, RDT classes by name, and CDI devices, whose
    /// files are read for each container that requests one. The namespaces that a container joins
    /// are compared with those of the host.
    ///
    /// Classes of block I/O need a file of the operator: see
    /// [`with_blockio_file`](Self::with_blockio_file).
    pub fn of_this_machine() -> Self {
        Self {
            is_host_namespace: Some(Box::new(|namespace| Ok(is_host_namespace(namespace)?))),
            propagation: Some(Box::new(|path| Ok(mount_propagation(path)?))),
            cdi: Some(Box::new(|spec, names| CdiDevices::inject_from(&CdiDevices::DIRECTORIES, spec, names))),
            rdt: Some(Box::new(|class| Ok(clos(class)))),
            hugetlb: has_hugetlb(),
            cgroup_v2: is_cgroup_v2(),
            ..Self::default()
        }
    }

    /// Adds the classes of block I/O from a file. In containerd, `blockio_config_file` names this
    /// file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or is invalid.
    pub fn with_blockio_file(self, path: &Path) -> Result<Self, BlockIoError> {
        let classes = BlockIoClasses::of_file(path)?;
        Ok(Self { blockio: Some(Box::new(move |class| classes.class(class))), ..self })
    }
}

/// Returns a host without functions that allows no exceptions.
impl Default for Host {
    fn default() -> Self {
        Self {
            allow: Allowlist::default(),
            is_host_namespace: None,
            propagation: None,
            blockio: None,
            rdt: None,
            hugetlb: true,
            cgroup_v2: false,
            resources: None,
            cgroup: None,
            annotations: None,
            sysctl: None,
            cdi: None,
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            allow,
            is_host_namespace,
            propagation,
            blockio,
            rdt,
            hugetlb,
            cgroup_v2,
            resources,
            cgroup,
            annotations,
            sysctl,
            cdi,
        } = self;
        f.debug_struct("Host")
            .field("allow", allow)
            .field("is_host_namespace", &is_host_namespace.is_some())
            .field("propagation", &propagation.is_some())
            .field("blockio", &blockio.is_some())
            .field("rdt", &rdt.is_some())
            .field("hugetlb", hugetlb)
            .field("cgroup_v2", cgroup_v2)
            .field("resources", &resources.is_some())
            .field("cgroup", &cgroup.is_some())
            .field("annotations", &annotations.is_some())
            .field("sysctl", &sysctl.is_some())
            .field("cdi", &cdi.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use nri_proto::{Adjustment, CdiDevice, Field, LinuxAdjustment, Resources};
    use serde_json::json;

    use super::*;
    use crate::generator::adjust;

    fn with_class(class: &str) -> Adjustment {
        let resources = Resources { blockio_class: Some(class.to_owned()), ..Resources::default() };
        let linux = LinuxAdjustment { resources: Some(resources), ..LinuxAdjustment::default() };
        Adjustment { linux: Some(linux), ..Adjustment::default() }
    }

    #[test]
    fn this_machine_knows_devices_that_are_there_and_refuses_others_by_name() {
        let device = CdiDevice::new("vendor.com/nothing=like-it");
        let adjustment = Adjustment { cdi_devices: vec![device], ..Adjustment::default() };
        let error = adjust(&mut json!({}), &adjustment, &Host::of_this_machine()).unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, "unresolvable CDI devices vendor.com/nothing=like-it");
    }

    #[test]
    fn classes_of_block_io_are_those_of_the_operators_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "Classes: {slow: [{Weight: 20}]}").unwrap();
        let host = Host::of_this_machine().with_blockio_file(file.path()).unwrap();
        let mut spec = json!({});
        assert!(adjust(&mut spec, &with_class("slow"), &host).unwrap().ignored.is_empty());
        assert_eq!(spec["linux"]["resources"]["blockIO"], json!({"weight": 20}));
        assert!(adjust(&mut spec, &with_class("fast"), &host).is_err());
        let ignored = adjust(&mut spec, &with_class("slow"), &Host::of_this_machine()).unwrap().ignored;
        assert_eq!(ignored, [Field::BlockioClass]);

        let error = Host::default().with_blockio_file(Path::new("/nothing/like/it")).unwrap_err();
        assert_eq!(error.to_string(), "could not read /nothing/like/it");
    }
}
