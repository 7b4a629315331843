//! The service `template.v1.Greeter`, which is generated from `proto/greeter.proto`.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use shim_plugins::ttrpc::{self, r#async::TtrpcContext};
use shim_plugins::{Plugin, Provided, Slot};

/// The generated code: `api::greeter` has the messages, `api::greeter_ttrpc` the service.
#[allow(clippy::all, missing_docs, reason = "the code is generated")]
pub(crate) mod api {
    include!(concat!(env!("OUT_DIR"), "/generated.rs"));
}

use api::greeter::{GreetRequest, GreetResponse};
use api::greeter_ttrpc::{Greeter as GreeterService, create_greeter};

/// The slot of the greeter. Other plugins ask for it by this name, and get an `Arc<Greeter>`.
pub(crate) const GREETER: Slot<Greeter> = Slot::new("io.containerd.ttrpc.v1", "greeter");

/// Makes greetings, with a configured word.
pub(crate) struct Greeter {
    greeting: String,
}

/// The configuration `[plugins."io.containerd.ttrpc.v1.greeter"]`.
#[derive(Deserialize)]
#[serde(default)]
struct Config {
    greeting: String,
}

impl Default for Config {
    fn default() -> Self {
        Self { greeting: "hello".to_owned() }
    }
}

/// Returns the plugin that serves `template.v1.Greeter`.
pub(crate) fn plugin() -> Plugin {
    Plugin::at(GREETER).configured::<Config>().init(|init, ()| async move {
        let greeter = Arc::new(Greeter { greeting: init.config.greeting });
        let service: Arc<dyn GreeterService + Send + Sync> = Arc::clone(&greeter) as _;
        Ok(Provided::new(greeter).service(create_greeter(service)))
    })
}

impl Greeter {
    /// Returns a greeting for a name.
    pub(crate) fn greet(&self, name: &str) -> String {
        format!("{}, {name}", self.greeting)
    }
}

#[async_trait]
impl GreeterService for Greeter {
    async fn greet(&self, _: &TtrpcContext, request: GreetRequest) -> ttrpc::Result<GreetResponse> {
        Ok(GreetResponse { greeting: Greeter::greet(self, &request.name), ..GreetResponse::default() })
    }
}
