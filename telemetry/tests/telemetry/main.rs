//! What each library is told of one run, and what Prometheus reads of it.

mod opentelemetry;
mod prometheus;
mod run;
mod tracing;
