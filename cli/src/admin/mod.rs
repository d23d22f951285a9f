//! The records of a server: listed, read and changed, without any configuration.
//!
//! ```no_run
//! use std::time::Duration;
//! use lockage_cli::admin::{Admin, Selection};
//!
//! # async fn first() -> Result<(), Box<dyn std::error::Error>> {
//! let admin = Admin::open("redis://127.0.0.1:6379", Duration::from_secs(2)).await?;
//! let mut scan = admin.scan(&Selection::prefix("login")?, Duration::from_millis(1));
//! while let Some(entries) = scan.next().await? {
//!     for entry in entries {
//!         println!("{}: {:?}", entry.key, entry.contents);
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! # Cost
//!
//! A call keeps a server busy for less than a millisecond: a `SCAN` visits [`COUNT`] places of the server's table, and
//! a read is of [`BATCH`] keys, of each at most the length of the longest record. After each call a scan pauses for at
//! least as long as the call took, so that it never takes more than half of a server.

mod change;
mod error;
mod read;
mod sample;
mod scan;

use std::time::Duration;

use lockage::runtime::Tokio;
use lockage::{Limit, RetryStore, StoreError, limiter};
use lockage_core::Timestamp;
use lockage_redis::{Address, Target};
use lockage_redis_rs::{Master, RedisStore};

pub use change::{Hold, Role, holds};
pub use error::{AdminError, Refusal};
pub use read::{BATCH, Contents, Entry};
pub use sample::{Sample, Sampled, charged};
pub use scan::{COUNT, Scan, Selection};

/// A server, a master with sentinels, or a cluster, as an operator sees it.
pub struct Admin {
    address: String,
    timeout: Duration,
    store: RetryStore<RedisStore, Tokio>,
    masters: Vec<Master>,
}

impl Admin {
    /// Connects to each master of this address: `lockage_redis_rs` has the forms of addresses. A call takes at most
    /// `timeout`, and a read half a second more.
    ///
    /// # Errors
    /// [`StoreError`], also if one master of several cannot be reached, or the server is one of a cluster's. It has no
    /// credentials.
    pub async fn open(address: &str, timeout: Duration) -> Result<Self, StoreError> {
        let masters = Master::all(address).await?;
        let store = RedisStore::open_within(address, timeout);
        let store = store.map_err(|error| StoreError::Misconfigured(Box::new(error)))?;
        let store = RetryStore::new(store, Tokio, timeout);
        let admin = Admin { address: address.to_owned(), timeout, store, masters };
        match Address::read(address).map(|address| address.target) {
            Ok(Target::Cluster(_)) => {}
            _ => admin.check_whole().await?,
        }
        Ok(admin)
    }

    /// Connects to the masters again, as after a failover.
    ///
    /// # Errors
    /// As [`Admin::open`]; the connections are then as before.
    pub async fn reconnect(&mut self) -> Result<(), StoreError> {
        self.masters = Master::all(&self.address).await?;
        Ok(())
    }
}

/// Returns the limit with the boundaries of its calendar windows.
fn bounded(limit: Limit, now: Timestamp) -> Limit {
    limit.with_calendar(|window| limiter::bounded_at(window, now))
}
