//! The service that Go calls: `nri.test.Runtime`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use nri_proto::call::Services;
use tokio::sync::Semaphore;
use ttrpc::r#async::{MethodHandler, Service, TtrpcContext};
use ttrpc::{Code, Request, Response};

use crate::peer::{decode, encode};

/// The state that the handlers share with the test.
#[derive(Default)]
pub(crate) struct Runtime {
    /// How many handlers have begun.
    pub(crate) n_begun: AtomicUsize,
    /// How many handlers have ended.
    pub(crate) n_ended: AtomicUsize,
    /// Each permit ends one call of Hold.
    pub(crate) release: Release,
}

pub(crate) struct Release(pub(crate) Semaphore);

impl Default for Release {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl Runtime {
    /// Returns the services to serve.
    pub(crate) fn services(self: &Arc<Self>) -> Services {
        let names = ["Echo", "Zeros", "Deadline", "Hold", "Fail", "Panic"];
        let methods = names.map(|name| {
            let handler: Box<dyn MethodHandler + Send + Sync> = Box::new(Named { name, runtime: Arc::clone(self) });
            (name.to_owned(), handler)
        });
        let service = Service { methods: methods.into(), streams: HashMap::new() };
        HashMap::from([("nri.test.Runtime".to_owned(), service)])
    }

    /// Waits until this many handlers have begun.
    pub(crate) async fn has_begun(&self, n: usize) {
        while self.n_begun.load(Ordering::Acquire) < n {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    async fn handle(&self, method: &str, context: &TtrpcContext, value: Vec<u8>) -> ttrpc::Result<Vec<u8>> {
        let text = String::from_utf8_lossy(&value);
        match method {
            "Zeros" => Ok(vec![0; text.parse().unwrap()]),
            "Deadline" => Ok(context.timeout_nano.to_string().into()),
            "Hold" => {
                self.release.0.acquire().await.unwrap().forget();
                Ok(value)
            }
            "Fail" if text == "status" => {
                Err(ttrpc::Error::RpcStatus(ttrpc::get_status(Code::FAILED_PRECONDITION, "not yet")))
            }
            "Fail" => Err(ttrpc::Error::Others(text.into_owned())),
            "Panic" => panic!("{text}"),
            _ => Ok(value),
        }
    }
}

struct Named {
    name: &'static str,
    runtime: Arc<Runtime>,
}

#[async_trait]
impl MethodHandler for Named {
    async fn handler(&self, context: TtrpcContext, request: Request) -> ttrpc::Result<Response> {
        self.runtime.n_begun.fetch_add(1, Ordering::AcqRel);
        let value = decode(request.payload.into());
        let answer = self.runtime.handle(self.name, &context, value).await;
        self.runtime.n_ended.fetch_add(1, Ordering::AcqRel);
        let mut response = Response::new();
        response.payload = encode(answer?).into();
        Ok(response)
    }
}
