//! An NRI plugin that tells each container the name of its pod, unless the pod opts out.
//!
//! The lines to change first: the events that the plugin subscribes to, and what it does in their
//! handlers. `nri_plugin::Plugin` has a handler for each event.

use std::process::ExitCode;

use nri_plugin::cli::Program;
use nri_plugin::{
    Adjustment, Container, Context, CreateReply, EnvVar, Event, EventMask, Plugin, Pod, Refusal, async_trait,
};

/// The annotation of a pod that opts out with `true`, or in with `false`.
const OPT_OUT: &str = "template.example.org/opt-out";

struct Template;

#[async_trait]
impl Plugin for Template {
    fn events(&self) -> EventMask {
        Event::CreateContainer.into()
    }

    async fn create_container(&self, _: &Context, pod: Pod, _: Container) -> Result<CreateReply, Refusal> {
        let is_out = match pod.annotation(OPT_OUT) {
            None => false,
            // A refusal keeps the container from being created. Its text reaches the user.
            Some(text) => {
                text.parse().map_err(|_| Refusal::new(format_args!("{OPT_OUT} is {text:?}, not a boolean")))?
            }
        };
        let mut adjustment = Adjustment::default();
        if !is_out {
            adjustment.env.set(EnvVar::new("POD_NAME", pod.name))?;
        }
        Ok(adjustment.into())
    }
}

fn main() -> ExitCode {
    Program::new("template", "tells containers the name of their pod").main(|_| Ok(Template))
}

#[cfg(test)]
mod tests {
    use nri_plugin::chain;
    use nri_plugin::testing::{Node, container, pod};

    use super::{OPT_OUT, Template};

    /// A runtime in this process, which the plugin has joined.
    async fn node() -> Node {
        let node = Node::new();
        node.join("10-template", Template).await.unwrap();
        node
    }

    #[tokio::test]
    async fn a_container_knows_the_name_of_its_pod() {
        let (node, pod) = (node().await, pod("web"));
        node.create(&pod, &container("app", &pod)).await.unwrap();
        assert_eq!(node.changes("app"), ["10-template set Env POD_NAME: web"]);
    }

    #[tokio::test]
    async fn a_pod_opts_out() {
        let (node, mut pod) = (node().await, pod("web"));
        pod.annotations.insert(OPT_OUT.to_owned(), "true".to_owned());
        node.create(&pod, &container("app", &pod)).await.unwrap();
        assert!(node.changes("app").is_empty());
    }

    #[tokio::test]
    async fn an_annotation_that_is_no_boolean_is_refused() {
        let (node, mut pod) = (node().await, pod("web"));
        pod.annotations.insert(OPT_OUT.to_owned(), "maybe".to_owned());
        let refused = node.create(&pod, &container("app", &pod)).await.unwrap_err();
        assert!(
            chain(&refused).ends_with("template.example.org/opt-out is \"maybe\", not a boolean"),
            "{}",
            chain(&refused)
        );
    }
}
