use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nri_proto::api::ContainerAdjustment;
use nri_tests::generating::Case;
use protobuf::Message as _;
use serde_json::{Value, json};

use crate::lines::Lines;

/// Go's generator: the program `generator`.
pub(super) struct Generator(Lines);

impl Generator {
    pub(super) fn start(program: &Path) -> Self {
        Self(Lines::start(program))
    }

    /// Adjusts a spec as Go does.
    pub(super) fn adjusted(&mut self, case: &Case) -> Result<Value, String> {
        let adjustment = ContainerAdjustment::from(case.adjustment.clone()).write_to_bytes().unwrap();
        let mut answer = self.0.ask(&json!({"spec": case.spec, "adjust": STANDARD.encode(adjustment)}));
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["spec"].take()),
        }
    }

    /// Returns a spec as Go reads and writes it, without members that Go does not know.
    pub(super) fn read_and_written(&mut self, spec: &Value) -> Value {
        let mut answer = self.0.ask(&json!({"spec": spec}));
        assert!(answer["error"].is_null(), "Go cannot read what we have made: {answer}\n{spec}");
        answer["spec"].take()
    }
}
