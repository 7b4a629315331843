use nri_proto::SecurityProfile;

/// What the server is set to, as far as it shows in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// What a container gets that asks for no seccomp profile (containerd's `unset_seccomp_profile`); none if it gets none.
    pub unset_seccomp_profile: Option<SecurityProfile>,
    /// Whether a plugin may put a container into a cgroup that is not below its pod's. Otherwise it may not put one of a pod whose
    /// [`cgroup_parent`](super::PodConfig::cgroup_parent) is empty anywhere.
    pub any_cgroup: bool,
}
