//! CDI devices: files in which vendors say what a container needs to use their devices.
//!
//! The library for it brings a hundred and eighty crates along, an HTTP client and TLS among them, for a check of the
//! files' schema. What is needed is to read them, and to make edits that the generator can make anyway.

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

/// The CDI devices of a machine, as they were when they were read. Drivers add and remove them at any time, so read them for each
/// container, as [`inject_from`](Self::inject_from) does, or whenever the directories change.
#[derive(Debug, Default)]
pub struct CdiDevices {
    /// By their qualified names. Two files of one directory that have the same one leave nothing.
    devices: BTreeMap<String, Option<LoadedDevice>>,
}

#[derive(Debug)]
struct LoadedDevice {
    edits: ContainerEdits,
    /// What the file wants for any of its devices.
    of_file: Arc<ContainerEdits>,
    directory: usize,
}

/// Why a file has no devices for us.
#[derive(Debug, thiserror::Error)]
pub enum CdiError {
    /// A file or directory cannot be read.
    #[error("could not read {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A file is a pipe, a device, a socket or a directory.
    #[error("{} is not a regular file", path.display())]
    Irregular {
        /// The file.
        path: PathBuf,
    },
    /// A file is too large, or those before it have left nothing of what is read of all.
    #[error("{} is more than {largest} bytes, or all files are more than {sum}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What is read of one file.
        largest: u64,
        /// What is read of all files.
        sum: u64,
    },
    /// A directory has so many files that none of them is read.
    #[error("{} has more than {most} files", path.display())]
    TooMany {
        /// The directory.
        path: PathBuf,
        /// How many it may have.
        most: usize,
    },
    /// A file is neither YAML nor JSON, or not what CDI wants it to be.
    #[error("could not read {}", path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: YamlError,
    },
    /// Two files of one directory have the same device, so nobody has it.
    #[error("{device} is also in another file than {}", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// The device.
        device: String,
    },
}

impl CdiDevices {
    /// Where the files are, the later ones before the earlier ones.
    pub const DIRECTORIES: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

    /// Reads the files of some directories; what is in a later one counts more. A directory need not be there, and a file
    /// that cannot be read keeps no other from being read. Only regular files are read, or links to them: of each at most 4
    /// MiB, of all 32 MiB, and of a directory with more than 1024 files none.
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

    /// Reads the files of some directories, and makes what devices need in a spec. Files that cannot be used are logged.
    ///
    /// ```
    /// use cri_domain::generator::Host;
    /// use cri_domain::generator::host::CdiDevices;
    ///
    /// let inject = |spec: &mut _, names: &[&str]| CdiDevices::inject_from(&["/usr/share/cdi"], spec, names);
    /// let host = Host { cdi: Some(Box::new(inject)), ..Host::of_this_machine() };
    /// ```
    pub fn inject_from(directories: &[impl AsRef<Path>], spec: &mut Value, names: &[&str]) -> Result<(), HostError> {
        let (devices, problems) = Self::read(directories);
        for problem in problems {
            warn!(error = &problem as &dyn std::error::Error, "a file has no CDI devices for us");
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

    /// Makes what devices need in a spec. If one of them is not known, nothing is made.
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
