//! Logs and metrics of [`lockage`]: observers for its limiters, locks and stores.
//!
//! Without a feature this crate has no observer, and nothing is logged or counted. Each feature adds one:
//!
//! | feature | observer | reports |
//! |---|---|---|
//! | `tracing` | `Tracing` | events of the target `lockage` |
//! | `metrics` | `Metrics` | metrics, for any exporter of the crate `metrics` |
//! | `opentelemetry` | `OpenTelemetry` | metrics, for any exporter of OpenTelemetry |
//!
//! `Vec<Arc<dyn Observer>>` combines several observers.
//!
//! ```
//! # #[cfg(all(feature = "metrics", feature = "tracing"))] {
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use lockage::observer::{ObservedStore, Observer};
//! use lockage::runtime::Tokio;
//! use lockage::{Limiter, Locks, RetryStore};
//! use lockage_telemetry::{Metrics, Tracing};
//! # use lockage_memory::MemoryStore;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let both: Vec<Arc<dyn Observer>> = vec![Arc::new(Tracing::new()), Arc::new(Metrics::new())];
//! let observer = Arc::new(both);
//! # let store = MemoryStore::new();
//! let store = ObservedStore::new(store, "sessions", observer.clone());
//! let store = RetryStore::new(store, Tokio, Duration::from_millis(250));
//! let limiter = Limiter::new(store.clone(), "token-bucket 100/min burst 20".parse()?)
//!     .with_prefix("login")?
//!     .with_observer("login", observer.clone());
//! let locks = Locks::new(store, Duration::from_secs(30))?.with_observer("invoices", observer);
//! # assert!(limiter.try_acquire("user:42", 1).await?.is_allowed());
//! # locks.lock("2024")?.acquire().await?.release().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
//! ```
//!
//! Rules in a file have the same observers: `RuleLimiter::with_observer` reports each rule's decisions with its name as the
//! policy, and `LiveRules::with_observer` the changes of the file.
//!
//! # Metrics
//!
//! Times are in seconds. Label values are names that the program gives with an observer, and the words below: never ids
//! or keys.
//!
//! | name | type | labels |
//! |---|---|---|
//! | `lockage.rate_limiting.requests` | counter | `policy`, `result`, `source` |
//! | `lockage.rate_limiting.cost` | counter: the cost of those requests | `policy`, `result`, `source` |
//! | `lockage.rate_limiting.decision.duration` | histogram, [`DECISION_BUCKETS`]; not of calls that wait | `policy`, `source` |
//! | `lockage.rate_limiting.retry_after` | histogram, [`WAIT_BUCKETS`]: the answers to denied callers | `policy` |
//! | `lockage.rate_limiting.active_request_leases` | up-down counter: held permits of semaphores | `policy`, the family |
//! | `lockage.store.operation.duration` | histogram, [`DECISION_BUCKETS`] | `store`, `command`, `outcome` |
//! | `lockage.store.available` | gauge: 1, or 0 after [`AWAY_AFTER`] calls in a row without an answer | `store` |
//! | `lockage.rules.reloads` | counter | `file`, `result` |
//! | `lockage.rules.valid` | gauge: 1, or 0 while the file cannot be read or has mistakes | `file` |
//! | `lockage.rules.blocked` | counter: requests that a rule blocked | `rule` |
//! | `lockage.rules.shed` | counter: requests refused for more important ones | `priority` |
//! | `lockage.lock.acquisitions` | counter | `family`, `result` |
//! | `lockage.lock.losses` | counter | `family`, `result` |
//! | `lockage.lock.wait.duration` | histogram, [`WAIT_BUCKETS`]: waits that ended in an acquire | `family` |
//! | `lockage.lock.hold.duration` | histogram, [`WAIT_BUCKETS`] | `family` |
//!
//! | label | words |
//! |---|---|
//! | `result` of a request | `allowed`, `denied`, `blocked`, `never`, `would_deny` (in shadow mode), or an error |
//! | `source` | `store`, `deny_cache`, `prefetch`, `fallback`, `line`, or `none` for an error |
//! | `command` | the name of a script, such as `limiter_acquire`, or `listen` |
//! | `outcome` | `ok`, `timed_out`, `dropped`, or an error |
//! | `result` of a reload | `in_force`, `refused`, `recovered` |
//! | `result` of an acquisition | `acquired`, `busy`, or an error |
//! | `result` of a loss | `expired`, `refused`, `closed`, `held_too_long` |
//! | an error | `refused`, `misconfigured`, `not_done`, `unknown`: see [`ErrorKind`](lockage::observer::ErrorKind) |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "metrics", feature = "opentelemetry", feature = "tracing"))]
mod availability;
#[cfg(any(feature = "metrics", feature = "opentelemetry", feature = "tracing"))]
mod labels;
#[cfg(any(feature = "metrics", feature = "opentelemetry"))]
mod meters;
#[cfg(feature = "metrics")]
mod metrics;
mod names;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
#[cfg(feature = "tracing")]
mod tracing;

#[cfg(feature = "metrics")]
pub use crate::metrics::Metrics;
#[cfg(feature = "opentelemetry")]
pub use crate::opentelemetry::OpenTelemetry;
#[cfg(feature = "tracing")]
pub use crate::tracing::Tracing;
/// The guide's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/observability.md")]
struct Guide;

/// Returns the system's time, as an observer's default does.
#[cfg(any(feature = "metrics", feature = "opentelemetry", feature = "tracing"))]
fn system_time() -> Option<std::time::Duration> {
    use lockage::observer::Observer;
    struct Unsaid;
    impl Observer for Unsaid {}
    Unsaid.now()
}

pub use names::{AWAY_AFTER, BUCKETS, DECISION_BUCKETS, WAIT_BUCKETS};
