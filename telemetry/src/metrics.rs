//! Metrics through the crate `metrics`.

use std::sync::Arc;
use std::time::Duration;

use ::metrics::{Counter, Gauge, Histogram, Key, KeyName, Level, Metadata, Recorder, Unit};
use lockage::observer::{DecisionEvent, LeaseEvent, Observer, RulesEvent, StoreCallEvent, Subject};

use crate::meters::{Backend, Label, Meters};
use crate::names::Metric;

/// Counts through the crate `metrics`: see the [metrics](crate#metrics).
///
/// Install an exporter's recorder before the first decision: the counter of a series is looked up once. Exporters
/// choose the buckets of histograms; give them [`BUCKETS`](crate::BUCKETS).
///
/// Clones share their state.
#[derive(Clone)]
pub struct Metrics(Arc<Meters<Recorded>>);

impl Metrics {
    /// Counts with the global recorder, and measures the durations of decisions and calls, by two readings of the clock
    /// for each.
    pub fn new() -> Self {
        Metrics::of(None, true)
    }

    /// Counts with the global recorder, without times of decisions and calls: neither durations nor `retry_after`.
    pub fn without_durations() -> Self {
        Metrics::of(None, false)
    }

    /// Counts with this recorder instead of the global one, and measures durations.
    pub fn by(recorder: impl Recorder + Send + Sync + 'static) -> Self {
        Metrics::of(Some(Box::new(recorder)), true)
    }

    fn of(recorder: Option<Box<dyn Recorder + Send + Sync>>, measures: bool) -> Self {
        Metrics(Arc::new(Meters::new(Recorded(recorder), measures)))
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

crate::meters::observes!(Metrics);

/// A recorder; `None` is the global one.
struct Recorded(Option<Box<dyn Recorder + Send + Sync>>);

impl Recorded {
    fn with<T>(&self, make: impl FnOnce(&dyn Recorder) -> T) -> T {
        match &self.0 {
            Some(recorder) => make(recorder),
            None => ::metrics::with_recorder(make),
        }
    }
}

fn key(metric: &Metric, labels: &[Label<'_>]) -> Key {
    let labels = labels.iter().map(|&(name, word)| ::metrics::Label::new(name, word.to_owned()));
    Key::from_parts(metric.name, labels.collect::<Vec<_>>())
}

fn name(metric: &Metric) -> KeyName {
    KeyName::from_const_str(metric.name)
}

const METADATA: Metadata<'static> = Metadata::new("lockage", Level::INFO, None);

// A series is described with each registration: the recorder may be new.
impl Backend for Recorded {
    type Counter = Counter;
    type UpDown = Gauge;
    type Gauge = Gauge;
    type Histogram = Histogram;

    fn counter(&self, metric: &Metric, labels: &[Label<'_>]) -> Counter {
        self.with(|recorder| {
            recorder.describe_counter(name(metric), None, metric.about.into());
            recorder.register_counter(&key(metric, labels), &METADATA)
        })
    }

    fn up_down(&self, metric: &Metric, labels: &[Label<'_>]) -> Gauge {
        self.gauge(metric, labels)
    }

    fn gauge(&self, metric: &Metric, labels: &[Label<'_>]) -> Gauge {
        self.with(|recorder| {
            recorder.describe_gauge(name(metric), None, metric.about.into());
            recorder.register_gauge(&key(metric, labels), &METADATA)
        })
    }

    fn histogram(&self, metric: &Metric, labels: &[Label<'_>]) -> Histogram {
        self.with(|recorder| {
            recorder.describe_histogram(name(metric), Some(Unit::Seconds), metric.about.into());
            recorder.register_histogram(&key(metric, labels), &METADATA)
        })
    }

    fn count(counter: &Counter, more: u64) {
        counter.increment(more);
    }

    fn shift(up_down: &Gauge, by: i64) {
        up_down.increment(by as f64);
    }

    fn set(gauge: &Gauge, value: u32) {
        gauge.set(value);
    }

    fn record(histogram: &Histogram, time: Duration) {
        histogram.record(time);
    }
}
