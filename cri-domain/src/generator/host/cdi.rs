//! CDI devices: vendors describe in files what a container needs to use their devices.
//!
//! The CDI library has 180 dependencies, among them an HTTP client and TLS, to check the schema of
//! the files. This room only reads the files and applies their edits, most of which the generator
//! supports anyway.
//!
//! Files, lowest first:
//!
//! - `edits.rs` applies the edits of a device to a spec.
//! - `schema.rs` has the members of a CDI file.
//! - `reader.rs` reads files within limits.

mod edits;
mod reader;
mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tracing::warn;

use self::edits::ContainerEdits;
use self::reader::FileReader;
use self::schema::CdiFile;
use super::yaml::{self, YamlError};
use crate::generator::HostError;

/// The CDI devices of a machine at the time of reading. Drivers add and remove devices at any time.
/// Read them for each container, as [`inject_from`](Self::inject_from) does, or whenever the
/// directories change.
#[derive(Debug, Default)]
pub struct CdiDevices {
    /// The devices by qualified name. The value is `None` if two files of one directory define the
    /// device.
    devices: BTreeMap<String, Option<LoadedDevice>>,
}

#[derive(Debug)]
struct LoadedDevice {
    edits: ContainerEdits,
    /// The edits that the file requires for any of its devices.
    of_file: Arc<ContainerEdits>,
    directory: usize,
}

/// Error from reading a CDI file or directory.
#[derive(Debug, thiserror::Error)]
pub enum CdiError {
    /// A file or directory cannot be read.
    #[error("could not read {}", path.display())]
    Io {
        /// The path of the file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file is a pipe, a device, a socket or a directory.
    #[error("{} is not a regular file", path.display())]
    Irregular {
        /// The path of the file.
        path: PathBuf,
    },
    /// A file is too large, or all files together are.
    #[error("{} is more than {largest} bytes, or all files are more than {sum}", path.display())]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
        /// The limit for one file, in bytes.
        largest: u64,
        /// The limit for all files together, in bytes.
        sum: u64,
    },
    /// A directory has too many files. None of them is read.
    #[error("{} has more than {most} files", path.display())]
    TooMany {
        /// The path of the directory.
        path: PathBuf,
        /// The limit for the number of files.
        most: usize,
    },
    /// A file is not valid YAML or JSON, or lacks members that CDI requires.
    #[error("could not read {}", path.display())]
    Yaml {
        /// The path of the file.
        path: PathBuf,
        /// The reason why the file is invalid.
        source: YamlError,
    },
    /// Two files of one directory define the same device. The device is not available.
    #[error("device {device} in {} is also defined in another file of the directory", path.display())]
    Twice {
        /// The path of the second file.
        path: PathBuf,
        /// The qualified name of the device.
        device: String,
    },
}

impl CdiDevices {
    /// The default directories. A file in a later directory takes precedence.
    pub const DIRECTORIES: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

    /// Reads the files of some directories; a later directory takes precedence. A directory may be
    /// missing, and an error in one file does not affect others. Only regular files and links to
    /// them are read: at most 4 MiB of each file and 32 MiB of all files. A directory with more
    /// than 1024 files is skipped.
    pub fn read(directories: &[impl AsRef<Path>]) -> (Self, Vec<CdiError>) {
        let (mut devices, mut problems, mut reading) = (Self::default(), vec![], FileReader::new());
        for (directory, path) in directories.iter().map(AsRef::as_ref).enumerate() {
            let files = reader::files(path).unwrap_or_else(|error| {
                problems.push(error);
                vec![]
            });
            for path in files {
                match read(&path, &mut reading) {
                    Ok(file) => problems.extend(devices.add(file, directory, &path)),
                    Err(error) => problems.push(error),
                }
            }
        }
        (devices, problems)
    }

    /// Reads the files of some directories, and applies the edits of devices to a spec. Errors in
    /// files are logged.
    ///
    /// ```
    /// use cri_domain::generator::Host;
    /// use cri_domain::generator::host::CdiDevices;
    ///
    /// let directories = ["/usr/share/cdi"];
    /// let inject =
    ///     move |spec: &mut _, names: &[&str]| CdiDevices::inject_from(&directories, spec, names);
    /// let host = Host { cdi: Some(Box::new(inject)), ..Host::of_this_machine() };
    /// ```
    pub fn inject_from(directories: &[impl AsRef<Path>], spec: &mut Value, names: &[&str]) -> Result<(), HostError> {
        let (devices, problems) = Self::read(directories);
        for problem in problems {
            warn!(error = &problem as &dyn std::error::Error, "CDI file or directory skipped");
        }
        devices.inject(spec, names)
    }

    fn add(&mut self, file: CdiFile, directory: usize, path: &Path) -> Vec<CdiError> {
        let of_file = Arc::new(file.container_edits);
        let mut problems = vec![];
        for schema::CdiFileDevice { name, container_edits: edits } in file.devices {
            let name = format!("{}={name}", file.kind);
            let known = self.devices.get(&name);
            let is_twice = known.is_some_and(|known| known.as_ref().is_none_or(|known| known.directory == directory));
            let device = LoadedDevice { edits, of_file: Arc::clone(&of_file), directory };
            if is_twice {
                problems.push(CdiError::Twice { path: path.to_owned(), device: name.clone() });
            }
            self.devices.insert(name, (!is_twice).then_some(device));
        }
        problems
    }

    /// Applies the edits of devices to a spec. If a device is unknown, the spec is unchanged.
    pub fn inject(&self, spec: &mut Value, names: &[&str]) -> Result<(), HostError> {
        let find = |name: &&str| self.devices.get(*name).and_then(Option::as_ref);
        let unknown: Vec<&str> = names.iter().filter(|name| find(name).is_none()).copied().collect();
        if !unknown.is_empty() {
            return Err(format!("unresolvable CDI devices {}", unknown.join(", ")).into());
        }
        let mut seen = BTreeSet::new();
        for device in names.iter().filter_map(find) {
            if seen.insert(Arc::as_ptr(&device.of_file)) {
                device.of_file.make(spec)?;
            }
            device.edits.make(spec)?;
        }
        Ok(())
    }
}

fn read(path: &Path, reading: &mut FileReader) -> Result<CdiFile, CdiError> {
    let text = reading.text(path)?;
    yaml::read(&text).map_err(|source| CdiError::Yaml { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use serde_json::json;

    use super::*;

    const FILE: &str = r#"
cdiVersion: 0.8.0
kind: vendor.com/gpu
annotations: {whatever: x}
devices:
- name: "0"
  containerEdits:
    env: [GPU=0]
    deviceNodes:
    - {path: /dev/gpu0, type: c, major: 195, minor: 0, permissions: rw}
    - {path: /dev/nothing, hostPath: /dev/null}
- name: one
  containerEdits:
    env: [GPU=1]
    mounts: [{hostPath: /lib, containerPath: /vendor/lib, options: [ro, rbind]}]
    hooks: [{hookName: createContainer, path: /bin/hook, args: [hook, x], timeout: 3}]
    intelRdt: {closID: gpu, enableMBM: true}
    netDevices: [{hostInterfaceName: eth1, name: lan}]
    additionalGids: [0, 44]
containerEdits:
  env: [VENDOR=yes]
"#;

    fn devices(files: &[(&str, &str)]) -> (CdiDevices, Vec<CdiError>, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let (devices, problems) = CdiDevices::read(&[root.path().join("etc"), root.path().join("run")]);
        (devices, problems, root)
    }

    #[test]
    fn a_device_brings_what_its_file_says() {
        let (devices, problems, _) =
            devices(&[("etc/vendor.yaml", FILE), ("etc/README", "no"), ("run/empty.json", "{}")]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let mut spec = json!({"process": {"user": {"uid": 7, "gid": 0, "additionalGids": [44]}}});
        devices.inject(&mut spec, &["vendor.com/gpu=0", "vendor.com/gpu=one"]).unwrap();
        let nodes = &spec["linux"]["devices"];
        assert_eq!(nodes[0], json!({"path": "/dev/gpu0", "type": "c", "major": 195, "minor": 0, "uid": 7}));
        assert_eq!((&nodes[1]["major"], &nodes[1]["minor"], &nodes[1]["type"]), (&json!(1), &json!(3), &json!("c")));
        assert_eq!(
            spec["linux"]["resources"]["devices"],
            json!([
                {"allow": true, "type": "c", "major": 195, "minor": 0, "access": "rw"},
                {"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rwm"},
            ]),
        );
        assert_eq!(spec["process"]["env"], json!(["VENDOR=yes", "GPU=1"]));
        assert_eq!(spec["process"]["user"]["additionalGids"], json!([44]));
        let mount = json!([{"destination": "/vendor/lib", "source": "/lib", "options": ["ro", "rbind"]}]);
        assert_eq!(spec["mounts"], mount);
        let hook = json!([{"path": "/bin/hook", "args": ["hook", "x"], "timeout": 3}]);
        assert_eq!(spec["hooks"]["createContainer"], hook);
        assert_eq!(spec["linux"]["intelRdt"], json!({"closID": "gpu", "enableMBM": true}));
        assert_eq!(spec["linux"]["netDevices"], json!({"eth1": {"name": "lan"}}));
    }

    #[test]
    fn a_file_may_leave_a_section_empty_and_a_name_unquoted_and_write_a_mode_in_octal() {
        let text = "
cdiVersion: 0.5.0
kind: vendor.com/gpu
containerEdits:
devices:
- name: 0
  containerEdits:
    env:
    deviceNodes: [{path: /dev/gpu0, type: c, major: 195, minor: 0, fileMode: 0660}]
";
        let (devices, problems, _) = devices(&[("etc/vendor.yaml", text)]);
        assert!(problems.is_empty(), "{problems:?}");
        let mut spec = json!({});
        devices.inject(&mut spec, &["vendor.com/gpu=0"]).unwrap();
        assert_eq!(spec["linux"]["devices"][0]["fileMode"], json!(0o660));
    }

    #[test]
    fn a_pipe_among_the_files_holds_up_no_container_and_hides_no_device() {
        let (_, _, root) = devices(&[("etc/vendor.yaml", FILE)]);
        mknodat(CWD, root.path().join("etc/a.json"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let directories = [root.path().join("etc")];
        let (devices, problems) = CdiDevices::read(&directories);
        assert!(matches!(problems[..], [CdiError::Irregular { .. }]), "{problems:?}");
        devices.inject(&mut json!({}), &["vendor.com/gpu=0"]).unwrap();
        CdiDevices::inject_from(&directories, &mut json!({}), &["vendor.com/gpu=0"]).unwrap();
    }

    #[test]
    fn d13_an_unknown_device_is_refused_before_anything_is_made() {
        let (devices, ..) = devices(&[("etc/vendor.yaml", FILE)]);
        let mut spec = json!({});
        let error = devices.inject(&mut spec, &["vendor.com/gpu=0", "vendor.com/gpu=9", "x/y=z"]).unwrap_err();
        assert_eq!(error.to_string(), "unresolvable CDI devices vendor.com/gpu=9, x/y=z");
        assert_eq!(spec, json!({}));
    }

    #[test]
    fn a_later_directory_counts_more_and_two_files_of_one_cancel_out() {
        let file = |value: &str| {
            format!(
                "{{\"cdiVersion\": \"0.5.0\", \"kind\": \"v.com/c\", \"devices\": [{{\"name\": \"a\", \"containerEdits\": {{\"env\": [\"A={value}\"]}}}}]}}"
            )
        };
        let (etc, run) = (file("etc"), file("run"));
        let (overridden, problems, _) = devices(&[("etc/a.json", &etc), ("run/b.json", &run)]);
        assert!(problems.is_empty(), "{problems:?}");
        let mut spec = json!({});
        overridden.inject(&mut spec, &["v.com/c=a"]).unwrap();
        assert_eq!(spec, json!({"process": {"env": ["A=run"]}}));

        let (cancelled, problems, _) = devices(&[("run/a.json", &etc), ("run/b.json", &run)]);
        assert!(matches!(problems[..], [CdiError::Twice { .. }]), "{problems:?}");
        cancelled.inject(&mut spec, &["v.com/c=a"]).unwrap_err();
    }

    #[test]
    fn what_a_file_wants_is_checked_as_what_a_plugin_wants() {
        let bad = FILE.replace("GPU=0", "no variable").replace("/vendor/lib", "../lib");
        let (devices, ..) = devices(&[("etc/vendor.yaml", &bad)]);
        for name in ["vendor.com/gpu=0", "vendor.com/gpu=one"] {
            assert!(devices.inject(&mut json!({}), &[name]).is_err(), "{name}");
        }
    }
}
