//! What would come of replies, without any plugin.

#[cfg(test)]
mod tests;

use nri_proto::{Container, CreateReply, PluginId, Resources, StopReply, UpdateReply};

use crate::config::policy::{Declared, Policies};
use crate::merge::{CreateMerge, MergedCreate, MergedStop, MergedUpdate, StopMerge, UpdateMerge};
use crate::reply::question::Question;
pub use crate::reply::question::{Refusal, ReplyOutcome};

/// A try of what plugins would reply about a pod of one namespace, by the policies of an operator.
///
/// Plugins are asked in the order of their ids. Where a request would fail, the rest is tried all
/// the same. Which other containers are in pods that a plugin does not see only a runtime knows:
/// what a plugin wants of those is tried as if it saw them.
///
/// ```
/// use nri_adaptation::dry_run::{DryRun, ReplyOutcome};
/// use nri_adaptation::policy::Policies;
/// use nri_proto::{Adjustment, Container, CreateReply, EnvVar};
///
/// let level = |level: &str| -> Result<_, nri_proto::DashedKey> {
///     let mut adjustment = Adjustment::default();
///     adjustment.env.set(EnvVar::new("LEVEL", level))?;
///     Ok(CreateReply { adjustment: Some(adjustment), ..CreateReply::default() })
/// };
/// let replies = [("20-b".parse()?, level("debug")?), ("10-a".parse()?, level("info")?)];
///
/// let policies = Policies::default();
/// let tried = DryRun { policies: &policies, namespace: "shop" }.create(Container::default(), replies);
/// assert!(tried.fails());
/// assert!(matches!(tried.steps[0].outcome, ReplyOutcome::Applied(_)));
/// assert_eq!(tried.steps[1].seen.env("LEVEL"), Some("info"));
/// let ReplyOutcome::Refused(conflict) = &tried.steps[1].outcome else { panic!() };
/// assert_eq!(conflict.to_string(), r#"plugins "20-b" and "10-a" both tried to set Env LEVEL"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DryRun<'p> {
    /// What the operator says about plugins. What they would declare about themselves does not
    /// matter here.
    pub policies: &'p Policies,
    /// The namespace of the pod.
    pub namespace: &'p str,
}

/// What would come of it: `V` is what plugins are shown, `M` what the runtime is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried<V, M> {
    /// Each plugin, in the order in which it is asked.
    pub steps: Vec<Step<V>>,
    /// What all that was applied comes to.
    pub merged: M,
}

/// One plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<V> {
    /// The plugin.
    pub plugin: PluginId,
    /// What it would be shown.
    pub seen: V,
    /// What would become of its reply.
    pub outcome: ReplyOutcome,
}

impl<V, M> Tried<V, M> {
    /// Says whether the request would fail.
    pub fn fails(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.outcome, ReplyOutcome::Refused(_)))
    }
}

impl DryRun<'_> {
    /// Tries to create a container.
    pub fn create(
        &self,
        container: Container,
        replies: impl IntoIterator<Item = (PluginId, CreateReply)>,
    ) -> Tried<Container, MergedCreate> {
        let (merge, steps) = self.run(CreateMerge::new(container), replies);
        Tried { steps, merged: merge.finish() }
    }

    /// Tries to update a container to these resources.
    pub fn update(
        &self,
        container_id: &str,
        resources: Resources,
        replies: impl IntoIterator<Item = (PluginId, UpdateReply)>,
    ) -> Tried<Resources, MergedUpdate> {
        let (merge, steps) = self.run(UpdateMerge::new(container_id, resources), replies);
        Tried { steps, merged: merge.finish() }
    }

    /// Tries to stop a container. What plugins are shown of it does not change.
    pub fn stop(&self, replies: impl IntoIterator<Item = (PluginId, StopReply)>) -> Tried<(), MergedStop> {
        let (merge, steps) = self.run(StopMerge::new(), replies);
        Tried { steps, merged: merge.finish() }
    }

    fn run<G: Question>(
        &self,
        mut merge: G,
        replies: impl IntoIterator<Item = (PluginId, G::Reply)>,
    ) -> (G, Vec<Step<G::View>>) {
        let mut replies: Vec<_> = replies.into_iter().collect();
        replies.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut steps = Vec::with_capacity(replies.len());
        for (plugin, mut reply) in replies {
            let seen = merge.seen();
            let outcome = self.ask(&mut merge, &plugin, &mut reply);
            steps.push(Step { plugin, seen, outcome });
        }
        (merge, steps)
    }

    fn ask<G: Question>(&self, merge: &mut G, plugin: &PluginId, reply: &mut G::Reply) -> ReplyOutcome {
        let policy = self.policies.effective(plugin, Declared::default()).policy;
        if !policy.allow.allows_event(G::EVENT) || !policy.namespaces.contains(self.namespace) {
            return ReplyOutcome::NotAsked;
        }
        merge.take(&policy, plugin, reply)
    }
}
