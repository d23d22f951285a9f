//! The events and metrics of one run in each library, and in Prometheus.

mod opentelemetry;
mod prometheus;
mod rules;
mod run;
mod tracing;
