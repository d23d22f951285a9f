//! The common part of all Redis clients as a [`Store`](lockage::Store), without a client.
//!
//! [`LuaStore`] runs each command as a script call. It follows `NOSCRIPT`, `MOVED`, `ASK` and the slow path, batches,
//! waits for replicas, and classifies errors. A client implements [`Link`]: it sends one [`Request`] at most once and
//! returns the [`Reply`], or a [`LinkError`].
//!
//! | the client has | implement | and get |
//! |---|---|---|
//! | a connection or a pool | [`Link`] | `LuaStore::new(link)`: a [`Store`](lockage::Store) |
//! | a way to connect | [`Link`] of one connection | [`Connections`], which reconnects |
//! | pipelines | [`Pipeline`] | [`Replicated`](lockage::store::Replicated) over [`Connections`] |
//! | blocking calls only | [`BlockingConnection`] | `BlockingStore` over [`BlockingConnections`] |
//! | push messages | [`PubSub`] | [`Notifications`](lockage::notifications::Notifications) by [`subscriptions`] |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod all;
mod attempt;
mod batch;
mod blocking;
mod call;
mod check;
mod clock;
mod connections;
mod delegate;
mod hints;
mod link;
mod pool;
mod reconnecting;
mod replicated;
mod store;
mod subscriptions;
mod sync;

pub use address::{Address, Login, Node, Protocol, Target, Tls, host_and_port};
pub use all::AllCall;
pub use batch::BatchCall;
pub use blocking::{BlockingConnection, BlockingConnections};
pub use call::{Call, ErrorReply, Reply};
pub use check::{IDLE, before_sending, check_before};
#[doc(hidden)]
pub use clock::simulate_time;
pub use connections::Connections;
pub use hints::{NO_REDIS, hint};
#[cfg(feature = "tokio")]
pub use link::in_tokio;
pub use link::{Health, Link, LinkError, Pipeline, REPLY, Request, ServerAddress};
pub use pool::{ConnectionPool, IdlePool, NodePools};
pub use reconnecting::Reconnecting;
pub use replicated::{Acknowledged, Acknowledging, ReplicaWait};
pub use store::{LuaStore, TimeSource};
pub use subscriptions::{PubSub, PubSubSink, subscriptions};
