//! Rate limits that all processes share, in front of the routes of axum, tonic and hyper.
//!
//! ```no_run
//! use std::net::SocketAddr;
//!
//! use axum::{Router, routing::get};
//! use lockage::{Limiter, limit};
//! use lockage_memory::MemoryStore;
//! use lockage_tower::RateLimit;
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::new(MemoryStore::new(), limit!("token-bucket 100/min burst 20"))
//!     .with_prefix("hello")?;
//! let app = Router::new()
//!     .route("/", get(|| async { "hello\n" }))
//!     .layer(RateLimit::per_ip(limiter).build()?);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! # Ok(()) }
//! ```
//!
//! On Redis or Valkey the store is one of `lockage-redis-rs` or `lockage-fred`; if configuration picks it, use an
//! [`AnyStore`](lockage::AnyStore). Handlers get the [`Decision`](lockage::Decision) from the request's extensions.
//!
//! - [`RateLimit`]: limits, costs and answers; `RateLimit::in_process` for those of this process alone. With the feature `rules`, they can be in a file: `RateLimit::rules`.
//! - [`ip`], [`header`], `route` and [`Key`]: which requests share a limit.
//! - [`Outbound`]: limits for outgoing requests.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission;
mod answers;
mod background;
mod body;
#[cfg(feature = "rules")]
mod by_rules;
mod check;
mod client_ip;
mod commit;
mod cost;
mod documents;
mod error;
mod estimate;
mod estimated;
mod faults;
mod fields;
mod grpc;
mod held;
mod in_process;
mod key;
mod limits;
mod local_limit;
mod merge;
mod numbers;
mod options;
mod outbound;
mod part_costs;
mod pause;
mod places;
mod rate_limit;
mod rejection;
mod renewals;
mod replayed;
#[cfg(feature = "rules")]
mod rule_fields;
mod service;
mod structured;
mod switch;
mod unnamed;
mod usage;

pub use admission::Admission;
pub use answers::OnError;
pub use body::Body;
#[cfg(feature = "rules")]
pub use by_rules::{RateLimitByRules, RuleSource};
pub use client_ip::{ClientIp, PeerAddr, ip};
pub use commit::Commit;
pub use cost::Cost;
#[cfg(feature = "axum")]
pub use cost::routes;
pub use documents::Format;
pub use error::SetupError;
pub use estimate::{Estimate, EstimateFuture, EstimateService};
pub use estimated::Estimated;
pub use fields::Fields;
pub use in_process::{LocalKey, RateLimitInProcess};
#[cfg(feature = "axum")]
pub use key::route;
pub use key::{Key, header};
pub use outbound::{NotSent, Outbound, OutboundError, OutboundService};
pub use rate_limit::RateLimit;
pub use rejection::{Reason, Rejection};
pub use replayed::Replayed;
#[cfg(feature = "rules")]
pub use rule_fields::RuleFields;
pub use service::{RateLimitLayer, RateLimitService, ResponseFuture};
pub use usage::{Tokens, Unmeasured, Usage};

/// The programs of the README and of these pages compile.
#[cfg(all(doctest, feature = "axum", feature = "rules"))]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/http.md")]
#[doc = include_str!("../../docs/llm-budgets.md")]
#[doc = include_str!("../../docs/tutorial.md")]
struct Readme;
