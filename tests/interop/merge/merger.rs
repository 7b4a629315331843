use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nri_proto::api::{
    CreateContainerRequest, CreateContainerResponse, StopContainerResponse, UpdateContainerRequest,
    UpdateContainerResponse,
};
use nri_tests::merging::{Case, PLUGINS};
use protobuf::Message;
use serde_json::{Value, json};

use super::merged::{Done, Merged, Seen};
use crate::lines::Lines;

/// Go's merge: the program `merger`.
pub(super) struct Merger(Lines);

impl Merger {
    pub(super) fn start(program: &Path) -> Self {
        Self(Lines::start(program))
    }

    /// Merges a case with Go's merge.
    pub(super) fn merge(&mut self, case: &Case) -> Merged {
        let (request, replies) = case.encoded();
        let replies = PLUGINS
            .iter()
            .zip(replies)
            .map(|(plugin, reply)| json!({"plugin": plugin, "reply": STANDARD.encode(reply)}));
        let replies: Vec<_> = replies.collect();
        let answer = self.0.ask(&json!({"op": case.op(), "request": STANDARD.encode(request), "replies": replies}));

        let seen = answer["seen"].as_array().into_iter().flatten().map(|seen| shown(case, seen)).collect();
        let result = match answer["error"].as_str() {
            Some("") => Ok(done(case, &answer)),
            error => Err(error.unwrap().to_owned()),
        };
        Merged { result, seen, dropped: 0 }
    }
}

fn shown(case: &Case, request: &Value) -> Seen {
    match case {
        Case::Create(..) => Seen::Container(Box::new(decode::<CreateContainerRequest>(request).container.unwrap())),
        Case::Update(..) => {
            Seen::Resources(Box::new(decode::<UpdateContainerRequest>(request).linux_resources.unwrap()))
        }
        Case::Stop(..) => Seen::Nothing,
    }
}

/// Returns Go's result. It has no evictions, because Go drops those of the replies.
fn done(case: &Case, answer: &Value) -> Done {
    let response = &answer["response"];
    match case {
        Case::Create(..) => {
            let response: CreateContainerResponse = decode(response);
            let owners = Some(decode(&answer["owners"]));
            Done { adjustment: response.adjust.into_option(), updates: response.update, owners }
        }
        Case::Update(..) => Done { updates: decode::<UpdateContainerResponse>(response).update, ..Done::default() },
        Case::Stop(..) => Done { updates: decode::<StopContainerResponse>(response).update, ..Done::default() },
    }
}

fn decode<M: Message>(encoded: &Value) -> M {
    M::parse_from_bytes(&STANDARD.decode(encoded.as_str().unwrap_or_default()).unwrap()).unwrap()
}
