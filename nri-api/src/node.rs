//! What all clones of an [`Nri`](crate::Nri) and of its handles share.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use nri_adaptation::ledger::{Occasion, What};
use nri_adaptation::merge::AskedEviction;
use nri_adaptation::{Adaptation, Config, Metrics};
use nri_proto::{Event, FieldOwners, Owners, Pod, Update};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::bounded::chain;
use crate::domains::{Domains, Failed};
use crate::space::Space;
use crate::stage::Stages;

/// What one runtime has of NRI.
pub(crate) struct Node {
    pub(crate) adaptation: Adaptation,
    pub(crate) domains: Arc<Domains>,
    pub(crate) stages: Stages,
    pub(crate) tasks: TaskTracker,
    runtime: Handle,
}

/// In what plugins asked for something.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) event: Event,
    pub(crate) pod: Arc<Pod>,
}

impl Node {
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub(crate) fn new(config: Config, metrics: Arc<dyn Metrics>) -> Arc<Self> {
        Arc::new_cyclic(|node| {
            let domains = Arc::new(Domains::new(config.source_timeout, node.clone()));
            let source = Arc::clone(&domains);
            Self {
                adaptation: Adaptation::with_metrics(config, source, metrics),
                domains,
                stages: Stages::default(),
                tasks: TaskTracker::new(),
                runtime: Handle::current(),
            }
        })
    }

    /// Runs a task that [`Nri::stop`](crate::Nri::stop) waits for. After that there is nothing to do any more.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if !self.stages.is_stopped() {
            self.tasks.spawn_on(task, &self.runtime);
        }
    }

    /// Makes updates that plugins asked for in a request. What fails is in the ledger.
    pub(crate) async fn update(&self, own: &Arc<Space>, asked: Asked, updates: Vec<Update>, owners: &Owners) {
        if updates.is_empty() {
            return;
        }
        for Failed { update, reason } in self.domains.update(Some(own), updates, self.domains.deadline()).await {
            let id = &update.container_id;
            for plugin in owners.containers.get(id).map(plugins_of).unwrap_or_default() {
                self.update_failed(plugin, Some(&asked), id, reason.clone());
            }
        }
    }

    /// Writes down that an update was not made.
    pub(crate) fn update_failed(&self, plugin: &str, asked: Option<&Asked>, container: &str, reason: String) {
        self.adaptation.record(&occasion(plugin, asked, container), What::UpdateFailed { reason });
    }

    /// Stops containers that plugins want stopped, in a task: nobody waits for that. What fails is in the ledger.
    pub(crate) fn evict(self: &Arc<Self>, own: Option<Arc<Space>>, wanted: Vec<AskedEviction>, asked: Option<Asked>) {
        if wanted.is_empty() {
            return;
        }
        let node = Arc::clone(self);
        self.spawn(async move {
            for AskedEviction { plugin, eviction } in wanted {
                let id = eviction.container_id.clone();
                if let Err(unmade) = node.domains.evict(own.as_ref(), eviction).await {
                    let reason = chain(&unmade);
                    warn!(%plugin, container = id, reason, "a container that a plugin wants stopped was not");
                    let occasion = occasion(plugin.as_ref(), asked.as_ref(), &id);
                    node.adaptation.record(&occasion, What::EvictionFailed { reason });
                }
            }
        });
    }
}

/// Those who want something of a container.
fn plugins_of(owners: &FieldOwners) -> BTreeSet<&str> {
    let compound = owners.compound.values().flat_map(|owners| owners.entries.values());
    owners.simple.values().chain(compound).flat_map(|owner| owner.plugins()).collect()
}

fn occasion(plugin: &str, asked: Option<&Asked>, container: &str) -> Occasion {
    Occasion {
        when: SystemTime::now(),
        plugin: plugin.into(),
        event: asked.map(|asked| asked.event),
        pod: asked.map(|asked| asked.pod.id.as_str().into()),
        container: Some(container.into()),
        took: None,
        shadow: false,
        in_vain: false,
    }
}
