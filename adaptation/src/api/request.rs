//! What plugins are told and asked, encoded once for all of them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use nri_proto::encode::{Encode, First, Since, Writer};
use nri_proto::{Container, Event, Pod, Proposal, Resources, api};
use protobuf::Message;

use crate::api::decision::Decision;

/// What most requests have room in.
const ROOM: usize = 8 << 10;

/// What a request is about, beside its pod.
#[derive(Clone, Debug)]
pub enum Subject {
    /// The pod alone.
    Pod,
    /// New limits of the pod.
    PodResources {
        /// Of what the pod itself costs.
        overhead: Option<Box<Resources>>,
        /// Of all its containers together.
        resources: Option<Box<Resources>>,
    },
    /// One of its containers.
    Container(Arc<Container>),
    /// New limits of one of its containers.
    ContainerResources {
        /// The container.
        container: Arc<Container>,
        /// Its limits to be.
        resources: Option<Box<Resources>>,
    },
    /// What all plugins together want of one of its containers, for validators to look at.
    Proposal(Arc<Proposal>),
}

impl Subject {
    /// The container that it is about, unless it is about the pod.
    pub(crate) fn container(&self) -> Option<&Container> {
        match self {
            Self::Pod | Self::PodResources { .. } => None,
            Self::Container(container) | Self::ContainerResources { container, .. } => Some(container),
            Self::Proposal(proposal) => proposal.container.as_ref(),
        }
    }
}

/// One moment in the life of a pod or container that plugins may subscribe to.
#[derive(Debug)]
pub struct Request {
    event: Event,
    pod: Arc<Pod>,
    /// The pod's encoding, for all requests that were made from this one.
    pod_bytes: Arc<OnceLock<Bytes>>,
    /// How the container was first encoded, for those of them that show it as plugins change it.
    first: Option<Arc<OnceLock<First>>>,
    /// What has become of it since then.
    since: Since,
    subject: Subject,
    bytes: OnceLock<Bytes>,
    decision: Arc<Decision>,
}

impl Request {
    /// A request about `pod`.
    #[must_use]
    pub fn new(event: Event, pod: Arc<Pod>, subject: Subject) -> Self {
        let (pod_bytes, bytes) = (Arc::default(), OnceLock::new());
        let decision = Arc::default();
        Self { event, pod, pod_bytes, first: None, since: Since::default(), subject, bytes, decision }
    }

    /// Returns the request with what it will come to.
    pub(crate) fn decided(self, decision: Arc<Decision>) -> Self {
        Self { decision, ..self }
    }

    /// What the request came to.
    pub(crate) fn decision(&self) -> &Decision {
        &self.decision
    }

    /// One that plugins may change, so that it is encoded again.
    pub(crate) fn changing(self) -> Self {
        Self { first: Some(Arc::default()), ..self }
    }

    /// The moment.
    #[must_use]
    pub fn event(&self) -> Event {
        self.event
    }

    /// The pod.
    #[must_use]
    pub fn pod(&self) -> &Pod {
        &self.pod
    }

    pub(crate) fn pod_shared(&self) -> Arc<Pod> {
        Arc::clone(&self.pod)
    }

    /// What it is about, beside the pod.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The container that it is about, unless it is about the pod.
    #[must_use]
    pub fn container(&self) -> Option<&Container> {
        self.subject.container()
    }

    /// What validators are to look at, if it is for them.
    #[must_use]
    pub fn proposal(&self) -> Option<&Proposal> {
        if let Subject::Proposal(proposal) = &self.subject { Some(proposal) } else { None }
    }

    /// The same about the container as plugins before have changed it, `since` it was first
    /// encoded. Its encoding, if that is still the same.
    pub(crate) fn with(&self, subject: Subject, since: Since, bytes: Option<Bytes>) -> Self {
        let bytes = bytes.map_or_else(OnceLock::new, OnceLock::from);
        let (first, decision) = (self.first.clone(), Arc::clone(&self.decision));
        Self { first, since, bytes, decision, ..self.of(self.event, subject) }
    }

    /// Its encoding, if it has been made.
    pub(crate) fn made_bytes(&self) -> Option<Bytes> {
        self.bytes.get().cloned()
    }

    /// Another about the same pod.
    pub(crate) fn of(&self, event: Event, subject: Subject) -> Self {
        let (pod, pod_bytes) = (Arc::clone(&self.pod), Arc::clone(&self.pod_bytes));
        Self { pod_bytes, ..Self::new(event, pod, subject) }
    }

    /// How many bytes it holds, about: its encoding, the words that it was made from, and how those
    /// were first encoded.
    pub(crate) fn n_bytes(&self) -> usize {
        let first = self.first.as_ref().and_then(|first| first.get());
        let is_another = !self.since.is_nothing();
        2 * self.bytes().len() + first.filter(|_| is_another).map_or(0, First::n_bytes)
    }

    fn pod_bytes(&self) -> &[u8] {
        self.pod_bytes.get_or_init(|| {
            let mut out = Writer::with_capacity(ROOM / 4);
            self.pod.encode(&mut out);
            out.into_bytes()
        })
    }

    /// Its encoding, made once.
    ///
    /// The messages of all events number the pod and the container alike, and nothing in a message
    /// says which one it is: there is one way to encode them.
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes.get_or_init(|| self.encode()).clone()
    }

    fn encode(&self) -> Bytes {
        let mut out = Writer::with_capacity(ROOM);
        match &self.subject {
            Subject::Pod => out.encoded(1, self.pod_bytes()),
            Subject::PodResources { overhead, resources } => {
                resources.iter().for_each(|resources| out.model(3, &**resources));
                overhead.iter().for_each(|overhead| out.model(2, &**overhead));
                out.encoded(1, self.pod_bytes());
            }
            Subject::Container(container) => return self.encode_container(container, out),
            Subject::ContainerResources { container, resources } => {
                resources.iter().for_each(|resources| out.model(3, &**resources));
                return self.encode_container(container, out);
            }
            Subject::Proposal(proposal) => {
                return encode(&api::ValidateContainerAdjustmentRequest::from(Proposal::clone(proposal)));
            }
        }
        out.into_bytes()
    }

    /// Writes the container and the pod. What plugins left alone of a container that was encoded
    /// before is copied.
    fn encode_container(&self, container: &Container, mut out: Writer) -> Bytes {
        let Some(first) = &self.first else {
            out.model(2, container);
            return self.behind_pod(out);
        };
        if let Some(first) = first.get() {
            out.message(2, |out| first.again(container, self.since, out));
            return self.behind_pod(out);
        }
        let marked = out.message(2, |out| First::write(container, out));
        let bytes = self.behind_pod(out);
        // One that is another already is not how it was at first.
        if self.since.is_nothing() {
            _ = first.set(marked.within(&bytes));
        }
        bytes
    }

    fn behind_pod(&self, mut out: Writer) -> Bytes {
        out.encoded(1, self.pod_bytes());
        out.into_bytes()
    }

    /// Its encoding for plugins that know no RPC for this event.
    pub(crate) fn state_change(&self) -> Bytes {
        let mut out = Writer::with_capacity(ROOM);
        if let Some(container) = self.container() {
            out.model(3, container);
        }
        out.encoded(2, self.pod_bytes());
        out.number(1, self.event.number().unsigned_abs().into());
        out.into_bytes()
    }
}

/// Encodes a message.
pub(crate) fn encode(message: &impl Message) -> Bytes {
    // Messages of proto3 have no required fields, and memory takes what is written.
    message.write_to_bytes().expect("encoding to memory does not fail").into()
}
