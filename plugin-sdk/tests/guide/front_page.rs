use nri_plugin::{Adjustment, Container, Context, CreateReply, EnvVar, Event, EventMask, Plugin, Pod, Refusal};

struct PodName;

#[nri_plugin::async_trait]
impl Plugin for PodName {
    fn events(&self) -> EventMask {
        Event::CreateContainer.into()
    }
    async fn create_container(&self, _: &Context, pod: Pod, _: Container) -> Result<CreateReply, Refusal> {
        let mut adjustment = Adjustment::default();
        adjustment.env.set(EnvVar::new("POD_NAME", pod.name))?;
        Ok(adjustment.into())
    }
}

fn main() -> std::process::ExitCode {
    nri_plugin::cli::Program::new("pod-name", "tells containers the name of their pod").main(|_| Ok(PodName))
}

#[tokio::test]
async fn a_container_knows_the_name_of_its_pod() {
    let (node, pod) = (nri_plugin::testing::Node::new(), nri_plugin::testing::pod("web"));
    node.join("10-pod-name", PodName).await.unwrap();
    let created = node.create(&pod, &nri_plugin::testing::container("app", &pod)).await.unwrap();
    assert_eq!(created.adjustment.env.get("POD_NAME").unwrap().value().unwrap().value, "web");
}
