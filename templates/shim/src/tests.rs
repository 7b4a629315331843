//! The shim under a containerd that is part of the test.

use std::error::Error;
use std::fs;
use std::sync::Arc;

use shim_plugins::task::api;
use shim_plugins::testing::{Daemon, FakeContainerd};

use crate::greeter::api::greeter::{GreetRequest, GreetResponse};
use crate::shim;

#[tokio::test]
async fn the_service_greets_its_caller() -> Result<(), Box<dyn Error>> {
    let containerd = FakeContainerd::new(Daemon::ALL[0])?;
    let running = containerd.start(&Arc::new(shim()), "c1").await?;
    let request = GreetRequest { name: "you".to_owned(), ..GreetRequest::default() };
    let response: GreetResponse = running.call("template.v1.Greeter", "Greet", &request).await?;
    assert_eq!(response.greeting, "hello, you");
    running.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn a_container_runs_and_its_exit_code_is_reported_under_every_containerd() -> Result<(), Box<dyn Error>> {
    let shim = Arc::new(shim());
    for daemon in Daemon::ALL {
        let containerd = FakeContainerd::new(daemon)?;
        let running = containerd.start(&shim, "c1").await?;
        let bundle = containerd.bundle("c1");
        fs::write(bundle.join("config.json"), r#"{ "process": { "args": ["/bin/sh", "-c", "exit 7"] } }"#)?;

        let bundle = bundle.display().to_string();
        let create = api::CreateTaskRequest { id: "c1".to_owned(), bundle, ..Default::default() };
        let _: api::CreateTaskResponse = running.task("Create", &create).await?;
        let start = api::StartRequest { id: "c1".to_owned(), ..Default::default() };
        let _: api::StartResponse = running.task("Start", &start).await?;
        let wait = api::WaitRequest { id: "c1".to_owned(), ..Default::default() };
        let ended: api::WaitResponse = running.task("Wait", &wait).await?;
        assert_eq!(ended.exit_status, 7);
        running.terminate().await?;
    }
    Ok(())
}
