//! Metrics through OpenTelemetry.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::opentelemetry::KeyValue;
use ::opentelemetry::metrics::{AsyncInstrument, Histogram, Meter};
use lockage::observer::{DecisionEvent, LeaseEvent, Observer, RulesEvent, StoreCallEvent, Subject};

use crate::BUCKETS;
use crate::meters::{Backend, Label, Meters};
use crate::names::{self, Metric};

/// Counts with an OpenTelemetry meter: see the [metrics](crate#metrics).
///
/// Counts are read when they are collected, so that a decision only adds to two numbers. Make one for each meter, and
/// clone it: two on one meter report each series twice.
#[derive(Clone)]
pub struct OpenTelemetry(Arc<Meters<Instruments>>);

impl OpenTelemetry {
    /// Counts with this meter, and measures the durations of decisions and calls, by two readings of the clock for
    /// each.
    pub fn new(meter: &Meter) -> Self {
        OpenTelemetry(Arc::new(Meters::new(Instruments::new(meter), true)))
    }

    /// Counts with this meter, without times of decisions and calls: neither durations nor `retry_after`.
    pub fn without_durations(meter: &Meter) -> Self {
        OpenTelemetry(Arc::new(Meters::new(Instruments::new(meter), false)))
    }
}

crate::meters::observes!(OpenTelemetry);

struct Instruments {
    numbers: HashMap<&'static str, Arc<Series>>,
    histograms: HashMap<&'static str, Histogram<f64>>,
}

/// The values of one metric, each with its labels.
#[derive(Default)]
struct Series(Mutex<Vec<(Vec<KeyValue>, Arc<AtomicI64>)>>);

impl Series {
    fn add(&self, labels: &[Label<'_>]) -> Arc<AtomicI64> {
        let number = Arc::<AtomicI64>::default();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((attributes(labels), Arc::clone(&number)));
        number
    }

    fn observe<T>(&self, instrument: &dyn AsyncInstrument<T>, as_number: fn(i64) -> T) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (attributes, number) in &*all {
            instrument.observe(as_number(number.load(Ordering::Relaxed)), attributes);
        }
    }
}

fn attributes(labels: &[Label<'_>]) -> Vec<KeyValue> {
    labels.iter().map(|&(name, word)| KeyValue::new(name, word.to_owned())).collect()
}

/// Returns the number, at least zero.
fn whole(number: i64) -> u64 {
    number.unsigned_abs()
}

impl Instruments {
    fn new(meter: &Meter) -> Self {
        let mut numbers = HashMap::new();
        let mut series = |metric: &Metric| {
            Arc::clone(numbers.entry(metric.name).or_insert_with(Arc::<Series>::default))
        };
        let rules = [names::RELOADS, names::RULES_BLOCKED, names::RULES_SHED];
        let others = [names::REQUESTS, names::COST, names::ACQUISITIONS, names::LOSSES];
        for metric in others.into_iter().chain(rules) {
            let all = series(&metric);
            let counter = meter.u64_observable_counter(metric.name);
            let counter = counter.with_description(metric.about);
            counter.with_callback(move |it| all.observe(it, whole)).build();
        }
        let (metric, all) = (names::ACTIVE_REQUEST_LEASES, series(&names::ACTIVE_REQUEST_LEASES));
        let up_down = meter.i64_observable_up_down_counter(metric.name);
        let up_down = up_down.with_description(metric.about);
        up_down.with_callback(move |it| all.observe(it, |number| number)).build();
        for metric in [names::AVAILABLE, names::RULES_VALID] {
            let all = series(&metric);
            let gauge = meter.u64_observable_gauge(metric.name).with_description(metric.about);
            gauge.with_callback(move |it| all.observe(it, whole)).build();
        }

        let histogram = |(name, buckets): (&'static str, &[f64])| {
            let histogram = meter.f64_histogram(name).with_unit("s");
            (name, histogram.with_boundaries(buckets.to_vec()).build())
        };
        Instruments { numbers, histograms: BUCKETS.into_iter().map(histogram).collect() }
    }

    fn number(&self, metric: &Metric, labels: &[Label<'_>]) -> Arc<AtomicI64> {
        self.numbers[metric.name].add(labels)
    }
}

impl Backend for Instruments {
    type Counter = Arc<AtomicI64>;
    type UpDown = Arc<AtomicI64>;
    type Gauge = Arc<AtomicI64>;
    type Histogram = (Histogram<f64>, Vec<KeyValue>);

    fn counter(&self, metric: &Metric, labels: &[Label<'_>]) -> Arc<AtomicI64> {
        self.number(metric, labels)
    }

    fn up_down(&self, metric: &Metric, labels: &[Label<'_>]) -> Arc<AtomicI64> {
        self.number(metric, labels)
    }

    fn gauge(&self, metric: &Metric, labels: &[Label<'_>]) -> Arc<AtomicI64> {
        self.number(metric, labels)
    }

    fn histogram(&self, metric: &Metric, labels: &[Label<'_>]) -> Self::Histogram {
        (self.histograms[metric.name].clone(), attributes(labels))
    }

    fn count(counter: &Arc<AtomicI64>, more: u64) {
        counter.fetch_add(more.cast_signed(), Ordering::Relaxed);
    }

    fn shift(up_down: &Arc<AtomicI64>, by: i64) {
        up_down.fetch_add(by, Ordering::Relaxed);
    }

    fn set(gauge: &Arc<AtomicI64>, value: u32) {
        gauge.store(value.into(), Ordering::Relaxed);
    }

    fn record((histogram, attributes): &Self::Histogram, time: Duration) {
        histogram.record(time.as_secs_f64(), attributes);
    }
}
