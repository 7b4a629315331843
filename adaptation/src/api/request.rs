//! Requests to plugins, encoded once for all plugins.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use nri_proto::encode::{Encode, First, Since, Writer};
use nri_proto::{Container, Event, Pod, Proposal, Resources, api};
use protobuf::Message;

use crate::api::decision::Decision;

/// The initial capacity of an encoding, which fits most requests.
const ROOM: usize = 8 << 10;

/// The subject of a request, beside the pod.
#[derive(Clone, Debug)]
pub enum Subject {
    /// Only the pod.
    Pod,
    /// New resources of the pod.
    PodResources {
        /// The overhead of the pod itself.
        overhead: Option<Box<Resources>>,
        /// The resources of all containers together.
        resources: Option<Box<Resources>>,
    },
    /// A container of the pod.
    Container(Arc<Container>),
    /// New resources of a container.
    ContainerResources {
        /// The container.
        container: Arc<Container>,
        /// The new resources.
        resources: Option<Box<Resources>>,
    },
    /// The merged adjustments of all plugins to a new container, for validators.
    Proposal(Arc<Proposal>),
}

impl Subject {
    /// Returns the container of the request, if any.
    pub(crate) fn container(&self) -> Option<&Container> {
        match self {
            Self::Pod | Self::PodResources { .. } => None,
            Self::Container(container) | Self::ContainerResources { container, .. } => Some(container),
            Self::Proposal(proposal) => proposal.container.as_ref(),
        }
    }
}

/// A request to plugins: an event in the life of a pod or container.
#[derive(Debug)]
pub struct Request {
    event: Event,
    pod: Arc<Pod>,
    /// The encoding of the pod, shared by all requests that derive from this one.
    pod_bytes: Arc<OnceLock<Bytes>>,
    /// The first encoding of the container, for requests in which plugins change the container.
    first: Option<Arc<OnceLock<First>>>,
    /// Which parts of the container changed since the first encoding.
    since: Since,
    subject: Subject,
    bytes: OnceLock<Bytes>,
    decision: Arc<Decision>,
}

impl Request {
    /// Creates a request about `pod`.
    #[must_use]
    pub fn new(event: Event, pod: Arc<Pod>, subject: Subject) -> Self {
        let (pod_bytes, bytes) = (Arc::default(), OnceLock::new());
        let decision = Arc::default();
        Self { event, pod, pod_bytes, first: None, since: Since::default(), subject, bytes, decision }
    }

    /// Attaches the decision of the request, which is made later.
    pub(crate) fn decided(self, decision: Arc<Decision>) -> Self {
        Self { decision, ..self }
    }

    /// Returns the decision of the request.
    pub(crate) fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Marks the request as one that plugins change. Its first encoding is kept for later versions.
    pub(crate) fn changing(self) -> Self {
        Self { first: Some(Arc::default()), ..self }
    }

    /// Returns the event.
    #[must_use]
    pub fn event(&self) -> Event {
        self.event
    }

    /// Returns the pod.
    #[must_use]
    pub fn pod(&self) -> &Pod {
        &self.pod
    }

    pub(crate) fn pod_shared(&self) -> Arc<Pod> {
        Arc::clone(&self.pod)
    }

    /// Returns the subject of the request, beside the pod.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Returns the container of the request, if any.
    #[must_use]
    pub fn container(&self) -> Option<&Container> {
        self.subject.container()
    }

    /// Returns the proposal, if the request is for validators.
    #[must_use]
    pub fn proposal(&self) -> Option<&Proposal> {
        if let Subject::Proposal(proposal) = &self.subject { Some(proposal) } else { None }
    }

    /// Returns the next version of the request, after a plugin has changed the container. `since`
    /// says which parts changed since the first encoding. `bytes` is the encoding, if it is the
    /// same as before.
    pub(crate) fn with(&self, subject: Subject, since: Since, bytes: Option<Bytes>) -> Self {
        let bytes = bytes.map_or_else(OnceLock::new, OnceLock::from);
        let (first, decision) = (self.first.clone(), Arc::clone(&self.decision));
        Self { first, since, bytes, decision, ..self.of(self.event, subject) }
    }

    /// Returns the encoding, if it has been made.
    pub(crate) fn made_bytes(&self) -> Option<Bytes> {
        self.bytes.get().cloned()
    }

    /// Creates another request about the same pod.
    pub(crate) fn of(&self, event: Event, subject: Subject) -> Self {
        let (pod, pod_bytes) = (Arc::clone(&self.pod), Arc::clone(&self.pod_bytes));
        Self { pod_bytes, ..Self::new(event, pod, subject) }
    }

    /// Returns the approximate memory of the request: its encoding, the model that was encoded, and
    /// the first encoding.
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

    /// Returns the encoding, which is made once.
    ///
    /// The messages of all events use the same field numbers for pod and container, and do not
    /// contain the event, so one encoding fits all of them.
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

    /// Encodes the container and the pod. The parts of the container that are unchanged since the
    /// first encoding are copied.
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
        // A container that has changed is not the first version.
        if self.since.is_nothing() {
            _ = first.set(marked.within(&bytes));
        }
        bytes
    }

    fn behind_pod(&self, mut out: Writer) -> Bytes {
        out.encoded(1, self.pod_bytes());
        out.into_bytes()
    }

    /// Returns the encoding as a StateChange message, for plugins that have no RPC for the event.
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
    // Proto3 messages have no required fields, and a write to memory does not fail.
    message.write_to_bytes().expect("encoding to memory does not fail").into()
}
