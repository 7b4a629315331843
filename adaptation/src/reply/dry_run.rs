//! Merges replies without plugins, to see what a request would result in.

#[cfg(test)]
mod tests;

use nri_proto::{Container, CreateReply, PluginId, Resources, StopReply, UpdateReply};

use crate::config::policy::{Declared, Policies};
use crate::merge::{CreateMerge, MergedCreate, MergedStop, MergedUpdate, StopMerge, UpdateMerge};
use crate::reply::question::Question;
pub use crate::reply::question::{Refusal, ReplyOutcome};

/// Merges given replies of plugins about a pod of one namespace, under an operator's policies.
///
/// Replies are applied in the order of the plugin ids. A reply that would fail the request does not
/// end the dry run. Only a runtime knows which other containers are in pods that a plugin may not
/// see, so updates of other containers are tried as if the plugin saw them all.
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
    /// The operator's policies. The policy that a plugin declares itself is not considered.
    pub policies: &'p Policies,
    /// The namespace of the pod.
    pub namespace: &'p str,
}

/// The result of a dry run. `V` is the type of what plugins are shown, `M` the type of the merged
/// result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryRunResult<V, M> {
    /// One step for each plugin, in the order in which plugins are asked.
    pub steps: Vec<Step<V>>,
    /// The merged result of all replies that were applied.
    pub merged: M,
}

/// The step of one plugin in a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<V> {
    /// The id of the plugin.
    pub plugin: PluginId,
    /// The container or the resources, as the plugin would be shown them.
    pub seen: V,
    /// The outcome that the reply would have.
    pub outcome: ReplyOutcome,
}

impl<V, M> DryRunResult<V, M> {
    /// Returns whether the request would fail.
    pub fn fails(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.outcome, ReplyOutcome::Refused(_)))
    }
}

impl DryRun<'_> {
    /// Merges replies about a container that is created.
    pub fn create(
        &self,
        container: Container,
        replies: impl IntoIterator<Item = (PluginId, CreateReply)>,
    ) -> DryRunResult<Container, MergedCreate> {
        let (merge, steps) = self.run(CreateMerge::new(container), replies);
        DryRunResult { steps, merged: merge.finish() }
    }

    /// Merges replies about a container that is updated to `resources`.
    pub fn update(
        &self,
        container_id: &str,
        resources: Resources,
        replies: impl IntoIterator<Item = (PluginId, UpdateReply)>,
    ) -> DryRunResult<Resources, MergedUpdate> {
        let (merge, steps) = self.run(UpdateMerge::new(container_id, resources), replies);
        DryRunResult { steps, merged: merge.finish() }
    }

    /// Merges replies about a container that is stopped. The replies do not change what plugins are
    /// shown.
    pub fn stop(&self, replies: impl IntoIterator<Item = (PluginId, StopReply)>) -> DryRunResult<(), MergedStop> {
        let (merge, steps) = self.run(StopMerge::new(), replies);
        DryRunResult { steps, merged: merge.finish() }
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
