//! The life of a pod, from its start to its removal.

use anyhow::Result;
use nri_adaptation::Notice;
use nri_proto::{Container, ContainerState, Event, Pod, Resources};

use crate::node::Node;
use crate::show::Show;

/// The annotations of the pod, which the plugins read. The keys are upstream's.
const ANNOTATIONS: [(&str, &str); 3] = [
    ("ulimits.noderesource.dev/container.app", "[{ type: nofile, soft: 1024, hard: 4096 }]"),
    ("devices.noderesource.dev/container.app", "[{ path: /dev/fuse, type: c, major: 10, minor: 229 }]"),
    ("ulimits.noderesource.dev/container.typo", "[{ type: nofiles, soft: 1, hard: 1 }]"),
];

/// A pod with two containers. The plugins refuse one of the containers.
pub(crate) struct Life {
    number: u32,
    /// The annotations that the user adds to those of the demonstration.
    added: Vec<(String, String)>,
    pub(crate) pod: Pod,
    pub(crate) app: Container,
    pub(crate) typo: Container,
}

impl Life {
    pub(crate) fn first(added: Vec<(String, String)>) -> Self {
        Self::new(1, added)
    }

    /// Returns another pod of the same kind, with other ids.
    pub(crate) fn next(&self) -> Self {
        Self::new(self.number + 1, self.added.clone())
    }

    fn new(number: u32, added: Vec<(String, String)>) -> Self {
        let shown = ANNOTATIONS.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let pod = Pod {
            id: format!("pod-{number}"),
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
            annotations: shown.into_iter().chain(added.iter().cloned()).collect(),
            ..Pod::default()
        };
        let container = |name: &str| Container {
            id: format!("{name}-{number}"),
            pod_id: pod.id.clone(),
            name: name.to_owned(),
            args: vec!["/bin/server".to_owned()],
            ..Container::default()
        };
        Self { number, added, app: container("app"), typo: container("typo"), pod }
    }

    pub(crate) async fn run(&mut self, node: &mut Node, show: &mut Show) -> Result<()> {
        show.title(&format!("Pod {}/{} lives. It is annotated:", self.pod.namespace, self.pod.name));
        show.annotations(&self.pod);
        let running = node.nri.begin(self.pod.clone());
        running.notify(Notice::RunPod).await?;
        node.store.add(&self.pod);
        running.commit();
        show.step(node, Event::RunPodSandbox, "");

        self.create_app(node, show).await?;
        self.create_typo(node, show).await;
        self.end(node, show).await?;
        node.store.clear();
        Ok(())
    }

    /// Creates, starts and updates a container that plugins adjust.
    async fn create_app(&mut self, node: &mut Node, show: &mut Show) -> Result<()> {
        let name = self.app.name.clone();
        let creating = node.nri.begin(self.pod.clone());
        // A runtime would create the container with the merged adjustment.
        creating.create_container(self.app.clone()).await?;
        self.app.state = ContainerState::Created;
        node.store.put(&self.app);
        creating.commit();
        show.step(node, Event::CreateContainer, &name);

        let starting = node.nri.begin(self.pod.clone());
        starting.notify(Notice::Start(self.app.clone())).await?;
        self.app.state = ContainerState::Running;
        node.store.put(&self.app);
        starting.commit();
        show.step(node, Event::StartContainer, &name);

        let updating = node.nri.begin(self.pod.clone());
        updating.update_container(self.app.clone(), Some(Resources::default())).await?;
        updating.commit();
        show.step(node, Event::UpdateContainer, &name);
        Ok(())
    }

    /// Tries to create a container with an invalid annotation. The plugin that reads the annotation
    /// refuses the request, and nothing is created.
    async fn create_typo(&self, node: &mut Node, show: &mut Show) {
        let creating = node.nri.begin(self.pod.clone());
        let refused = creating.create_container(self.typo.clone()).await;
        show.step(node, Event::CreateContainer, &self.typo.name);
        if let Err(error) = refused {
            show.refusal(&error);
        }
    }

    async fn end(&mut self, node: &mut Node, show: &mut Show) -> Result<()> {
        let name = self.app.name.clone();
        let stopping = node.nri.begin(self.pod.clone());
        stopping.stop_container(self.app.clone()).await?;
        show.step(node, Event::StopContainer, &name);
        stopping.notify(Notice::Remove(self.app.clone())).await?;
        show.step(node, Event::RemoveContainer, &name);
        stopping.notify(Notice::StopPod).await?;
        show.step(node, Event::StopPodSandbox, "");
        stopping.notify(Notice::RemovePod).await?;
        stopping.commit();
        show.step(node, Event::RemovePodSandbox, "");
        Ok(())
    }
}
