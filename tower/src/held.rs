//! Permits and reservations that a request holds, and that are settled when its response ends.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::response;
use lockage::limiter::{RequestId, Reservation};
use lockage::runtime::Spawn;
use lockage::store::ConfigError;
use lockage::{Limit, Limiter, Store, limit};
use lockage_core::Acquire;

use crate::cost::Actual;

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs a future in the background.
pub(crate) type Spawner = Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// Returns a spawner on this runtime.
pub(crate) fn spawner(runtime: impl Spawn) -> Spawner {
    Arc::new(move |task| {
        // A response may be dropped after its runtime has ended, or elsewhere.
        if runtime.executor().is_some() {
            runtime.spawn(task);
        }
    })
}

/// Checks the hold of reservations, which each command carries.
pub(crate) fn check_hold(hold: Duration) -> Result<(), ConfigError> {
    const ANY: Limit = limit!("fixed-window 1/s");
    let any = Acquire::new(ANY, 1).expect("a cost of 1 is one");
    any.reserve(RequestId::from_u128(0), hold).map(drop)
}

/// The permit and reservations that a request holds until its response has ended.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) permit: Option<Box<dyn Any + Send>>,
    pub(crate) reservations: Vec<Open>,
    pub(crate) bytes: u64,
}

impl Held {
    pub(crate) fn settle_by(&mut self, head: &response::Parts) {
        self.reservations.iter_mut().for_each(|open| open.settle_by(head));
    }

    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Settles by the number of sent bytes, and returns the permit.
    pub(crate) fn end(mut self) {
        let bytes = self.bytes;
        for open in &mut self.reservations {
            open.settle(bytes);
        }
    }

    /// Returns itself, unless it has nothing to wait for.
    pub(crate) fn unless_ended<B: http_body::Body>(self: Box<Self>, body: &B) -> Option<Box<Self>> {
        if body.is_end_stream() {
            self.end();
            return None;
        }
        Some(self)
    }
}

/// A reservation that is settled once. Dropping it settles it as estimated.
pub(crate) struct Open {
    /// `None` once it is settled.
    account: Option<Box<dyn Account>>,
    by: Actual,
    estimate: u64,
    spawn: Spawner,
}

/// The account to which a cost is charged.
pub(crate) trait Account: Send {
    /// Charges a request's real cost.
    fn commit(self: Box<Self>, actual: u64) -> BoxFuture<'static, ()>;
}

/// A reservation, and its limiter.
pub(crate) struct Reserved<S> {
    pub(crate) limiter: Limiter<S>,
    pub(crate) id: String,
    pub(crate) reservation: Reservation,
}

impl<S: Store + 'static> Account for Reserved<S> {
    fn commit(self: Box<Self>, actual: u64) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // If the commit fails, the estimate stays charged.
            let _ = self.limiter.commit(&self.id, &self.reservation, actual).await;
        })
    }
}

impl Open {
    pub(crate) fn new(
        account: Box<dyn Account>,
        by: Actual,
        estimate: u64,
        spawn: Spawner,
    ) -> Self {
        Open { account: Some(account), by, estimate, spawn }
    }

    /// Gives it back, since the request does not go ahead.
    pub(crate) fn cancel(&mut self) {
        self.settle(0);
    }

    fn settle_by(&mut self, head: &response::Parts) {
        if let Actual::Head(of) = &self.by {
            let actual = of(head).unwrap_or(self.estimate);
            self.settle(actual);
        }
    }

    fn settle(&mut self, actual: u64) {
        if let Some(account) = self.account.take() {
            (self.spawn)(account.commit(actual));
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.settle(self.estimate);
    }
}
