//! Pods and containers at one moment, and the messages that send them to a joining plugin.
//!
//! A snapshot may be larger than a message, so it is cut into chunks: all requests except the last
//! announce that more follow. Upstream cuts by counting objects, and guesses again if a message is
//! refused. That panics if a snapshot has few objects of one kind, and never ends if it has few of
//! the other kind. Here, each object is encoded once and put where it fits.
//!
//! ```
//! use nri_adaptation::snapshot::{MAX_CHUNK, Snapshot};
//! use nri_proto::{Container, Pod};
//!
//! let snapshot = Snapshot {
//!     pods: vec![Pod { id: "4f1c".to_owned(), ..Pod::default() }],
//!     containers: vec![Container { id: "9a27".to_owned(), pod_id: "4f1c".to_owned(), ..Container::default() }],
//! };
//! let mut chunks = snapshot.chunks(MAX_CHUNK);
//! for chunk in &mut chunks {
//!     assert!(chunk.last);
//! }
//! assert!(chunks.oversized().is_empty());
//! ```

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display, Formatter};
use std::iter::FusedIterator;
use std::mem;
use std::vec;

use bytes::Bytes;
use nri_proto::{Container, Pod, api, call};
use protobuf::rt::WireType;
use protobuf::{CodedOutputStream, Message};

use crate::config::policy::Namespaces;

/// The largest size of a chunk: the largest message without the envelope of a call. The envelope
/// has the names of service and method, a timeout and some lengths, less than a hundred bytes.
pub const MAX_CHUNK: usize = call::MAX_MESSAGE - 512;

/// The pods and containers of a runtime at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The pods of the runtime.
    pub pods: Vec<Pod>,
    /// The containers of the runtime.
    pub containers: Vec<Container>,
}

impl Snapshot {
    /// Returns the pods and containers in these namespaces. The pod of a container may be among
    /// `hidden`: pods that are not shown yet.
    pub(crate) fn seen_by(mut self, namespaces: &Namespaces, hidden: &[Pod]) -> Self {
        if !namespaces.are_all() {
            let is_seen = |pod: &Pod| namespaces.contains(&pod.namespace);
            self.pods.retain(is_seen);
            let hidden = hidden.iter().filter(|pod| is_seen(pod));
            let pods: HashSet<&str> = self.pods.iter().chain(hidden).map(|pod| &*pod.id).collect();
            self.containers.retain(|container| pods.contains(&*container.pod_id));
        }
        self
    }

    /// Returns the Kubernetes namespaces of containers, from their pods. Left out are containers
    /// that are absent and containers whose pod is absent. If several containers share an id, the
    /// result has the namespaces of all of them, or omits the id if one of the pods is absent.
    #[must_use]
    pub fn namespaces_of(&self, containers: &[String]) -> HashMap<String, Vec<String>> {
        let wanted: HashSet<&str> = containers.iter().map(String::as_str).collect();
        let is_wanted = |container: &&Container| wanted.contains(&*container.id);
        let mut of_pods: HashMap<&str, Vec<&str>> = HashMap::new();
        for pod in &self.pods {
            of_pods.entry(&pod.id).or_default().push(&pod.namespace);
        }
        let mut found: HashMap<&str, Option<Vec<String>>> = HashMap::new();
        for container in self.containers.iter().filter(is_wanted) {
            let all = found.entry(&container.id).or_insert_with(|| Some(Vec::new()));
            match of_pods.get(&*container.pod_id) {
                Some(namespaces) => {
                    all.iter_mut().for_each(|all| all.extend(namespaces.iter().map(ToString::to_string)))
                }
                None => *all = None,
            }
        }
        found.into_iter().filter_map(|(id, namespaces)| Some((id.to_owned(), namespaces?))).collect()
    }
}

/// One chunk of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// An encoded [`api::SynchronizeRequest`].
    pub bytes: Bytes,
    /// Whether this is the last chunk. The request says the same: its field `more` is false.
    pub last: bool,
}

/// An object that was left out because it is larger than a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversized {
    /// The kind of the object.
    pub kind: ChunkKind,
    /// The id of the object.
    pub id: String,
    /// The encoded size in bytes.
    pub size: u64,
}

/// The kind of an object in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkKind {
    /// A pod.
    Pod,
    /// A container.
    Container,
}

/// An iterator over the chunks of a snapshot. See [`Snapshot::chunks`].
#[derive(Debug)]
pub struct Chunks {
    pods: vec::IntoIter<Pod>,
    containers: vec::IntoIter<Container>,
    limit: usize,
    /// The chunk that is being filled. `None` after the last chunk was returned.
    open: Option<Vec<u8>>,
    oversized: Vec<Oversized>,
}

/// The field numbers of [`api::SynchronizeRequest`].
mod field {
    pub(super) const PODS: u32 = 1;
    pub(super) const CONTAINERS: u32 = 2;
    pub(super) const MORE: u32 = 3;
}

/// The encoded field `more` with the value true. Every chunk reserves room for it, even the last.
const MORE: [u8; 2] = [(field::MORE << 3) as u8 | WireType::Varint as u8, 1];

impl Snapshot {
    /// Cuts the snapshot into chunks of at most `limit` bytes.
    ///
    /// The chunks contain first all pods and then all containers, each once and in order. Objects
    /// that fit into no chunk are left out and listed in [`Chunks::oversized`]. There is always at
    /// least one chunk. A chunk without objects is the only one.
    ///
    /// Chunks are encoded one at a time, when they are needed.
    #[must_use]
    pub fn chunks(self, limit: usize) -> Chunks {
        let Self { pods, containers } = self;
        Chunks {
            pods: pods.into_iter(),
            containers: containers.into_iter(),
            limit,
            open: Some(Vec::new()),
            oversized: Vec::new(),
        }
    }
}

impl Chunks {
    /// Returns the objects that were left out so far. The list is complete after the last chunk.
    #[must_use]
    pub fn oversized(&self) -> &[Oversized] {
        &self.oversized
    }

    /// Returns the next object that fits into a chunk, with its size in the chunk.
    fn next_object(&mut self) -> Option<(SizedMessage, usize)> {
        loop {
            let object = self
                .pods
                .next()
                .map(SizedMessage::pod)
                .or_else(|| self.containers.next().map(SizedMessage::container))?;
            match usize::try_from(object.size_in_chunk()) {
                Ok(size) if size.saturating_add(MORE.len()) <= self.limit => return Some((object, size)),
                _ => self.oversized.push(object.into_oversized()),
            }
        }
    }
}

impl Iterator for Chunks {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        let mut open = self.open.take()?;
        while let Some((object, size)) = self.next_object() {
            if open.len() + size + MORE.len() <= self.limit {
                object.write_to(&mut open, size);
                continue;
            }
            let mut full = mem::take(&mut open);
            full.extend(MORE);
            object.write_to(&mut open, size);
            self.open = Some(open);
            return Some(Chunk { bytes: full.into(), last: false });
        }
        Some(Chunk { bytes: open.into(), last: true })
    }
}

impl FusedIterator for Chunks {}

/// A message with its size. The sizes of its parts are cached, so that they are not counted again
/// when the message is written.
enum SizedMessage {
    Pod(api::PodSandbox, u64),
    Container(api::Container, u64),
}

impl SizedMessage {
    fn pod(pod: Pod) -> Self {
        let message = api::PodSandbox::from(pod);
        let size = message.compute_size();
        Self::Pod(message, size)
    }

    fn container(container: Container) -> Self {
        let message = api::Container::from(container);
        let size = message.compute_size();
        Self::Container(message, size)
    }

    /// Returns the size of the object in a chunk: a one-byte tag, the length and the message.
    fn size_in_chunk(&self) -> u64 {
        let (Self::Pod(_, size) | Self::Container(_, size)) = self;
        1 + protobuf::rt::compute_raw_varint64_size(*size) + size
    }

    fn write_to(&self, chunk: &mut Vec<u8>, size: usize) {
        chunk.reserve(size + MORE.len());
        match self {
            Self::Pod(pod, length) => write_field(field::PODS, pod, *length, chunk),
            Self::Container(container, length) => write_field(field::CONTAINERS, container, *length, chunk),
        }
        .expect("writing to a vector does not fail");
    }

    fn into_oversized(self) -> Oversized {
        match self {
            Self::Pod(pod, size) => Oversized { kind: ChunkKind::Pod, id: pod.id, size },
            Self::Container(container, size) => Oversized { kind: ChunkKind::Container, id: container.id, size },
        }
    }
}

/// Writes a message as a field. The message has computed its size before.
fn write_field(number: u32, message: &impl Message, size: u64, chunk: &mut Vec<u8>) -> protobuf::Result<()> {
    let mut out = CodedOutputStream::vec(chunk);
    out.write_tag(number, WireType::LengthDelimited)?;
    out.write_raw_varint64(size)?;
    message.write_to_with_cached_sizes(&mut out)?;
    out.flush()
}

impl Display for Oversized {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { kind, id, size } = self;
        write!(f, "{kind} {id} of {size} bytes")
    }
}

impl Display for ChunkKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pod => "pod",
            Self::Container => "container",
        })
    }
}
