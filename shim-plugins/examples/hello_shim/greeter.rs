//! The ttrpc service of this example: `hello.v1.Hello` greets its caller.
//!
//! Most services are generated from a `.proto` file, and a plugin contributes what the generated
//! `create_…` function returns. This one has a single method, and is written by hand.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use shim_plugins::protobuf::Message as _;
use shim_plugins::protobuf::well_known_types::wrappers::StringValue;
use shim_plugins::ttrpc::r#async::{MethodHandler, Service, TtrpcContext};
use shim_plugins::ttrpc::{self, Code, Request, Response};
use shim_plugins::{Plugin, Provided, Slot};

/// The slot of the greeter.
pub(crate) const GREETER: Slot<Greeter> = Slot::new("io.containerd.ttrpc.v1", "hello");

/// Makes greetings, with a configured word.
pub(crate) struct Greeter {
    greeting: String,
}

/// The configuration `[plugins."io.containerd.ttrpc.v1.hello"]`.
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

/// Returns the plugin that serves `hello.v1.Hello`.
pub(crate) fn plugin() -> Plugin {
    Plugin::at(GREETER).configured::<Config>().init(|init, ()| async move {
        let greeter = Arc::new(Greeter { greeting: init.config.greeting });
        Ok(Provided::new(Arc::clone(&greeter)).service(create_hello(greeter)))
    })
}

/// Returns the service, as generated code would.
pub(crate) fn create_hello(greeter: Arc<Greeter>) -> HashMap<String, Service> {
    let greet: Box<dyn MethodHandler + Send + Sync> = Box::new(Greet(greeter));
    let service = Service { methods: HashMap::from([("Greet".to_owned(), greet)]), streams: HashMap::new() };
    HashMap::from([("hello.v1.Hello".to_owned(), service)])
}

impl Greeter {
    /// Returns a greeting for a name.
    pub(crate) fn greet(&self, name: &str) -> String {
        format!("{}, {name}", self.greeting)
    }
}

/// The method `Greet`.
struct Greet(Arc<Greeter>);

#[async_trait]
impl MethodHandler for Greet {
    async fn handler(&self, _: TtrpcContext, request: Request) -> ttrpc::Result<Response> {
        let name = StringValue::parse_from_bytes(&request.payload)
            .map_err(|error| ttrpc::Error::RpcStatus(ttrpc::get_status(Code::INVALID_ARGUMENT, error)))?;
        let mut answer = StringValue::new();
        answer.value = self.0.greet(&name.value);
        let mut response = Response::new();
        response.set_status(ttrpc::get_status(Code::OK, ""));
        response.payload = answer.write_to_bytes().map_err(|error| ttrpc::Error::Others(error.to_string()))?;
        Ok(response)
    }
}
