//! The cost of observers: decisions of a limiter on a store in this process, with one and without.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lockage::observer::Observer;
use lockage::{Limit, Limiter};
use lockage_memory::MemoryStore;
use lockage_telemetry::{BUCKETS, Metrics, OpenTelemetry, Tracing};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

use crate::measure::{Candidate, Rounds, side_by_side};

/// Selects the measurements.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    rounds: Rounds,
}

/// An observer that does nothing, without a clock.
struct Silent;

impl Observer for Silent {
    fn now(&self) -> Option<Duration> {
        None
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter).build();
    println!("| | admitted | denied |\n|---|---:|---:|");
    let rows = |limit: &str| -> Result<Vec<(&'static str, f64)>> {
        let limit: Limit = limit.parse()?;
        let candidate = |name, observer: Option<Arc<dyn Observer>>| {
            let limiter = Limiter::new(MemoryStore::new(), limit);
            let limiter = match observer {
                Some(observer) => limiter.with_observer("login", observer),
                None => limiter,
            };
            Candidate::new(name, move |_| {
                pollster::block_on(limiter.try_acquire("user:42", 1))
                    .is_ok_and(|decision| decision.is_allowed())
            })
        };
        let mut prometheus = PrometheusBuilder::new();
        for (name, buckets) in BUCKETS {
            prometheus = prometheus.set_buckets_for_metric(Matcher::Full(name.into()), buckets)?;
        }
        let recorder = prometheus.build_recorder();
        let handle = recorder.handle();
        // Samples of histograms wait until they are read or kept up.
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(100));
                handle.run_upkeep();
            }
        });
        metrics::set_global_recorder(recorder).ok();
        let meter = provider.meter("lockage");
        let candidates = [
            candidate("no observer", None),
            candidate("an observer that does nothing", Some(Arc::new(Silent))),
            candidate("`Metrics::without_durations`", Some(Arc::new(Metrics::without_durations()))),
            candidate("`Metrics`", Some(Arc::new(Metrics::new()))),
            candidate(
                "`OpenTelemetry::without_durations`",
                Some(Arc::new(OpenTelemetry::without_durations(&meter))),
            ),
            candidate("`OpenTelemetry`", Some(Arc::new(OpenTelemetry::new(&meter)))),
            candidate("`Tracing`, without a subscriber", Some(Arc::new(Tracing::new()))),
        ];
        let seen = side_by_side(&args.rounds, 1, &candidates);
        Ok(seen.into_iter().map(|seen| (seen.name, seen.nanos)).collect())
    };
    let admitted = rows("token-bucket 1000000000000/s burst 1000000000")?;
    let denied = rows("fixed-window 1/d")?;
    for ((name, admitted), (_, denied)) in admitted.iter().zip(&denied) {
        println!("| {name} | {admitted:.0} | {denied:.0} |");
    }
    Ok(())
}
