use nri_proto::{CdiDevice, Field};
use serde_json::Value;

use super::host::Host;
use super::{ApplyReport, SpecError, check};

/// Applies the edits of CDI devices through the host.
pub(super) fn adjust(
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
