//! The names of metrics, and their buckets.

/// The bounds of buckets for decisions and calls of stores, in seconds: 50 us to 1 s.
pub const DECISION_BUCKETS: &[f64] = &[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0,
];

/// The bounds of buckets for waits and holds, in seconds: 1 ms to 1 h.
pub const WAIT_BUCKETS: &[f64] =
    &[0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];

/// After this many calls in a row without an answer, a store counts as away.
pub const AWAY_AFTER: u32 = 3;

/// The histograms, each with the bounds of its buckets, for exporters that take them.
///
/// ```
/// use lockage_telemetry::BUCKETS;
/// use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
///
/// let mut builder = PrometheusBuilder::new().with_recommended_naming(true);
/// for (name, buckets) in BUCKETS {
///     builder = builder.set_buckets_for_metric(Matcher::Full(name.into()), buckets)?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const BUCKETS: [(&str, &[f64]); 5] = [
    (DECISION_DURATION.name, DECISION_BUCKETS),
    (RETRY_AFTER.name, WAIT_BUCKETS),
    (OPERATION_DURATION.name, DECISION_BUCKETS),
    (WAIT_DURATION.name, WAIT_BUCKETS),
    (HOLD_DURATION.name, WAIT_BUCKETS),
];

#[cfg_attr(not(any(feature = "metrics", feature = "opentelemetry")), expect(dead_code))]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
}

/// Declares metrics, each once.
macro_rules! metrics {
    ($($metric:ident = $name:literal, $about:literal;)*) => {
        $(
            #[cfg_attr(not(any(feature = "metrics", feature = "opentelemetry")), allow(dead_code))]
            pub(crate) const $metric: Metric = Metric { name: concat!("lockage.", $name), about: $about };
        )*
    };
}

metrics! {
    REQUESTS = "rate_limiting.requests", "Requests, by what their callers are told";
    COST = "rate_limiting.cost", "What those requests asked for";
    DECISION_DURATION = "rate_limiting.decision.duration", "Time until a caller that does not wait has its answer";
    RETRY_AFTER = "rate_limiting.retry_after", "How long denied callers are told to wait";
    ACTIVE_REQUEST_LEASES = "rate_limiting.active_request_leases", "Permits of semaphores that are held";
    OPERATION_DURATION = "store.operation.duration", "Time of one call of a store";
    AVAILABLE = "store.available", "Whether a store answers";
    RELOADS = "rules.reloads", "Contents of a file of rules, by whether they are in force";
    RULES_VALID = "rules.valid", "Whether a file of rules is the one in force";
    RULES_BLOCKED = "rules.blocked", "Requests that a rule without a limit refused";
    RULES_SHED = "rules.shed", "Requests refused for others of a higher priority";
    ACQUISITIONS = "lock.acquisitions", "Attempts to acquire a lock, by their end";
    LOSSES = "lock.losses", "Locks that were lost, by why";
    WAIT_DURATION = "lock.wait.duration", "Time until a lock was acquired";
    HOLD_DURATION = "lock.hold.duration", "Time for which a lock was held";
}
