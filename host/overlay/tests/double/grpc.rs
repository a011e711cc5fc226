//! tonic served on the listener: all four kinds of RPC, the dialler's identity in the extensions, health.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::{Stream, StreamExt as _};
use http::uri::PathAndQuery;
use runner_overlay::Dialler;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::double::{Double, LIMIT, bind};

#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

fn text(text: impl Into<String>) -> Text {
    Text { text: text.into() }
}

/// A service without generated code: each path is a kind of RPC.
#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "overlay.test.Echo";
}

impl tower::Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<Text, Text>::default());
            Ok(match request.uri().path() {
                "/overlay.test.Echo/WhoAmI" => grpc.unary(tower::service_fn(who_am_i), request).await,
                "/overlay.test.Echo/Count" => grpc.server_streaming(tower::service_fn(count), request).await,
                "/overlay.test.Echo/Join" => grpc.client_streaming(tower::service_fn(join), request).await,
                "/overlay.test.Echo/Chat" => grpc.streaming(tower::service_fn(chat), request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

async fn who_am_i(request: Request<Text>) -> Result<Response<Text>, Status> {
    let dialler = request
        .extensions()
        .get::<Arc<Dialler>>()
        .ok_or_else(|| Status::internal("no dialler"))?;
    let name = dialler.identity_name.clone().unwrap_or_default();
    let id = dialler.identity_id.clone().unwrap_or_default();
    Ok(Response::new(text(format!(
        "{id} {name} {} {}",
        dialler.encrypted,
        request.get_ref().text
    ))))
}

type Texts = std::pin::Pin<Box<dyn Stream<Item = Result<Text, Status>> + Send>>;

async fn count(request: Request<Text>) -> Result<Response<Texts>, Status> {
    let to: u32 = request
        .get_ref()
        .text
        .parse()
        .map_err(|_| Status::invalid_argument("expected a number"))?;
    Ok(Response::new(Box::pin(futures::stream::iter(
        (0..to).map(|i| Ok(text(i.to_string()))),
    ))))
}

async fn join(request: Request<Streaming<Text>>) -> Result<Response<Text>, Status> {
    let mut all = String::new();
    let mut stream = request.into_inner();
    while let Some(part) = stream.message().await? {
        all.push_str(&part.text);
    }
    Ok(Response::new(text(all)))
}

async fn chat(request: Request<Streaming<Text>>) -> Result<Response<Texts>, Status> {
    Ok(Response::new(Box::pin(request.into_inner())))
}

async fn client(channel: &Channel) -> tonic::client::Grpc<Channel> {
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    grpc
}

fn path(method: &str) -> PathAndQuery {
    format!("/overlay.test.Echo/{method}").parse().unwrap()
}

fn codec() -> ProstCodec<Text, Text> {
    ProstCodec::default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_rpc_passes_and_knows_its_dialler_s_832() {
    let double = Double::start(&["-routers", "2"]).await;
    let overlay = double.connect().await;
    let listener = bind(&overlay).await;
    let monitor = listener.monitor();
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter
        .set_service_status("", tonic_health::ServingStatus::Serving)
        .await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(
        Server::builder()
            .add_service(health)
            .add_service(Echo)
            .serve_with_incoming_shutdown(listener, async {
                let _ = stopped.await;
            }),
    );

    let forward = double.forward().await;
    let channel = Endpoint::from_shared(format!("http://{}", forward.address))
        .unwrap()
        .connect()
        .await
        .unwrap();

    let who = client(&channel)
        .await
        .unary(Request::new(text("hello")), path("WhoAmI"), codec())
        .await
        .unwrap();
    assert_eq!(who.into_inner().text, "id-client client true hello");

    let many = client(&channel)
        .await
        .server_streaming(Request::new(text("5000")), path("Count"), codec())
        .await;
    let counted: Vec<_> = many.unwrap().into_inner().map(|m| m.unwrap().text).collect().await;
    assert!(counted.iter().enumerate().all(|(i, text)| *text == i.to_string()) && counted.len() == 5000);

    let parts: Vec<_> = (0..100)
        .map(|i| text(format!("{i:05}-{}", "x".repeat(10_000))))
        .collect();
    let expected: String = parts.iter().map(|part| part.text.as_str()).collect();
    let request = Request::new(futures::stream::iter(parts));
    let joined = client(&channel)
        .await
        .client_streaming(request, path("Join"), codec())
        .await
        .unwrap();
    assert_eq!(joined.into_inner().text.len(), expected.len());

    let (say, said) = tokio::sync::mpsc::channel(1);
    let request = Request::new(ReceiverStream::new(said));
    let mut heard = client(&channel)
        .await
        .streaming(request, path("Chat"), codec())
        .await
        .unwrap()
        .into_inner();
    for i in 0..50 {
        say.send(text(format!("turn {i}"))).await.unwrap();
        assert_eq!(heard.message().await.unwrap().unwrap().text, format!("turn {i}"));
    }
    drop(say);
    assert_eq!(heard.message().await.unwrap(), None);

    let calls = futures::future::join_all((0..200).map(|i| {
        let channel = channel.clone();
        async move {
            let request = Request::new(text(i.to_string()));
            client(&channel)
                .await
                .unary(request, path("WhoAmI"), codec())
                .await
                .unwrap()
                .into_inner()
                .text
        }
    }));
    for (i, answer) in calls.await.into_iter().enumerate() {
        assert_eq!(answer, format!("id-client client true {i}"));
    }
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
    let status = health
        .check(tonic_health::pb::HealthCheckRequest::default())
        .await
        .unwrap();
    assert_eq!(status.into_inner().status, 1);
    assert!(
        client(&channel)
            .await
            .unary(Request::new(text("")), path("Nothing"), codec())
            .await
            .is_err()
    );

    // a graceful stop: the open call ends well, then the server and the overlay do
    let (say, said) = tokio::sync::mpsc::channel(1);
    let request = Request::new(ReceiverStream::new(said));
    let mut heard = client(&channel)
        .await
        .streaming(request, path("Chat"), codec())
        .await
        .unwrap()
        .into_inner();
    stop.send(()).unwrap();
    say.send(text("still here")).await.unwrap();
    assert_eq!(heard.message().await.unwrap().unwrap().text, "still here");
    drop((say, heard, health, channel));
    tokio::time::timeout(LIMIT, server).await.unwrap().unwrap().unwrap();
    assert!(overlay.close(LIMIT).await);
    assert_eq!(monitor.status().open, 0);
}
