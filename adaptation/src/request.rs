//! What plugins are told and asked, encoded once for all of them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use nri_proto::{Container, Event, Pod, Proposal, Resources, api};
use protobuf::{CodedOutputStream, Message};

/// A word with its encoding, which is made when the first plugin needs it.
#[derive(Clone, Debug)]
pub struct Encoded<W> {
    word: Arc<W>,
    bytes: OnceLock<Bytes>,
}

impl<W> Encoded<W> {
    /// The word, not encoded yet.
    #[must_use]
    pub fn new(word: impl Into<Arc<W>>) -> Self {
        Self { word: word.into(), bytes: OnceLock::new() }
    }

    /// The word.
    #[must_use]
    pub fn word(&self) -> &W {
        &self.word
    }

    fn bytes<M: Message + From<W>>(&self) -> &Bytes
    where
        W: Clone,
    {
        self.bytes.get_or_init(|| encode(&M::from(W::clone(&self.word))))
    }
}

impl<W> From<W> for Encoded<W> {
    fn from(word: W) -> Self {
        Self::new(word)
    }
}

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
    Container(Encoded<Container>),
    /// New limits of one of its containers.
    ContainerResources {
        /// The container.
        container: Arc<Encoded<Container>>,
        /// Its limits to be.
        resources: Option<Box<Resources>>,
    },
    /// What all plugins together want of one of its containers, for validators to look at.
    Proposal(Arc<Encoded<Proposal>>),
}

/// One moment in the life of a pod or container that plugins may subscribe to.
#[derive(Debug)]
pub struct Request {
    event: Event,
    pod: Arc<Encoded<Pod>>,
    subject: Subject,
    bytes: OnceLock<Bytes>,
}

impl Request {
    /// A request about `pod`.
    #[must_use]
    pub fn new(event: Event, pod: Arc<Encoded<Pod>>, subject: Subject) -> Self {
        Self { event, pod, subject, bytes: OnceLock::new() }
    }

    /// The moment.
    #[must_use]
    pub fn event(&self) -> Event {
        self.event
    }

    /// The pod.
    #[must_use]
    pub fn pod(&self) -> &Pod {
        self.pod.word()
    }

    /// What it is about, beside the pod.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The container that it is about, unless it is about the pod.
    #[must_use]
    pub fn container(&self) -> Option<&Container> {
        match &self.subject {
            Subject::Proposal(proposal) => proposal.word().container.as_ref(),
            _ => self.encoded_container().map(Encoded::word),
        }
    }

    /// What validators are to look at, if it is for them.
    #[must_use]
    pub fn proposal(&self) -> Option<&Proposal> {
        if let Subject::Proposal(proposal) = &self.subject { Some(proposal.word()) } else { None }
    }

    /// The same about another container: as plugins before have changed it.
    pub(crate) fn with(&self, subject: Subject) -> Self {
        self.of(self.event, subject)
    }

    /// Another about the same pod.
    pub(crate) fn of(&self, event: Event, subject: Subject) -> Self {
        Self::new(event, Arc::clone(&self.pod), subject)
    }

    /// Its encoding, made once.
    ///
    /// The messages of all events number the pod and the container alike, and nothing in a message
    /// says which one it is: there is one way to encode them.
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes.get_or_init(|| self.encode()).clone()
    }

    fn encode(&self) -> Bytes {
        if let Subject::Proposal(proposal) = &self.subject {
            return proposal.bytes::<api::ValidateContainerAdjustmentRequest>().clone();
        }
        written(|out| {
            out.write_bytes(1, self.pod.bytes::<api::PodSandbox>())?;
            match &self.subject {
                Subject::Pod | Subject::Proposal(_) => Ok(()),
                Subject::PodResources { overhead, resources } => {
                    write_resources(out, 2, overhead.as_deref())?;
                    write_resources(out, 3, resources.as_deref())
                }
                Subject::Container(container) => out.write_bytes(2, container.bytes::<api::Container>()),
                Subject::ContainerResources { container, resources } => {
                    out.write_bytes(2, container.bytes::<api::Container>())?;
                    write_resources(out, 3, resources.as_deref())
                }
            }
        })
    }

    /// Its encoding for plugins that know no RPC for this event.
    pub(crate) fn state_change(&self) -> Bytes {
        written(|out| {
            out.write_enum(1, self.event.number())?;
            out.write_bytes(2, self.pod.bytes::<api::PodSandbox>())?;
            match self.encoded_container() {
                Some(container) => out.write_bytes(3, container.bytes::<api::Container>()),
                None => Ok(()),
            }
        })
    }

    fn encoded_container(&self) -> Option<&Encoded<Container>> {
        match &self.subject {
            Subject::Pod | Subject::PodResources { .. } | Subject::Proposal(_) => None,
            Subject::Container(container) => Some(container),
            Subject::ContainerResources { container, .. } => Some(container),
        }
    }
}

/// What was written, with the size that it needs.
fn written(write: impl Fn(&mut CodedOutputStream<'_>) -> protobuf::Result<()>) -> Bytes {
    let mut bytes = Vec::new();
    {
        let mut out = CodedOutputStream::vec(&mut bytes);
        write(&mut out).and_then(|()| out.flush()).expect(TO_MEMORY);
    }
    bytes.into()
}

fn write_resources(out: &mut CodedOutputStream<'_>, field: u32, resources: Option<&Resources>) -> protobuf::Result<()> {
    match resources {
        Some(resources) => out.write_bytes(field, &encode(&api::LinuxResources::from(resources.clone()))),
        None => Ok(()),
    }
}

/// Encodes a message.
pub(crate) fn encode(message: &impl Message) -> Bytes {
    message.write_to_bytes().expect(TO_MEMORY).into()
}

/// Messages of proto3 have no required fields, and memory takes what is written.
const TO_MEMORY: &str = "encoding to memory does not fail";
