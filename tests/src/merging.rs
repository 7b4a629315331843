//! Random requests that several plugins answer with changes: few names and keys, so that the
//! answers meet.

pub(crate) mod fold;
mod odd;
mod sieve;
mod strategies;

use std::fmt;

use nri_proto::api::{
    CreateContainerRequest, CreateContainerResponse, StopContainerRequest, StopContainerResponse,
    UpdateContainerRequest, UpdateContainerResponse,
};
use protobuf::Message;

use crate::text::text;

pub use strategies::{case, container, create_reply, resources, stop_reply, update_reply};

/// The plugins, in the order in which they are asked.
pub const PLUGINS: [&str; 4] = ["00-a", "10-b", "10-c", "20-d"];

/// The container that a request is about.
pub const OWN: &str = "own";

/// A request, and the reply of each of the first [`PLUGINS`].
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

    /// Returns the request and the replies, encoded.
    pub fn encoded(&self) -> (Vec<u8>, Vec<Vec<u8>>) {
        fn each<M: Message>(message: &M) -> Vec<u8> {
            message.write_to_bytes().expect("encoding to memory does not fail")
        }
        match self {
            Self::Create(request, replies) => (each(request), replies.iter().map(each).collect()),
            Self::Update(request, replies) => (each(request), replies.iter().map(each).collect()),
            Self::Stop(request, replies) => (each(request), replies.iter().map(each).collect()),
        }
    }

    fn texts(&self) -> (String, Vec<String>) {
        match self {
            Self::Create(request, replies) => (text(request), replies.iter().map(text).collect()),
            Self::Update(request, replies) => (text(request), replies.iter().map(text).collect()),
            Self::Stop(request, replies) => (text(request), replies.iter().map(text).collect()),
        }
    }
}

/// Formats the case as text, without fields that are not set.
impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (request, replies) = self.texts();
        writeln!(f, "{}\n{request}", self.op())?;
        for (plugin, reply) in PLUGINS.iter().zip(replies) {
            writeln!(f, "{plugin} replies\n{reply}")?;
        }
        Ok(())
    }
}
