//! The server: its store, its rules, its ports, and its end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use axum::Router;
use axum::routing::get;
use lockage::limiter::{DenyCache, FixedWindow, Prefetch};
use lockage::observer::{ObservedStore, Observer};
use lockage::runtime::Tokio;
use lockage::{AnyStore, Fallback, Limiter, RetryStore};
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_rules::{LiveRules, Reload, ReloadEvent, RuleLimiter, Rules};
use lockage_telemetry::{BUCKETS, Metrics, Tracing};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;
use tracing_subscriber::EnvFilter;

use crate::admin::{self, Admin};
use crate::api::{limits, locks, with_problems};
use crate::gate::{Gate, Storage};
use crate::openapi::openapi;
use crate::options::{FallbackOption, LogForm, Options, Port};
use crate::serve::{Bounds, Port as Served};
use crate::{resp, rls, tls};

/// The metrics and the log.
type Observers = Vec<Arc<dyn Observer>>;

/// Serves until SIGTERM or SIGINT, and until all requests that have arrived are answered.
///
/// # Errors
/// A store, rule file, certificate or port that cannot be used. With `--check`, the mistakes of the rules.
pub async fn run(options: Options) -> Result<()> {
    if options.check {
        let path = options.rules.as_ref().expect("--check requires it");
        let rules = Rules::load(path).map_err(|error| anyhow!("mistakes in the rules\n{error}"))?;
        #[allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command's output")]
        {
            rules.doubts().for_each(|doubt| eprintln!("warning: {doubt}"));
            let (name, count) = (path.display(), rules.len());
            println!("{name}: {count} {}", if count == 1 { "rule" } else { "rules" });
        }
        return Ok(());
    }
    log(options.log);
    // Before any port is open: an early signal ends the server as a later one does.
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let metrics = install_metrics()?;
    let works = TaskTracker::new();
    let ((drain, drains), (stop, stops)) = (watch::channel(false), watch::channel(false));
    let observers: Observers = vec![Arc::new(Metrics::new()), Arc::new(Tracing::new())];
    let observer = Arc::new(observers);
    let store = open(&options, observer.clone())?;
    let rules =
        options.rules.as_deref().map(|path| live_rules(path, observer.clone())).transpose()?;
    let limiter = limiter(&options, store.clone(), observer)?;
    let gate = Gate::new(
        rules.clone(),
        limiter,
        options.limits.fields,
        options.limits.remember,
        works.clone(),
    );
    let locks = locks::Locks {
        store: store.clone(),
        prefix: format!("{}-locks", options.prefix).into(),
        timeout: options.timeout,
        longest_wait: options.limits.longest_wait,
        works: works.clone(),
    };
    let admin = Admin { store, rules: rules.clone(), metrics, drains: drains.clone() };

    let opener = Opener {
        options: &options,
        tls: tls::acceptor(&options.tls)?,
        stops,
        works: works.clone(),
    };
    let ports = &options.ports;
    let api = limits::routes(gate.clone())
        .merge(locks::routes(locks.clone()))
        .route("/healthz", get(async || "ok\n"))
        .route("/openapi.json", get(async || openapi()));
    let operators = admin::routes(admin)
        .route("/openapi.json", get(async || openapi()))
        .merge(limits::admin_routes(gate.clone()))
        .merge(locks::admin_routes(locks));
    let (api, operators) = (with_problems(api), with_problems(operators));
    let envoy = rls::routes(gate.clone()).merge(grpc_health(drains).await);
    opener.open("gRPC", ports.grpc, true).await?.map(|port| tokio::spawn(port.serve(envoy)));
    opener.open("HTTP", ports.http, true).await?.map(|port| tokio::spawn(port.serve(api)));
    opener.open("admin", ports.admin, false).await?.map(|port| tokio::spawn(port.serve(operators)));
    if let Some(port) = opener.open("RESP", ports.resp, true).await? {
        let serve = move |stream, connection| resp::serve(stream, connection, gate.clone());
        tokio::spawn(port.accept(serve));
    }
    match rules {
        Some(rules) => follow(rules, options.limits.poll)?,
        None => tracing::warn!(
            "no --rules: requests by values are all allowed, and only those with a limit of their own are limited"
        ),
    }

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("the server ends once all requests under way are answered");
    drain.send_replace(true);
    tokio::time::sleep(options.bounds.drain).await;
    stop.send_replace(true);
    works.close();
    if tokio::time::timeout(options.bounds.grace, works.wait()).await.is_err() {
        tracing::warn!(left = works.len(), "requests are left after the time of grace");
    }
    Ok(())
}

fn log(form: LogForm) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // One that is there, as in tests, stays.
    let _ = match form {
        LogForm::Text => lines.try_init(),
        LogForm::Json => lines.json().try_init(),
    };
}

fn install_metrics() -> Result<PrometheusHandle> {
    let mut builder = PrometheusBuilder::new().with_recommended_naming(true);
    for (name, buckets) in BUCKETS {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.into()), buckets)?;
    }
    builder.install_recorder().context("metrics")
}

fn open(options: &Options, observer: Arc<Observers>) -> Result<Storage> {
    let store = match options.store.as_str() {
        "memory" => AnyStore::new(ObservedStore::new(MemoryStore::new(), "store", observer)),
        address => {
            // No word of the address, which may have a password, is in the error.
            let opened = RedisStore::open_within(address, options.timeout);
            let opened = opened.map_err(|error| anyhow!("--store: {error}, nor `memory`"))?;
            AnyStore::new(ObservedStore::new(opened, "store", observer))
        }
    };
    Ok(RetryStore::new(store, Tokio, options.timeout))
}

fn limiter(
    options: &Options,
    store: Storage,
    observer: Arc<Observers>,
) -> Result<RuleLimiter<Storage>> {
    let local = MemoryStore::new();
    // Rules bring their limits. This one leaves a share to any number of processes.
    let any =
        FixedWindow::new(u64::from(u32::MAX), Duration::from_secs(1)).expect("it is in range");
    let mut limiter = Limiter::new(store, any.into()).with_prefix(&options.prefix)?;
    let options = &options.limits;
    if let Some(fallback) = options.fallback {
        limiter = limiter.with_fallback(match fallback {
            FallbackOption::Closed => Fallback::closed(),
            FallbackOption::Open => Fallback::open(),
            FallbackOption::Share(processes) => Fallback::local_share(processes, local.clone()),
        })?;
    }
    if let Some(waiting) = options.coalesce {
        limiter = limiter.with_coalescing(waiting)?;
    }
    if let Some(ids) = options.deny_cache {
        limiter = limiter.with_deny_cache(DenyCache::new(ids))?;
    }
    if let Some(permits) = options.prefetch {
        limiter = limiter.with_prefetch(Prefetch::new(permits, Duration::from_secs(1)))?;
    }
    let limiter = RuleLimiter::of(limiter, local).with_observer(observer);
    Ok(match options.max_in_flight {
        Some(most) => limiter.with_in_flight(most),
        None => limiter,
    })
}

fn live_rules(path: &Path, observer: Arc<Observers>) -> Result<Arc<LiveRules>> {
    let rules = LiveRules::open(path).map_err(|error| anyhow!("{error}"))?;
    let warn = |rules: &Rules| rules.doubts().for_each(|doubt| tracing::warn!("{doubt}"));
    warn(&rules.current());
    let rules = rules.on_reload(move |event| {
        if let ReloadEvent::Replaced(rules) = event {
            warn(rules);
        }
    });
    Ok(Arc::new(rules.with_observer(observer)))
}

/// Reads the file of rules when it has changed, and on SIGHUP.
fn follow(rules: Arc<LiveRules>, poll: Duration) -> Result<()> {
    let mut hang_up = signal(SignalKind::hangup())?;
    let on_signal = Arc::clone(&rules);
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            match on_signal.reload() {
                Ok(Reload::Replaced) => tracing::info!("SIGHUP: the rules were replaced"),
                Ok(Reload::Unchanged) => tracing::info!("SIGHUP: the rules are unchanged"),
                Err(error) => tracing::warn!("SIGHUP: the rules stay: {error}"),
            }
        }
    });
    tokio::spawn(async move { rules.watch(Tokio, poll).await });
    Ok(())
}

/// Opens ports of one kind.
struct Opener<'a> {
    options: &'a Options,
    tls: Option<TlsAcceptor>,
    stops: watch::Receiver<bool>,
    works: TaskTracker,
}

impl Opener<'_> {
    async fn open(&self, name: &str, port: Port, has_tls: bool) -> Result<Option<Served>> {
        let Some(address) = port.0 else { return Ok(None) };
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("the {name} port {address}"))?;
        tracing::info!(address = %listener.local_addr()?, "{name} is served");
        let bounds = &self.options.bounds;
        let bounds = Bounds {
            connections: bounds.max_connections,
            streams: bounds.max_streams,
            patience: bounds.patience,
            body: bounds.max_body,
            age: Some(bounds.max_age),
        };
        let tls = self.tls.clone().filter(|_| has_tls);
        Ok(Some(Served {
            listener,
            tls,
            bounds,
            stop: self.stops.clone(),
            works: self.works.clone(),
        }))
    }
}

/// Returns the health service of gRPC: serving, until the server ends.
async fn grpc_health(mut drains: watch::Receiver<bool>) -> Router {
    let (reporter, service) = tonic_health::server::health_reporter();
    let name = "envoy.service.ratelimit.v3.RateLimitService";
    for name in ["", name] {
        reporter.set_service_status(name, tonic_health::ServingStatus::Serving).await;
    }
    tokio::spawn(async move {
        let _ = drains.wait_for(|drains| *drains).await;
        for name in ["", name] {
            reporter.set_service_status(name, tonic_health::ServingStatus::NotServing).await;
        }
    });
    Router::new().route_service("/grpc.health.v1.Health/{method}", service)
}
