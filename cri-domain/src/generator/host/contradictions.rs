use oci_spec::runtime::LinuxResources;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::generator::HostError;

/// Refuses limits of memory and swap that contradict each other, because no runtime can set them.
pub fn refuse_contradictions(resources: &mut Map<String, Value>) -> Result<(), HostError> {
    let resources = LinuxResources::deserialize(&*resources)?;
    let Some(memory) = resources.memory() else { return Ok(()) };
    let limit = memory.limit().filter(|limit| *limit > 0);
    let is_below = |amount: Option<i64>| amount.zip(limit).is_some_and(|(amount, limit)| 0 < amount && amount < limit);
    if is_below(memory.swap()) {
        return Err("memory and swap together are limited to less than memory alone".into());
    }
    if memory.swap().is_some_and(|swap| swap > 0) && limit.is_none() {
        return Err("memory and swap together are limited, but memory is not".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(memory: Value) -> bool {
        refuse_contradictions(json!({ "memory": memory }).as_object_mut().unwrap()).is_ok()
    }

    #[test]
    fn swap_is_limited_to_no_less_than_memory() {
        assert!(check(json!({"limit": 100, "swap": 100})));
        assert!(check(json!({"limit": 100, "swap": -1})));
        assert!(check(json!({"limit": 100, "swap": 0})));
        assert!(!check(json!({"limit": 100, "swap": 99})));
        assert!(!check(json!({"swap": 99})));
        assert!(check(json!({})));
    }
}
