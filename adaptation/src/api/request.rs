//! Requests to plugins, encoded once for all plugins.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use nri_proto::encode::{Encode, Writer};
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
#[derive(Clone, Debug)]
pub struct Request {
    event: Event,
    pod: Arc<Pod>,
    /// The encoding of the pod, shared by all requests that derive from this one.
    pod_bytes: Arc<OnceLock<Bytes>>,
    subject: Subject,
    bytes: OnceLock<Bytes>,
    decision: Arc<Decision>,
}

impl Request {
    /// Creates a request about `pod`.
    #[must_use]
    pub fn new(event: Event, pod: Arc<Pod>, subject: Subject) -> Self {
        Self { event, pod, pod_bytes: Arc::default(), subject, bytes: OnceLock::new(), decision: Arc::default() }
    }

    /// Attaches the decision of the request, which is made later.
    pub(crate) fn decided(self, decision: Arc<Decision>) -> Self {
        Self { decision, ..self }
    }

    /// Returns the decision of the request.
    pub(crate) fn decision(&self) -> &Decision {
        &self.decision
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

    /// Drops the reference to the container until the next [`Request::show`], so that a merge that
    /// shares the container can change it in place.
    pub(crate) fn release_subject(&mut self) {
        self.subject = Subject::Pod;
    }

    /// Sets the subject after the reply of a plugin. If the reply changed the subject, the request
    /// is encoded again.
    pub(crate) fn show(&mut self, subject: Subject, is_changed: bool) {
        self.subject = subject;
        if is_changed {
            self.bytes.take();
        }
    }

    /// Creates another request about the same pod.
    pub(crate) fn of(&self, event: Event, subject: Subject) -> Self {
        let (pod, pod_bytes) = (Arc::clone(&self.pod), Arc::clone(&self.pod_bytes));
        Self { pod_bytes, ..Self::new(event, pod, subject) }
    }

    /// Returns the approximate memory of the request: its encoding and the model that was encoded.
    pub(crate) fn n_bytes(&self) -> usize {
        2 * self.bytes().len()
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
            Subject::Pod => {}
            Subject::PodResources { overhead, resources } => {
                resources.iter().for_each(|resources| out.model(3, &**resources));
                overhead.iter().for_each(|overhead| out.model(2, &**overhead));
            }
            Subject::Container(container) => out.model(2, &**container),
            Subject::ContainerResources { container, resources } => {
                resources.iter().for_each(|resources| out.model(3, &**resources));
                out.model(2, &**container);
            }
            Subject::Proposal(proposal) => {
                return encode(&api::ValidateContainerAdjustmentRequest::from(Proposal::clone(proposal)));
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_encoded_again_only_if_a_plugin_changed_it() {
        let with_env = |env: &[&str]| {
            let env = env.iter().map(|&variable| variable.to_owned()).collect();
            Subject::Container(Arc::new(Container { env, ..Container::default() }))
        };
        let mut request = Request::new(Event::CreateContainer, Arc::default(), with_env(&["A=1"]));
        let first = request.bytes();
        request.show(with_env(&["A=1"]), false);
        assert_eq!(request.bytes().as_ptr(), first.as_ptr());

        request.show(with_env(&["A=1", "B=2"]), true);
        let again = api::CreateContainerRequest::parse_from_bytes(&request.bytes()).unwrap();
        assert_eq!(again.container.env, ["A=1", "B=2"]);
    }
}
