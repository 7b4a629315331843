use std::path::Path;

use oci_spec::runtime::LinuxIntelRdt;

use crate::generator::HostError;

/// Returns the settings of an RDT class as containerd does: the class of service (CLOS) of the same
/// name.
pub fn clos(class: &str) -> LinuxIntelRdt {
    let mut settings = LinuxIntelRdt::default();
    settings.set_clos_id(Some(class.to_owned()));
    settings
}

/// Returns the settings of an RDT class like [`clos`], but fails if the class does not exist.
/// `resctrl` is the mount point of the kernel's interface, `/sys/fs/resctrl`.
pub fn existing_clos(resctrl: &Path, class: &str) -> Result<LinuxIntelRdt, HostError> {
    if class.contains('/') || class.starts_with('.') || !resctrl.join(class).join("schemata").exists() {
        return Err(format!("there is no class {class:?} in {}", resctrl.display()).into());
    }
    Ok(clos(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_a_directory_with_a_schemata_file() {
        let resctrl = tempfile::tempdir().unwrap();
        std::fs::create_dir(resctrl.path().join("gold")).unwrap();
        std::fs::create_dir(resctrl.path().join("info")).unwrap();
        std::fs::write(resctrl.path().join("gold/schemata"), "").unwrap();

        let gold = existing_clos(resctrl.path(), "gold").unwrap();
        assert_eq!(gold.clos_id().as_deref(), Some("gold"));
        for other in ["info", "silver", "../gold", "."] {
            assert!(existing_clos(resctrl.path(), other).is_err(), "{other}");
        }
    }
}
