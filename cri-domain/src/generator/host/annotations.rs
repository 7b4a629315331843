use nri_proto::Change;

use super::Filtered;
use crate::generator::HostError;

/// What runtimes take as settings: a plugin that may annotate a container could otherwise lift its limits, or have the
/// host's systemd do something.
const SETTINGS: [&str; 5] = ["bundle", "org.criu.config", "org.systemd.property.", "run.oci.", "io.kubernetes.cri-o."];

/// Refuses annotations that runtimes take as settings, those of runc, crun and CRI-O; keeps all others.
pub fn refuse_settings_of_runtimes(key: &str, _: Change<&str>) -> Result<Filtered, HostError> {
    let is_setting = |setting: &&&str| key == **setting || setting.ends_with('.') && key.starts_with(**setting);
    match SETTINGS.iter().find(is_setting) {
        Some(setting) => Err(format!("{setting} is for runtimes, and not a plugin's to set").into()),
        None => Ok(Filtered::Kept),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d08_what_runtimes_take_as_settings_is_refused() {
        for key in ["org.systemd.property.ExecStart", "run.oci.hooks.stdout", "io.kubernetes.cri-o.Devices", "bundle"] {
            assert!(refuse_settings_of_runtimes(key, Change::Set("")).is_err(), "{key}");
            assert!(refuse_settings_of_runtimes(key, Change::Remove).is_err(), "{key}");
        }
        for key in ["bundled", "io.kubernetes.cri.container-name", "org.systemd"] {
            assert_eq!(refuse_settings_of_runtimes(key, Change::Set("")).unwrap(), Filtered::Kept, "{key}");
        }
    }
}
