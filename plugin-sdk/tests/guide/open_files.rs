use std::process::ExitCode;

use nri_plugin::cli::Program;
use nri_plugin::{
    Adjustment, Container, Context, CreateReply, Event, EventMask, Plugin, Pod, Refusal, Rlimit, async_trait,
};

/// Sets how many files containers may open, as their pod's annotation says.
struct OpenFiles;

#[async_trait]
impl Plugin for OpenFiles {
    fn events(&self) -> EventMask {
        Event::CreateContainer.into()
    }

    async fn create_container(&self, _: &Context, pod: Pod, _: Container) -> Result<CreateReply, Refusal> {
        let Some(text) = pod.annotation("example.org/open-files") else {
            return Ok(CreateReply::default());
        };
        let limit = text.parse().map_err(|_| Refusal::new(format_args!("{text:?} is no number of files")))?;
        let mut adjustment = Adjustment::default();
        adjustment.rlimits.push(Rlimit::new("RLIMIT_NOFILE", limit, limit));
        Ok(adjustment.into())
    }
}

fn main() -> ExitCode {
    Program::new("open-files", "sets how many files containers may open").main(|_| Ok(OpenFiles))
}

#[cfg(test)]
mod tests {
    use nri_plugin::chain;
    use nri_plugin::testing::{Node, container, pod};

    use super::OpenFiles;

    #[tokio::test]
    async fn the_annotation_is_the_limit() {
        let node = Node::new();
        node.join("10-open-files", OpenFiles).await.unwrap();

        let mut pod = pod("web");
        pod.annotations.insert("example.org/open-files".to_owned(), "4096".to_owned());
        let created = node.create(&pod, &container("app", &pod)).await.unwrap();

        assert_eq!(created.adjustment.rlimits[0].soft, 4096);
        assert!(node.changes("app")[0].starts_with("10-open-files set Rlimits RLIMIT_NOFILE: "));
    }

    #[tokio::test]
    async fn what_is_no_number_is_refused() {
        let node = Node::new();
        node.join("10-open-files", OpenFiles).await.unwrap();

        let mut pod = pod("web");
        pod.annotations.insert("example.org/open-files".to_owned(), "many".to_owned());
        let refused = node.create(&pod, &container("app", &pod)).await.unwrap_err();

        assert!(chain(&refused).ends_with("\"many\" is no number of files"));
    }
}
