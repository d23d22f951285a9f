//! Metrics for Prometheus: `cargo run --example prometheus -p lockage-telemetry`, and in another terminal
//! `curl http://127.0.0.1:9000/metrics`. `telemetry/grafana.json` is a board of these metrics. With `ADDRESS`
//! it listens elsewhere.

#![allow(clippy::print_stdout)]

use std::net::SocketAddr;
use std::time::Duration;

use lockage::observer::ObservedStore;
use lockage::runtime::Tokio;
use lockage::{Limiter, Locks, RetryStore};
use lockage_memory::MemoryStore;
use lockage_telemetry::{BUCKETS, Metrics};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

type Store = RetryStore<ObservedStore<MemoryStore>, Tokio>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::var("ADDRESS").unwrap_or("127.0.0.1:9000".into());
    serve_metrics(address.parse()?)?;
    let metrics = Metrics::new();
    let store = ObservedStore::new(MemoryStore::new(), "memory", metrics.clone());
    let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
    let limiter = Limiter::new(store.clone(), "token-bucket 20/s burst 10".parse()?)
        .with_prefix("login")?
        .with_observer("login", metrics.clone());
    let locks = Locks::new(store, Duration::from_secs(30))?.with_observer("invoices", metrics);
    println!("http://{address}/metrics");
    tokio::join!(requests(&limiter), jobs(&locks)).0
}

/// Serves the metrics of the global recorder.
fn serve_metrics(address: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
    let mut exporter = PrometheusBuilder::new().with_recommended_naming(true);
    for (name, buckets) in BUCKETS {
        exporter = exporter.set_buckets_for_metric(Matcher::Full(name.into()), buckets)?;
    }
    exporter.with_http_listener(address).install()?;
    Ok(())
}

/// One user within the limit, and one beyond it.
async fn requests(limiter: &Limiter<Store>) -> Result<(), Box<dyn std::error::Error>> {
    loop {
        let _ = limiter.try_acquire("user:1", 1).await?;
        for _ in 0..3 {
            let _ = limiter.try_acquire("user:2", 1).await?;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Two workers that do the same job by turns.
async fn jobs(locks: &Locks<ObservedStore<MemoryStore>, Tokio>) {
    let worker = async || loop {
        let job = async { tokio::time::sleep(Duration::from_millis(200)).await };
        if let Ok(guard) = async { locks.lock("2024")?.acquire().await }.await {
            let _ = guard.run(job).await;
        }
    };
    tokio::join!(worker(), worker());
}
