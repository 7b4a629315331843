//! Classes of block I/O, from the file that containerd and CRI-O name in `blockio_config_file`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use oci_spec::runtime::{
    LinuxBlockIo, LinuxThrottleDevice, LinuxThrottleDeviceBuilder, LinuxWeightDevice, LinuxWeightDeviceBuilder,
};
use rustix::fs::{FileType, major, minor, stat};
use serde::{Deserialize, Deserializer};

use super::yaml::{self, YamlError};
use crate::generator::HostError;

/// The settings of each class of block I/O.
///
/// ```
/// use cri_domain::generator::Host;
/// use cri_domain::generator::host::BlockIoClasses;
///
/// let classes = BlockIoClasses::read("
/// Classes:
///   slow:
///   - Weight: 20
///   - Devices: [/dev/nothing-like-it*]
///     ThrottleReadBps: 50M
/// ")?;
/// assert_eq!(classes.class("slow")?.weight(), Some(20));
/// let resolve = move |class: &str| classes.class(class);
/// let host = Host { blockio: Some(Box::new(resolve)), ..Host::default() };
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BlockIoClasses(BTreeMap<String, LinuxBlockIo>);

/// Error from reading a file of block I/O classes.
#[derive(Debug, thiserror::Error)]
pub enum BlockIoError {
    /// The file cannot be read.
    #[error("could not read {}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not valid YAML, or its members are not those of a file of classes.
    #[error("could not read the classes of block I/O")]
    Yaml(#[source] YamlError),
    /// A class sets a throttle without naming devices.
    #[error("class {class}: throttling needs devices")]
    NoDevices {
        /// The name of the class.
        class: String,
    },
    /// A weight is out of range.
    #[error("class {class}: a weight is not between 10 and 1000")]
    Weight {
        /// The name of the class.
        class: String,
    },
    /// A pattern for device paths is invalid.
    #[error("class {class}: {pattern} is not a pattern for device paths")]
    Pattern {
        /// The name of the class.
        class: String,
        /// The invalid pattern.
        pattern: String,
        /// The reason why the pattern is invalid.
        source: glob::PatternError,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassesFile {
    #[serde(rename = "Classes", default)]
    classes: BTreeMap<String, Vec<ClassParameters>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct ClassParameters {
    devices: Option<Vec<String>>,
    #[serde(default, deserialize_with = "quantity")]
    throttle_read_bps: Option<u64>,
    #[serde(default, deserialize_with = "quantity")]
    throttle_write_bps: Option<u64>,
    #[serde(rename = "ThrottleReadIOPS", default, deserialize_with = "quantity")]
    throttle_read_iops: Option<u64>,
    #[serde(rename = "ThrottleWriteIOPS", default, deserialize_with = "quantity")]
    throttle_write_iops: Option<u64>,
    #[serde(default, deserialize_with = "quantity")]
    weight: Option<u64>,
}

impl BlockIoClasses {
    /// Reads the classes from a file. See [`read`](Self::read).
    pub fn of_file(path: &Path) -> Result<Self, BlockIoError> {
        let text = fs::read_to_string(path).map_err(|source| BlockIoError::Io { path: path.to_owned(), source })?;
        Self::read(&text)
    }

    /// Reads the classes from text, and resolves the devices that the text names. A pattern that
    /// matches no device is ignored, as in Go.
    pub fn read(text: &str) -> Result<Self, BlockIoError> {
        let file: Option<ClassesFile> = yaml::read(text).map_err(BlockIoError::Yaml)?;
        let classes = file.map(|ClassesFile { classes }| classes).unwrap_or_default();
        let settings = |(class, parameters): (String, Vec<_>)| Ok((class.clone(), settings(&class, parameters)?));
        Ok(Self(classes.into_iter().map(settings).collect::<Result<_, _>>()?))
    }

    /// Returns the settings of a class. Fails if the class does not exist.
    pub fn class(&self, class: &str) -> Result<LinuxBlockIo, HostError> {
        self.0.get(class).cloned().ok_or_else(|| format!("there is no class of block I/O {class:?}").into())
    }
}

/// A setting for each device number. A later setting replaces an earlier one.
type PerDevice<T> = BTreeMap<(i64, i64), T>;

fn settings(class: &str, all: Vec<ClassParameters>) -> Result<LinuxBlockIo, BlockIoError> {
    let mut settings = LinuxBlockIo::default();
    let mut weights = PerDevice::new();
    let mut rates: [PerDevice<u64>; 4] = Default::default();
    for parameters in all {
        let ClassParameters {
            devices,
            throttle_read_bps,
            throttle_write_bps,
            throttle_read_iops,
            throttle_write_iops,
            weight,
        } = parameters;
        let limits = [throttle_read_bps, throttle_write_bps, throttle_read_iops, throttle_write_iops];
        let weight = match weight.map(u16::try_from) {
            None => None,
            Some(Ok(weight)) if (10..=1000).contains(&weight) => Some(weight),
            Some(_) => return Err(BlockIoError::Weight { class: class.to_owned() }),
        };
        match devices {
            None if limits.iter().any(Option::is_some) => {
                return Err(BlockIoError::NoDevices { class: class.to_owned() });
            }
            None => _ = weight.map(|weight| settings.set_weight(Some(weight))),
            Some(patterns) => {
                for number in numbers(class, &patterns)? {
                    weight.map(|weight| weights.insert(number, weight));
                    for (rates, limit) in rates.iter_mut().zip(limits) {
                        limit.map(|limit| rates.insert(number, limit));
                    }
                }
            }
        }
    }
    let weights: Vec<_> = weights.into_iter().map(weighted).collect();
    let [read_bps, write_bps, read_iops, write_iops] = rates.map(throttled);
    settings.set_weight_device((!weights.is_empty()).then_some(weights));
    settings.set_throttle_read_bps_device(read_bps).set_throttle_write_bps_device(write_bps);
    settings.set_throttle_read_iops_device(read_iops).set_throttle_write_iops_device(write_iops);
    Ok(settings)
}

fn weighted(((major, minor), weight): ((i64, i64), u16)) -> LinuxWeightDevice {
    let device = LinuxWeightDeviceBuilder::default().major(major).minor(minor).weight(weight).build();
    device.expect("all other members have defaults")
}

fn throttled(rates: PerDevice<u64>) -> Option<Vec<LinuxThrottleDevice>> {
    let device = |((major, minor), rate)| {
        let device = LinuxThrottleDeviceBuilder::default().major(major).minor(minor).rate(rate).build();
        device.expect("all other members have defaults")
    };
    (!rates.is_empty()).then(|| rates.into_iter().map(device).collect())
}

/// Returns the numbers of block devices that match the patterns. Links are followed, and partitions
/// are left out.
fn numbers(class: &str, patterns: &[String]) -> Result<Vec<(i64, i64)>, BlockIoError> {
    let mut numbers = vec![];
    for pattern in patterns {
        let paths = glob::glob(pattern).map_err(|source| BlockIoError::Pattern {
            class: class.to_owned(),
            pattern: pattern.clone(),
            source,
        })?;
        numbers.extend(paths.filter_map(Result::ok).filter_map(number));
    }
    Ok(numbers)
}

fn number(path: PathBuf) -> Option<(i64, i64)> {
    let found = stat(&path).ok().filter(|found| FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice)?;
    let (major, minor) = (major(found.st_rdev), minor(found.st_rdev));
    let is_partition = Path::new(&format!("/sys/dev/block/{major}:{minor}/partition")).exists();
    (!is_partition).then_some((major.into(), minor.into()))
}

/// Reads an amount in the format of Kubernetes: `50M`, `1Gi`, `100`.
fn quantity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty());
    let Some(text) = text else { return Ok(None) };
    amount(&text).map(Some).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not an amount such as 50M")))
}

fn amount(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 12] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("Ei", 1 << 60),
        ("", 1),
    ];
    let (number, unit) = UNITS.into_iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)))?;
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_those_of_kubernetes() {
        for (text, expected) in
            [("0", Some(0)), ("50M", Some(50_000_000)), ("10k", Some(10_000)), ("1Gi", Some(1 << 30))]
        {
            assert_eq!(amount(text), expected, "{text}");
        }
        for text in ["", "x", "-1", "1.5M", "99999999999Ei", "1 M"] {
            assert_eq!(amount(text), None, "{text}");
        }
    }

    #[test]
    fn a_class_without_devices_is_a_weight() {
        let classes = BlockIoClasses::read("Classes: {a: [{Weight: 80}, {Weight: '90'}], b: []}").unwrap();
        assert_eq!(classes.class("a").unwrap().weight(), Some(90));
        assert_eq!(classes.class("b").unwrap().weight(), None);
        assert!(classes.class("c").is_err());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in [
            "Classes: {a: [{Weight: 9}]}",
            "Classes: {a: [{ThrottleReadBps: 1M}]}",
            "Classes: {a: [{Devices: ['/dev/a**b'], Weight: 10}]}",
            "Classes: {a: [{Speed: 9}]}",
            "Classes: {a: [{Weight: [1]}]}",
            "classes: {}",
            "- 1",
        ] {
            assert!(BlockIoClasses::read(text).is_err(), "{text}");
        }
        assert!(BlockIoClasses::read("").unwrap().class("a").is_err());
    }

    #[test]
    fn only_whole_block_devices_are_limited() {
        let text = "Classes: {a: [{Devices: [/dev/null, /dev/nothing, /proc], ThrottleReadIOPS: 10k, Weight: 10}]}";
        let class = BlockIoClasses::read(text).unwrap().class("a").unwrap();
        assert_eq!(class, LinuxBlockIo::default());
    }
}
