use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use tonic::Code;
use tonic::body::Body;
use tonic::server::NamedService;

use super::*;
use crate::server::grpc::Services;
use crate::testing::{Daemon, FakeContainerd, GrpcClient};
use crate::{Call, Configuration, Interceptor, Next, Registry};

const NATIVE: &str = "native.v1.Native";

/// A native gRPC service, like a service that `tonic` generates.
#[derive(Clone)]
struct Native;

impl NamedService for Native {
    const NAME: &'static str = NATIVE;
}

impl tower_service::Service<http::Request<Body>> for Native {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let body = match request.uri().path() {
            "/native.v1.Native/Panic" => panic!("not here"),
            "/native.v1.Native/PanicLater" => Body::new(Parts(vec![Part::Panic, Part::Message])),
            "/native.v1.Native/Hang" => Body::new(Parts(vec![Part::Hang, Part::Message])),
            path => return ready(Ok(tonic::Status::unimplemented(path).into_http())),
        };
        ready(Ok(http::Response::builder().header("content-type", "application/grpc").body(body).unwrap()))
    }
}

/// The steps of a response stream, in reverse order.
struct Parts(Vec<Part>);

enum Part {
    Message,
    Panic,
    Hang,
}

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        match self.0.last() {
            Some(Part::Message) => {
                self.0.pop();
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 5])))))
            }
            Some(Part::Panic) => panic!("not now"),
            Some(Part::Hang) => Poll::Pending,
            None => Poll::Ready(None),
        }
    }
}

fn native() -> Plugin {
    Plugin::at(PROBLEM).init(|_, ()| async { Ok(Provided::new(Arc::new(())).grpc(Services::new().service(Native))) })
}

fn with(plugin: Plugin) -> Arc<Shim> {
    Arc::new(shim(&Arc::new(Semaphore::new(0))).plugin(plugin))
}

async fn refusal(client: &GrpcClient, service: &str, method: &str) -> (Code, String) {
    let refusal = client.call::<_, api::Empty>(service, method, &api::Empty::new()).await.unwrap_err();
    (refusal.code(), refusal.message().to_owned())
}

fn empty_request(path: &str) -> http::Request<Body> {
    let request = http::Request::post(format!("http://shim{path}")).header("content-type", "application/grpc");
    request.header("te", "trailers").body(Body::new(Parts(vec![Part::Message]))).unwrap()
}

/// Reads a body to its end, and returns its length and its final status.
async fn read(response: http::Response<hyper::body::Incoming>) -> (usize, tonic::Status) {
    let mut body = response.into_body();
    let mut length = 0;
    loop {
        let frame = std::future::poll_fn(|context| http_body::Body::poll_frame(Pin::new(&mut body), context)).await;
        match frame.unwrap().unwrap().into_data() {
            Ok(data) => length += data.len(),
            Err(frame) => {
                let trailers = frame.into_trailers().ok().unwrap();
                return (length, tonic::Status::from_header_map(&trailers).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn one_socket_speaks_ttrpc_and_grpc_under_every_daemon() {
    for daemon in Daemon::ALL {
        let containerd = FakeContainerd::new(daemon).unwrap();
        let running = containerd.start(&simple(), "c1").await.unwrap();
        let client = GrpcClient::over_unix(&running.address).await.unwrap();
        let request = api::ConnectRequest { id: "c1".to_owned(), ..Default::default() };
        for service in [crate::server::task::V2, crate::server::task::V3] {
            let connected: api::ConnectResponse = client.call(service, "Connect", &request).await.unwrap();
            assert_eq!(connected.version, "c1");
        }
        let connected: api::ConnectResponse = running.task("Connect", &request).await.unwrap();
        assert_eq!(connected.version, "c1");
        // Shutdown is called over gRPC, and answered.
        let _: api::Empty =
            client.call(crate::server::task::V3, "Shutdown", &api::ShutdownRequest::new()).await.unwrap();
        running.ended().await.unwrap();
    }
}

#[tokio::test]
async fn over_grpc_too_what_is_not_there_is_unimplemented_and_a_panic_is_internal() {
    let containerd = FakeContainerd::new(Daemon::V2_4).unwrap();
    let running = containerd.start(&with(native()), "c1").await.unwrap();
    let client = GrpcClient::over_unix(&running.address).await.unwrap();
    for (service, method) in [
        (crate::server::task::V3, "Resume"),
        (crate::server::task::V3, "NoSuchMethod"),
        ("containerd.runtime.sandbox.v1.Sandbox", "CreateSandbox"),
        ("no.such.Service", "Method"),
        (NATIVE, "NoSuchMethod"),
    ] {
        assert_eq!(refusal(&client, service, method).await.0, Code::Unimplemented, "{service}/{method}");
    }
    let panicked = refusal(&client, crate::server::task::V3, "Pause").await;
    assert_eq!(panicked, (Code::Internal, "/containerd.task.v3.Task/Pause panicked: not today".to_owned()));
    let panicked = refusal(&client, NATIVE, "Panic").await;
    assert_eq!(panicked, (Code::Internal, "/native.v1.Native/Panic panicked: not here".to_owned()));
    let (length, status) = read(client.send(empty_request("/native.v1.Native/PanicLater")).await.unwrap()).await;
    assert_eq!((length, status.code()), (5, Code::Internal), "{status}");
    running.terminate().await.unwrap();
}

#[tokio::test]
async fn over_grpc_too_a_create_comes_to_its_end_though_its_caller_goes_away() {
    let created = Arc::new(Semaphore::new(0));
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let running = containerd.start(&Arc::new(shim(&created)), "c1").await.unwrap();
    let client = GrpcClient::over_unix(&running.address).await.unwrap();
    let request = api::CreateTaskRequest::new();
    let call = client.call::<_, api::CreateTaskResponse>(crate::server::task::V3, "Create", &request);
    assert!(tokio::time::timeout(Duration::from_millis(10), call).await.is_err(), "it takes longer");
    drop(client);
    let done = tokio::time::timeout(Duration::from_secs(10), created.acquire()).await;
    done.unwrap().unwrap().forget();
    running.terminate().await.unwrap();
}

#[tokio::test]
async fn a_message_or_a_head_that_is_too_long_is_refused_and_so_is_what_is_not_grpc() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let running = containerd.start(&simple(), "c1").await.unwrap();
    let client = GrpcClient::over_unix(&running.address).await.unwrap();
    let connect = async |n| {
        let request = api::ConnectRequest { id: "x".repeat(n), ..Default::default() };
        client.call::<_, api::ConnectResponse>(crate::server::task::V3, "Connect", &request).await
    };
    assert_eq!(connect(4 << 20).await.unwrap_err().code(), Code::OutOfRange);
    assert_eq!(connect(1 << 20).await.unwrap().version.len(), 1 << 20);
    let mut long = empty_request("/containerd.task.v3.Task/Connect");
    long.headers_mut().insert("x-long", "x".repeat(20 << 10).parse().unwrap());
    assert!(client.send(long).await.map_or(true, |response| response.status() == 431));
    let client = GrpcClient::over_unix(&running.address).await.unwrap();
    let mut plain = empty_request("/containerd.task.v3.Task/Connect");
    plain.headers_mut().remove("content-type");
    assert_eq!(client.send(plain).await.unwrap().status(), 415);
    running.terminate().await.unwrap();
}

#[tokio::test]
async fn a_call_over_grpc_ends_when_the_time_of_its_caller_does() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let running = containerd.start(&simple(), "c1").await.unwrap();
    let client = GrpcClient::over_unix(&running.address).await.unwrap();
    let (limit, request) = (Duration::from_millis(20), api::WaitRequest::new());
    let waited = client.call_within::<_, api::WaitResponse>(limit, crate::server::task::V3, "Wait", &request).await;
    assert_eq!(waited.unwrap_err().code(), Code::DeadlineExceeded);
    running.terminate().await.unwrap();
}

#[tokio::test]
async fn an_end_does_not_wait_for_a_call_or_a_stream_over_grpc_that_never_ends() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let running = containerd.start(&with(native()), "c1").await.unwrap();
    let client = GrpcClient::over_unix(&running.address).await.unwrap();
    let request = api::WaitRequest::new();
    let waiting = client.call::<_, api::WaitResponse>(crate::server::task::V3, "Wait", &request);
    let streaming = async { read(client.send(empty_request("/native.v1.Native/Hang")).await.unwrap()).await };
    let ending = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        running.signal(ControlSignal::End).await;
    };
    let all = async { tokio::join!(waiting, streaming, ending) };
    let (waited, (length, status), ()) = tokio::time::timeout(Duration::from_secs(10), all).await.unwrap();
    assert_eq!(waited.unwrap_err().code(), Code::Unavailable);
    assert_eq!((length, status.code()), (5, Code::Unavailable));
    running.ended().await.unwrap();
}

#[tokio::test]
async fn who_waits_over_grpc_hears_how_it_ended_when_the_shim_is_told_to_end() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let ended = Arc::default();
    let running = containerd.start(&killing(&ended), "c1").await.unwrap();
    let client = GrpcClient::over_unix(&running.address).await.unwrap();
    let request = api::WaitRequest::new();
    let waiting = client.call::<_, api::WaitResponse>(crate::server::task::V3, "Wait", &request);
    let ending = async {
        while ended.receiver_count() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        running.signal(ControlSignal::End).await;
    };
    let (answer, ()) = tokio::join!(waiting, ending);
    assert_eq!(answer.unwrap().exit_status, 137);
    running.ended().await.unwrap();
}

/// An interceptor that refuses every call.
struct Closed;

#[async_trait]
impl Interceptor for Closed {
    async fn call(&self, call: Call, _: Next) -> ttrpc::Result<ttrpc::Response> {
        let who = call.context.metadata.get("who").cloned().unwrap_or_default().concat();
        Err(ttrpc::Error::RpcStatus(ttrpc::get_status(ttrpc::Code::PERMISSION_DENIED, who)))
    }
}

#[tokio::test]
async fn an_interceptor_stands_before_ttrpc_methods_over_grpc_and_sees_what_the_caller_says() {
    let closed =
        Plugin::at(PROBLEM).init(|_, ()| async { Ok(Provided::new(Arc::new(())).interceptor(Arc::new(Closed))) });
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let running = containerd.start(&with(closed), "c1").await.unwrap();
    let client = GrpcClient::over_unix(&running.address).await.unwrap();
    let mut request = empty_request("/containerd.task.v3.Task/Connect");
    request.headers_mut().insert("who", "me".parse().unwrap());
    let response = client.send(request).await.unwrap();
    let status = tonic::Status::from_header_map(response.headers()).unwrap();
    assert_eq!((status.code(), status.message()), (Code::PermissionDenied, "me"));
    running.terminate().await.unwrap();
}

/// Returns a plugin that serves over TCP on an address, and sends the address that it got.
fn over_tcp(at: SocketAddr, from_anywhere: bool) -> (Plugin, mpsc::UnboundedReceiver<SocketAddr>) {
    let (tell, told) = mpsc::unbounded_channel();
    let plugin = Plugin::at(PROBLEM).init(move |_, ()| {
        let tell = tell.clone();
        async move {
            let listener = TcpListener::bind(at)?;
            let _ = tell.send(listener.local_addr()?);
            let (provided, services) = (Provided::new(Arc::new(())), Services::new().service(Native));
            Ok(if from_anywhere {
                provided.tcp_from_anywhere(listener, services)
            } else {
                provided.tcp(listener, services)
            })
        }
    });
    (plugin, told)
}

#[tokio::test]
async fn grpc_over_tcp_has_what_its_plugin_put_there_and_nothing_else() {
    let (plugin, mut told) = over_tcp((Ipv4Addr::LOCALHOST, 0).into(), false);
    let containerd = FakeContainerd::new(Daemon::V2_4).unwrap();
    let running = containerd.start(&with(plugin), "c1").await.unwrap();
    let address = told.recv().await.unwrap();
    let client = GrpcClient::over_tcp(address).await.unwrap();
    assert_eq!(refusal(&client, NATIVE, "Panic").await.0, Code::Internal);
    assert_eq!(refusal(&client, crate::server::task::V3, "Connect").await.0, Code::Unimplemented);
    let on_socket = GrpcClient::over_unix(&running.address).await.unwrap();
    assert_eq!(refusal(&on_socket, NATIVE, "Panic").await.0, Code::Unimplemented);
    running.terminate().await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "it goes with the shim");
}

#[tokio::test]
async fn grpc_over_tcp_is_for_the_loopback_unless_the_plugin_says_otherwise() {
    let containerd = FakeContainerd::new(Daemon::V2_4).unwrap();
    let (plugin, _told) = over_tcp((Ipv4Addr::UNSPECIFIED, 0).into(), false);
    let error = containerd.start(&with(plugin), "c1").await.err().unwrap();
    assert!(why(&error).contains("could not load plugin k.problem: listener address 0.0.0.0:"), "{}", why(&error));
    let (plugin, _told) = over_tcp((Ipv4Addr::UNSPECIFIED, 0).into(), true);
    containerd.start(&with(plugin), "c2").await.unwrap().terminate().await.unwrap();
}

#[tokio::test]
async fn two_plugins_with_one_grpc_service_are_an_error_that_names_both() {
    let other = Plugin::at(Slot::<()>::new("k", "other"))
        .init(|_, ()| async { Ok(Provided::new(Arc::new(())).grpc(Services::new().service(Native))) });
    let shim = Arc::new(Shim::new("two", "0").without_task().plugin(native()).plugin(other));
    let containerd = FakeContainerd::new(Daemon::V2_4).unwrap();
    let error = containerd.start(&shim, "c1").await.err().unwrap();
    assert!(why(&error).ends_with("service native.v1.Native is already served by k.problem"), "{}", why(&error));
}

#[tokio::test]
async fn a_plugin_whose_grpc_services_are_refused_serves_nothing_at_all() {
    let plugin = Plugin::at(PROBLEM).best_effort().init(|_, ()| async {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let service = ttrpc::r#async::Service { methods: Default::default(), streams: Default::default() };
        let provided = Provided::new(Arc::new(())).service([("x.Y".to_owned(), service)].into());
        Ok(provided.grpc(Services::new().service(Native)).tcp(listener, Services::new()))
    });
    let loaded = Registry::new().with(plugin).load(&Configuration::default(), Arc::default()).await.unwrap();
    assert!(loaded.outcome(&PROBLEM.uri()).unwrap().to_string().contains("0.0.0.0"));
    assert!(loaded.serves_nothing());
}

#[tokio::test]
async fn a_shim_may_serve_over_grpc_alone() {
    let shim = Arc::new(Shim::new("alone", "0").without_task().plugin(native()));
    let containerd = FakeContainerd::new(Daemon::V2_4).unwrap();
    let running = containerd.start(&shim, "c1").await.unwrap();
    let client = GrpcClient::over_unix(&running.address).await.unwrap();
    assert_eq!(refusal(&client, NATIVE, "Panic").await.0, Code::Internal);
    running.terminate().await.unwrap();
}

#[tokio::test]
async fn a_task_that_is_served_over_grpc_counts_as_one() {
    let task = Plugin::at(PROBLEM).asks((PUBLISHER, SHUTDOWN)).init(|_, (publisher, shutdown)| async move {
        let (created, ended) = (Arc::new(Semaphore::new(0)), Arc::default());
        let task: Arc<dyn Task + Send + Sync> = Arc::new(Told { publisher, shutdown, created, ended });
        Ok(Provided::new(Arc::new(())).grpc(Services::new().ttrpc(crate::server::task::services(task))))
    });
    let containerd = FakeContainerd::new(Daemon::V2_4).unwrap();
    let shim = Arc::new(Shim::new("over-grpc", "0").plugin(task));
    containerd.start(&shim, "c1").await.unwrap().terminate().await.unwrap();
}
