use nri_proto::SecurityProfile;

/// Settings of the CRI server that affect what plugins see and may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// The seccomp profile of containers that request none (containerd's `unset_seccomp_profile`).
    /// If this is `None`, such a container runs without a profile.
    pub unset_seccomp_profile: Option<SecurityProfile>,
    /// Whether plugins may place a container into any cgroup. By default, the cgroup must be below
    /// that of the pod, and plugins cannot place containers of a pod whose
    /// [`cgroup_parent`](super::PodConfig::cgroup_parent) is empty.
    pub any_cgroup: bool,
}
