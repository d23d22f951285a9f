//! Requests and tokens per key in front of a language model, whose answers are streamed:
//! `cargo run --example axum_llm -p lockage-tower`, and in another terminal
//!
//! ```sh
//! curl -iN http://127.0.0.1:3000/v1/chat/completions -H 'x-api-key: me' -d '{"max_tokens":100,"words":5}'
//! ```
//!
//! The model is a stand-in that answers as many words as it is asked for. From its environment: `PORT`, `LIMIT`, `HOLD` in
//! seconds, and `REDIS_URL` for a limit that all processes share; it is in memory without.

#![allow(clippy::print_stdout, missing_docs)]

use std::env;
use std::error::Error;
use std::net::Ipv4Addr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::post};
use futures_util::stream;
use http::StatusCode;
use http::request::Parts;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use lockage::runtime::Tokio;
use lockage::{AnyStore, Limiter, RetryStore};
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_tower::{Commit, Cost, Estimate, RateLimit, Unmeasured, Usage, header as key};
use tokio::net::TcpListener;

#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let limit = env::var("LIMIT")
        .unwrap_or("requests: fixed-window 60/min + tokens: token-bucket 90_000/min".into());
    let hold = Duration::from_secs(env::var("HOLD").map_or(Ok(60), |hold| hold.parse())?);
    let store = match env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
    let limiter = Limiter::new(store, limit.parse()?).with_prefix("llm")?;

    // The most that the answer may have, and the prompt; then the usage that the model states. Of a stream that breaks off
    // the words that came are charged.
    let usage = Usage::openai().if_unmeasured(Unmeasured::Events(1));
    let rate_limit = RateLimit::by(key("x-api-key")?, limiter)
        .cost_of("requests", |_: &Parts| 1)
        .cost_of("tokens", Cost::by_body(1_000))
        .reserve(Tokio, hold, Commit::by_usage(usage).for_part("tokens"))
        .build()?;

    let model = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let gateway = Gateway { client, model: model.local_addr()?.to_string() };
    tokio::spawn(async { axum::serve(model, Router::new().fallback(answer)).await });

    let app = Router::new()
        .route("/v1/chat/completions", post(forward))
        .layer(rate_limit)
        .layer(Estimate::llm())
        .with_state(gateway);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("http://{}/ under {limit}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

#[derive(Clone)]
struct Gateway {
    client: Client<HttpConnector, Body>,
    model: String,
}

/// Passes a request on to the model, and its answer back as it comes.
async fn forward(State(gateway): State<Gateway>, mut request: Request) -> Response {
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
