//! What the generator asks the machine and the operator, and functions that are ready for a real one.
//!
//! Everything else it does is decided by the spec and the adjustment alone.

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

use nri_proto::{CdiDevice, Change, Field};
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
use super::{ApplyReport, HostError, SpecError, check};

/// A function that the generator calls.
type HostFunction<F> = Option<Box<F>>;

/// What the generator asks, as functions, and what it lets plugins change. Functions that are `None` are not asked.
///
/// Annotations that runtimes and shims take as settings, and kernel parameters of the host, are refused unless
/// [`allow`](Self::allow) names them. This holds for what plugins change: what the spec has already stays.
///
/// ```
/// use cri_domain::generator::{Host, host, host::Allowlist};
///
/// let allow = Allowlist { annotations: vec!["io.katacontainers.*".to_owned()], ..Allowlist::default() };
/// let host = Host { allow, resources: Some(Box::new(host::refuse_contradictions)), ..Host::of_this_machine() };
/// assert!(host.propagation.is_some() && host.blockio.is_none());
/// ```
#[expect(clippy::type_complexity, reason = "each is one function, and is best read as such")]
pub struct Host {
    /// What plugins may change although runtimes, shims or the host act on it.
    pub allow: Allowlist,
    /// Whether a namespace that a container joins is that of the host. Without the function every namespace that the spec
    /// names by a path counts as the host's.
    pub is_host_namespace: HostFunction<dyn Fn(NamespaceRef<'_>) -> Result<bool, HostError> + Send + Sync>,
    /// How changes propagate from the mount that a path lies on. Without it, no mount is refused for that.
    pub propagation: HostFunction<dyn Fn(&Path) -> Result<Propagation, HostError> + Send + Sync>,
    /// The settings of a class of block I/O. Without it classes are ignored.
    pub blockio: HostFunction<dyn Fn(&str) -> Result<LinuxBlockIo, HostError> + Send + Sync>,
    /// The settings of a class of caches and memory bandwidth. Without it classes are ignored.
    pub rdt: HostFunction<dyn Fn(&str) -> Result<LinuxIntelRdt, HostError> + Send + Sync>,
    /// Whether huge pages can be limited. Where they cannot, limits are taken out of a spec whose resources change.
    pub hugetlb: bool,
    /// Whether cgroups are of version 2. Some limits are lifted by another word there.
    pub cgroup_v2: bool,
    /// Looks at the resources that an adjustment leads to (`linux.resources` of the spec), and may change or refuse them.
    pub resources: HostFunction<dyn Fn(&mut Map<String, Value>) -> Result<(), HostError> + Send + Sync>,
    /// Decides whether the container may be in this cgroup.
    pub cgroup: HostFunction<dyn Fn(&str) -> Result<(), HostError> + Send + Sync>,
    /// Decides about a change of an annotation. A change that it keeps may still be refused: see [`allow`](Self::allow).
    pub annotations: HostFunction<dyn Fn(&str, Change<&str>) -> Result<FilterDecision, HostError> + Send + Sync>,
    /// Decides about a change of a kernel parameter of a container that is in these namespaces. A change that it keeps may
    /// still be refused: see [`allow`](Self::allow).
    pub sysctl: HostFunction<
        dyn Fn(&str, Change<&str>, &[NamespaceRef<'_>]) -> Result<FilterDecision, HostError> + Send + Sync,
    >,
    /// Makes the edits of CDI devices in a spec; one that fails may have made some. Without it they are ignored.
    pub cdi: HostFunction<dyn Fn(&mut Value, &[&str]) -> Result<(), HostError> + Send + Sync>,
}

/// What becomes of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterDecision {
    /// It is made.
    Kept,
    /// It is not made.
    Dropped,
}

impl Host {
    /// Asks this machine what containerd asks by default: the propagation of mounts, whether there is a controller of
    /// huge pages, classes of caches by their names, and CDI devices, whose files are read for each container that gets one.
    /// It also examines whether a container joins a namespace of the host.
    ///
    /// Classes of block I/O are in a file of the operator's: see [`with_blockio_file`](Self::with_blockio_file).
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

    /// The same, with the classes of block I/O that are in a file, the one that containerd has as `blockio_config_file`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not such a file.
    pub fn with_blockio_file(self, path: &Path) -> Result<Self, BlockIoError> {
        let classes = BlockIoClasses::of_file(path)?;
        Ok(Self { blockio: Some(Box::new(move |class| classes.class(class))), ..self })
    }
}

/// Asks nobody, and allows nothing.
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

pub(super) fn inject(
    spec: &mut Value,
    devices: &[CdiDevice],
    host: &Host,
    adjusted: &mut ApplyReport,
) -> Result<(), SpecError> {
    let names: Vec<&str> = devices.iter().map(|CdiDevice { name, unknown: _ }| name.as_str()).collect();
    for name in &names {
        let parts = name.split_once('/').and_then(|(vendor, rest)| Some((vendor, rest.split_once('=')?)));
        let is_name = parts.is_some_and(|(vendor, (class, device))| ![vendor, class, device].contains(&""));
        let checked = check::field(Field::CdiDevices, name);
        checked.require(is_name, "this is not a name such as vendor.com/class=name")?;
        checked.text(name)?;
    }
    let Some(inject) = &host.cdi else {
        adjusted.ignored.push(Field::CdiDevices);
        return Ok(());
    };
    inject(spec, &names).map_err(|source| SpecError::host(Field::CdiDevices, &names.join(","), source))
}

#[cfg(test)]
mod tests {
    use nri_proto::{Adjustment, LinuxAdjustment, Resources};
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
