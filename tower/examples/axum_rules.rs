//! Limits by rules in a file, which is followed while the service runs: `cargo run --example axum_rules -p lockage-tower
//! --features rules`, and in another terminal `curl -i -H "x-user: ann" -H "x-tier: pro" http://127.0.0.1:3000/search`.
//!
//! Its third route, `POST /v1/chat/completions`, streams the answers of a model, which are charged by their tokens. The
//! model is a stand-in that answers as many words as it is asked for, `-d '{"max_tokens":100,"words":5}'`.
//!
//! From its environment: `PORT`, `RULES` (the file, `tower/examples/rules.toml`), `REDIS_URL` for limits that all
//! processes share (they are in memory without), `HOLD` of an estimate in seconds, and `METRICS`, an address such as
//! `127.0.0.1:9000` for Prometheus.

#![allow(clippy::print_stdout, missing_docs)]

use std::env;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::routing::{get, post};
use lockage::observer::ObservedStore;
use lockage::runtime::Tokio;
use lockage::{AnyStore, RetryStore};
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_rules::{LiveRules, ReloadEvent, RuleLimiter};
use lockage_telemetry::{BUCKETS, Metrics};
use lockage_tower::{Commit, Estimate, Estimated, RateLimit, Unmeasured, Usage};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tower::util::MapRequestLayer;

mod model;

use model::Gateway;

/// The caller, as the service has authenticated it.
#[derive(Clone)]
struct Caller {
    user: String,
    organisation: String,
    tier: String,
}

#[tokio::main]
pub async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let hold = Duration::from_secs(env::var("HOLD").map_or(Ok(60), |hold| hold.parse())?);
    if let Ok(address) = env::var("METRICS") {
        let mut exporter = PrometheusBuilder::new().with_recommended_naming(true);
        for (name, buckets) in BUCKETS {
            exporter = exporter.set_buckets_for_metric(Matcher::Full(name.into()), buckets)?;
        }
        exporter.with_http_listener(address.parse::<SocketAddr>()?).install()?;
    }
    let metrics = Metrics::new();
    let file = env::var("RULES").unwrap_or("tower/examples/rules.toml".into());
    let rules =
        LiveRules::open(file)?.with_observer(metrics.clone()).on_reload(|event| match event {
            ReloadEvent::Replaced(rules) => println!("{} rules are in force", rules.len()),
            ReloadEvent::Failed(error) => println!("the old rules stay:\n{error}"),
            _ => println!("the file is the one in force again"),
        });
    let rules = Arc::new(rules);
    let watched = Arc::clone(&rules);
    tokio::spawn(async move { watched.watch(Tokio, Duration::from_millis(50)).await });

    let store = match env::var("REDIS_URL") {
        Ok(url) => AnyStore::new(RedisStore::open(&url)?),
        Err(_) => AnyStore::new(MemoryStore::new()),
    };
    let store = ObservedStore::new(store, "limits", metrics.clone());
    let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
    let limiter = RuleLimiter::new(store, MemoryStore::new()).with_in_flight(1000);
    let limiter = limiter.with_observer(metrics);
    // An answer that breaks off costs the words that came.
    let usage = Usage::openai().if_unmeasured(Unmeasured::Events(1));
    let limit = RateLimit::rules(rules, limiter)
        .values(|parts, mut request| {
            if let Some(estimated) = parts.extensions.get::<Estimated>() {
                request = request.cost("tokens", estimated.cost(1_000));
            }
            match parts.extensions.get::<Caller>() {
                Some(Caller { user, organisation, tier }) => {
                    request.user(user).tenant(organisation).tier(tier)
                }
                None => request,
            }
        })
        .reserve(Tokio, hold, "tokens", Commit::by_usage(usage))
        .build()?;
    let chat = Router::new()
        .route("/v1/chat/completions", post(model::forward))
        .layer(limit.clone())
        .layer(Estimate::llm())
        .with_state(Gateway::open().await?);
    let app = Router::new()
        .route("/search", get(async || "found\n"))
        .route("/exports/{id}", get(async || "exported\n"))
        .layer(limit)
        .merge(chat)
        .layer(MapRequestLayer::new(authenticate));

    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("http://{}/ by rules", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// Believes the client's fields: put the service's own authentication in its place.
fn authenticate(mut request: Request) -> Request {
    let text = |headers: &HeaderMap, name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let headers = request.headers();
    let caller = Caller {
        user: text(headers, "x-user"),
        organisation: text(headers, "x-organisation"),
        tier: text(headers, "x-tier"),
    };
    request.extensions_mut().insert(caller);
    request
}
