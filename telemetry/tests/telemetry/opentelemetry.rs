use std::collections::BTreeMap;

use lockage_telemetry::{BUCKETS, OpenTelemetry};
use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

use super::run::run;

/// Sums, and counts of histograms, by name and words of labels.
fn read(all: &[ResourceMetrics]) -> BTreeMap<(String, Vec<String>), u64> {
    fn words<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> Vec<String> {
        let mut words: Vec<String> =
            attributes.map(|it| format!("{}={}", it.key, it.value)).collect();
        words.sort();
        words
    }
    let mut read = BTreeMap::new();
    let last = all.last().expect("it was collected");
    for metric in last.scope_metrics().flat_map(|scope| scope.metrics()) {
        let name = metric.name().to_owned();
        let mut add = |words, value| read.insert((name.clone(), words), value);
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                for point in sum.data_points() {
                    add(words(point.attributes()), point.value());
                }
            }
            AggregatedMetrics::U64(MetricData::Gauge(gauge)) => {
                for point in gauge.data_points() {
                    add(words(point.attributes()), point.value());
                }
            }
            AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                for point in sum.data_points() {
                    add(words(point.attributes()), point.value().unsigned_abs());
                }
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                for point in histogram.data_points() {
                    let (_, buckets) = BUCKETS.into_iter().find(|it| it.0 == name).unwrap();
                    assert!(point.bounds().eq(buckets.iter().copied()), "{name}");
                    assert_eq!(metric.unit(), "s");
                    add(words(point.attributes()), point.count());
                }
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    read
}

/// A meter of OpenTelemetry has the counts of the reference, in the right buckets.
#[tokio::test(start_paused = true)]
async fn meter_counts_match_the_reference() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    let seed = fastrand::u64(..);
    let counts = run(OpenTelemetry::new(&provider.meter("lockage")), seed).await;
    provider.force_flush().unwrap();
    let read = read(&exporter.get_finished_metrics().unwrap());
    let sum = |name: &str, words: &[&str]| -> u64 {
        let has = |own: &[String]| words.iter().all(|word| own.iter().any(|own| own == word));
        let found = read.iter().filter(|((own, labels), _)| own == name && has(labels));
        found.map(|(_, value)| value).sum()
    };
    for (name, counts) in [("requests", &counts.requests), ("cost", &counts.cost)] {
        for (&(policy, allowed), &count) in counts {
            let result = if allowed { "result=allowed" } else { "result=denied" };
            let words = [&*format!("policy={policy}"), result];
            assert_eq!(
                sum(&format!("lockage.rate_limiting.{name}"), &words),
                count,
                "{words:?} with seed {seed}"
            );
        }
    }
    assert_eq!(sum("lockage.rate_limiting.decision.duration", &["policy=cached"]), 200);
    assert_eq!(sum("lockage.rate_limiting.active_request_leases", &["policy=invoices"]), 2);
    assert_eq!(sum("lockage.store.available", &["store=plain"]), 1);
    assert_eq!(sum("lockage.store.available", &["store=alone"]), 0);
    assert_eq!(sum("lockage.lock.acquisitions", &["result=acquired"]), 5);
    assert_eq!(sum("lockage.lock.losses", &["result=refused"]), 1);
    assert_eq!(sum("lockage.lock.hold.duration", &["family=invoices"]), 4);
}
