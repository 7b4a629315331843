//! Runtimes that stop and start again.

use nri_proto::Event;
use serde_json::json;

use super::{NAME, is_in, join, storyteller, under_every_runtime};
use crate::sdk::host::Host;
use crate::stubs::heard;

under_every_runtime! {
    a_plugin_comes_back_to_a_runtime_that_was_stopped,
    a_plugin_comes_back_to_a_runtime_that_was_killed,
    a_plugin_that_a_runtime_gave_up_comes_back,
}

async fn a_plugin_comes_back_to_a_runtime_that_was_stopped(host: Host) {
    let mut runtime = host.start(&["-containers", "1"]).await;
    let mut plugin = join(&host, &mut runtime, &[]).await;
    for _ in 0..2 {
        runtime.stop().await;
        runtime = host.start(&["-containers", "1"]).await;
        runtime.joined(NAME).await;
        is_in(host.version, &mut plugin).await;
        runtime.tell(Event::StartContainer).await.unwrap();
        assert_eq!(plugin.wrote().await.unwrap(), heard(Event::StartContainer));
    }
    runtime.stop().await;
}

async fn a_plugin_comes_back_to_a_runtime_that_was_killed(host: Host) {
    let mut runtime = host.start(&["-containers", "2"]).await;
    let mut plugin = join(&host, &mut runtime, &[]).await;
    for _ in 0..2 {
        runtime.kill().await;
        runtime = host.start(&["-containers", "2"]).await;
        runtime.joined(NAME).await;
        is_in(host.version, &mut plugin).await;
        plugin.obey("update c1").await;
        assert_eq!(plugin.wrote().await.unwrap(), json!({"updated": ["c1"], "failed": []}));
    }
    runtime.stop().await;
}

/// Go's runtimes close a plugin that answers too late.
async fn a_plugin_that_a_runtime_gave_up_comes_back(host: Host) {
    let mut runtime = host.start(&["-request-timeout", "300ms"]).await;
    let mut plugin = storyteller(&host, &["--sleep", "StartContainer"]);
    runtime.joined(NAME).await;
    is_in(host.version, &mut plugin).await;
    runtime.tell(Event::StartContainer).await.unwrap();
    assert_eq!(plugin.wrote().await.unwrap(), heard(Event::StartContainer));
    runtime.joined(NAME).await;
    is_in(host.version, &mut plugin).await;
    runtime.tell(Event::StopContainer).await.unwrap();
    assert_eq!(plugin.wrote().await.unwrap(), heard(Event::StopContainer));
    runtime.stop().await;
}
