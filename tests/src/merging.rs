//! Questions that several plugins answer with changes, made at random: few names and few keys, so that the answers meet.

pub(crate) mod fold;
mod sieve;
mod strategies;

use std::fmt;

use nri_proto::api::{
    CreateContainerRequest, CreateContainerResponse, StopContainerRequest, StopContainerResponse,
    UpdateContainerRequest, UpdateContainerResponse,
};
use protobuf::{MessageDyn, text_format};

pub use strategies::{case, container, create_reply, resources, stop_reply, update_reply};

/// The plugins, in the order in which they are asked.
pub const PLUGINS: [&str; 4] = ["00-a", "10-b", "10-c", "20-d"];

/// The container that a question is about.
pub const OWN: &str = "own";

/// A question, and what each of the first [`PLUGINS`] replies.
#[derive(Clone)]
#[expect(missing_docs, reason = "a request and its replies")]
pub enum Case {
    Create(CreateContainerRequest, Vec<CreateContainerResponse>),
    Update(UpdateContainerRequest, Vec<UpdateContainerResponse>),
    Stop(StopContainerRequest, Vec<StopContainerResponse>),
}

impl Case {
    /// Returns the name of the call.
    pub fn op(&self) -> &'static str {
        match self {
            Self::Create(..) => "CreateContainer",
            Self::Update(..) => "UpdateContainer",
            Self::Stop(..) => "StopContainer",
        }
    }

    /// Returns the request and the replies.
    pub fn messages(&self) -> (&dyn MessageDyn, Vec<&dyn MessageDyn>) {
        fn all<M: MessageDyn>(replies: &[M]) -> Vec<&dyn MessageDyn> {
            replies.iter().map(|reply| reply as &dyn MessageDyn).collect()
        }
        match self {
            Self::Create(request, replies) => (request, all(replies)),
            Self::Update(request, replies) => (request, all(replies)),
            Self::Stop(request, replies) => (request, all(replies)),
        }
    }
}

/// As text, which leaves out what is not set.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (request, replies) = self.messages();
        writeln!(f, "{}\n{}", self.op(), text_format::print_to_string_pretty(request))?;
        for (plugin, reply) in PLUGINS.iter().zip(replies) {
            writeln!(f, "{plugin} replies\n{}", text_format::print_to_string_pretty(reply))?;
        }
        Ok(())
    }
}
