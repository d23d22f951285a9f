//! A stand-in for a language model, and the way to it.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;

#[derive(Clone)]
pub(crate) struct Gateway {
    client: Client<HttpConnector, Body>,
    model: String,
}

impl Gateway {
    /// Starts a model, and returns the way to it.
    pub(crate) async fn open() -> io::Result<Self> {
        let model = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let gateway = Gateway { client, model: model.local_addr()?.to_string() };
        tokio::spawn(async { axum::serve(model, Router::new().fallback(answer)).await });
        Ok(gateway)
    }
}

/// Passes a request on to the model, and its answer back as it comes.
pub(crate) async fn forward(State(gateway): State<Gateway>, mut request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let uri = Uri::builder().scheme("http").authority(gateway.model).path_and_query(path).build();
    let Ok(uri) = uri else { return StatusCode::BAD_GATEWAY.into_response() };
    *request.uri_mut() = uri;
    match gateway.client.request(request).await {
        Ok(response) => response.into_response(),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

/// The model: so many words, each after `pause_ms`, and then the usage, unless it hangs.
async fn answer(request: Request) -> Response {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let asked: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let number = |name: &str| asked[name].as_u64().unwrap_or(0);
    let (words, pause) = (number("words"), Duration::from_millis(number("pause_ms")));
    let hangs = asked["hangs"] == true;
    let events = stream::unfold(0, move |at| async move {
        tokio::time::sleep(pause).await;
        let event = match at {
            at if at < words => {
                "data: {\"choices\":[{\"delta\":{\"content\":\"word \"}}],\"usage\":null}\n\n"
                    .into()
            }
            _ if hangs => std::future::pending().await,
            at if at == words => format!(
                "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":{words}}}}}\n\n\
                 data: [DONE]\n\n"
            ),
            _ => return None,
        };
        Some((Ok::<_, std::convert::Infallible>(Frame::data(bytes::Bytes::from(event))), at + 1))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::new(StreamBody::new(events)))
        .into_response()
}
