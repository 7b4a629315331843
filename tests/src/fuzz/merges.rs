//! The merge, with replies from the input: any bytes that can be decoded, or likely values.

use std::fmt::Debug;

use nri_adaptation::merge::{
    Applied, CreateMerge, Dropped, MergeError, MergedCreate, MergedStop, MergedUpdate, StopMerge, UpdateMerge,
};
use nri_proto::{Container, CreateReply, PluginId, Resources, StopReply, UpdateReply, api, decode};
use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use protobuf::Message;

use super::script::Script;
use crate::merging::{self, OWN, PLUGINS};

/// Applies replies in turn. A refused reply leaves no trace, the view of the next plugin is that of
/// this plugin with its reply applied, and repeating everything gives the same result.
pub fn merges(input: &[u8]) {
    check_reading(input);
    let mut script = Script(input);
    match script.byte() % 6 {
        0 => {
            let container: api::Container = message(&mut script).unwrap_or_default();
            check(&CreateMerge::new(container.into()), &replies::<api::CreateContainerResponse, _>(&mut script));
        }
        1 => {
            let requested: api::LinuxResources = message(&mut script).unwrap_or_default();
            check(&UpdateMerge::new(OWN, requested.into()), &replies::<api::UpdateContainerResponse, _>(&mut script));
        }
        2 => check(&StopMerge::new(), &replies::<api::StopContainerResponse, _>(&mut script)),
        3 => {
            let container = likely(&merging::container(), &mut script);
            check(&CreateMerge::new(container), &likely_replies(&merging::create_reply(), &mut script));
        }
        4 => {
            let requested = likely(&merging::resources(), &mut script);
            check(&UpdateMerge::new(OWN, requested), &likely_replies(&merging::update_reply(), &mut script));
        }
        _ => check(&StopMerge::new(), &likely_replies(&merging::stop_reply(), &mut script)),
    }
}

/// Checks that a reply that is decoded directly into the model equals the one that is decoded
/// through its message.
fn check_reading(input: &[u8]) {
    if let Some(reply) = decode::usual::<CreateReply>(input) {
        let message = api::CreateContainerResponse::parse_from_bytes(input).expect("only what can be read is usual");
        assert_eq!(*reply, message.into());
    }
}

/// Reads a message, if the input has a valid one.
pub(super) fn message<M: Message>(script: &mut Script<'_>) -> Option<M> {
    let length = script.number();
    M::parse_from_bytes(script.bytes(length)).ok()
}

fn replies<M: Message, R: From<M>>(script: &mut Script<'_>) -> Vec<R> {
    let mut replies = vec![];
    while !script.is_over() && replies.len() < PLUGINS.len() {
        replies.extend(message::<M>(script).map(R::from));
    }
    replies
}

/// Generates a value with `strategy`, as the input determines.
pub(super) fn likely<S: Strategy>(strategy: &S, script: &mut Script<'_>) -> S::Value {
    let mut seed = [0; 32];
    seed[..4].copy_from_slice(&[(); 4].map(|()| script.byte()));
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let made = strategy.new_tree(&mut TestRunner::new_with_rng(Config::default(), rng));
    made.expect("nothing that is made is rejected").current()
}

fn likely_replies<S: Strategy, R: From<S::Value>>(strategy: &S, script: &mut Script<'_>) -> Vec<R> {
    let mut replies = vec![];
    while !script.is_over() && replies.len() < PLUGINS.len() {
        replies.push(likely(strategy, script).into());
    }
    replies
}

fn check<M: Merge>(begin: &M, replies: &[M::Reply]) {
    let (mut merge, mut again) = (begin.clone(), begin.clone());
    for (plugin, reply) in PLUGINS.iter().zip(replies) {
        let plugin: PluginId = plugin.parse().expect("it is a name");
        let before = merge.clone();
        let applied = merge.apply(&plugin, reply.clone());
        assert_eq!(applied, again.apply(&plugin, reply.clone()), "it is not the same again");
        match applied {
            Ok(applied) => check_view(&before, &merge, &plugin, reply, &applied),
            Err(_) => assert_eq!(merge, before, "a refused reply left something behind"),
        }
    }
    assert_eq!(merge, again);
    assert_eq!(merge.finish(), again.finish());
}

fn check_view<M: Merge>(before: &M, after: &M, plugin: &PluginId, reply: &M::Reply, applied: &Applied) {
    if !applied.view_changed() {
        assert_eq!(after.view(), before.view(), "the view changed, and nobody is told");
    }
    // A merge that begins with the plugin's view has no conflicts with other plugins, so nothing
    // else is dropped.
    if applied.dropped.iter().any(|dropped| matches!(dropped, Dropped::Update(_))) {
        return;
    }
    let mut alone = before.again();
    alone.apply(plugin, reply.clone()).expect("a reply that is taken is taken alone");
    assert_eq!(M::alone(after.view()), M::alone(alone.view()), "the view is not the one before with the reply made");
}

trait Merge: Clone + Debug + PartialEq {
    type Reply: Clone;
    type View: Debug + PartialEq;
    type Done: Debug + PartialEq;

    fn apply(&mut self, plugin: &PluginId, reply: Self::Reply) -> Result<Applied, MergeError>;
    fn view(&self) -> Self::View;
    fn finish(self) -> Self::Done;
    /// Creates a merge that begins with the current view.
    fn again(&self) -> Self;

    /// Returns the parts of a view that depend only on the previous view and on a reply.
    fn alone(view: Self::View) -> Self::View {
        view
    }
}

impl Merge for CreateMerge {
    type Reply = CreateReply;
    type View = Container;
    type Done = MergedCreate;

    fn apply(&mut self, plugin: &PluginId, reply: CreateReply) -> Result<Applied, MergeError> {
        self.apply(plugin, reply)
    }

    fn view(&self) -> Container {
        self.view().clone()
    }

    fn finish(self) -> MergedCreate {
        self.finish()
    }

    fn again(&self) -> Self {
        Self::new(self.view().clone())
    }

    /// A removal of `rdt` is cancelled when a part of it is set, and then the original value is
    /// shown again.
    fn alone(mut view: Container) -> Container {
        if let Some(linux) = &mut view.linux {
            linux.rdt = None;
        }
        view
    }
}

impl Merge for UpdateMerge {
    type Reply = UpdateReply;
    type View = Resources;
    type Done = MergedUpdate;

    fn apply(&mut self, plugin: &PluginId, reply: UpdateReply) -> Result<Applied, MergeError> {
        self.apply(plugin, reply)
    }

    fn view(&self) -> Resources {
        self.view().clone()
    }

    fn finish(self) -> MergedUpdate {
        self.finish()
    }

    fn again(&self) -> Self {
        Self::new(OWN, self.view().clone())
    }
}

/// The view of a stop does not change.
impl Merge for StopMerge {
    type Reply = StopReply;
    type View = ();
    type Done = MergedStop;

    fn apply(&mut self, plugin: &PluginId, reply: StopReply) -> Result<Applied, MergeError> {
        self.apply(plugin, reply)
    }

    fn view(&self) {}

    fn finish(self) -> MergedStop {
        self.finish()
    }

    fn again(&self) -> Self {
        Self::new()
    }
}
