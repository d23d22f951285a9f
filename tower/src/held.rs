//! Permits and reservations that a request holds, and that are settled when its response ends.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use http::response;
use lockage::limiter::{RequestId, Reservation};
use lockage::store::ConfigError;
use lockage::{Limit, Limiter, Store, limit};
use lockage_core::Acquire;

use crate::background::{BoxFuture, Spawner};
use crate::commit::{Actual, Commit};
use crate::cost::{Amount, by_name};
use crate::renewals::Renewals;
use crate::usage::Meter;

/// Checks the hold of reservations, which each command carries, under a limit if it is known.
pub(crate) fn check_hold(hold: Duration, limit: Option<Limit>) -> Result<(), ConfigError> {
    const ANY: Limit = limit!("fixed-window 1/s");
    let any = Acquire::new(limit.unwrap_or(ANY), 1).expect("a cost of 1 is one");
    any.reserve(RequestId::from_u128(0), hold).map(drop)
}

/// The permit and reservations that a request holds until its response has ended.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) permit: Option<Box<dyn Any + Send>>,
    pub(crate) reservations: Vec<Open>,
    pub(crate) bytes: u64,
    /// Reads the body that the reservations are settled by.
    meter: Option<Box<Meter>>,
}

impl Held {
    pub(crate) fn settle_by(&mut self, head: &response::Parts) {
        for open in &mut self.reservations {
            match &open.by.by {
                Actual::Head(of) => {
                    let actual = of(head);
                    open.settle(|_, estimate| actual.unwrap_or(estimate));
                }
                // All reservations of a request have the same usage.
                Actual::Usage(usage) if self.meter.is_none() => {
                    self.meter = Some(Box::new(Meter::new(usage, head)));
                }
                Actual::Usage(_) | Actual::Bytes | Actual::End => {}
            }
        }
    }

    pub(crate) fn add_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Reads bytes of the response's body.
    pub(crate) fn observe(&mut self, data: &[u8]) {
        self.add_bytes(data.len());
        if let Some(meter) = &mut self.meter {
            meter.push(data);
        }
    }

    /// Settles by the body, of which all was sent, and returns the permit.
    pub(crate) fn end(mut self) {
        self.settle(true);
    }

    fn settle(&mut self, is_end: bool) {
        let bytes = self.bytes;
        if let Some(meter) = &mut self.meter {
            meter.finish(is_end);
        }
        for open in &mut self.reservations {
            match &open.by.by {
                Actual::Usage(usage) => {
                    let usage = Arc::clone(usage);
                    let meter = self.meter.as_deref();
                    open.settle(|place, estimate| usage.charge(place, estimate, meter, bytes));
                }
                Actual::Bytes if is_end => open.settle(|_, _| bytes),
                // The estimate stays.
                Actual::Bytes | Actual::Head(_) | Actual::End => {
                    open.settle(|_, estimate| estimate);
                }
            }
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

/// Without its end a response is charged as far as it came.
impl Drop for Held {
    fn drop(&mut self) {
        self.settle(false);
    }
}

/// A reservation that is settled once.
pub(crate) struct Open {
    /// `None` once it is settled.
    account: Option<Box<dyn Account>>,
    by: Commit,
    estimate: Amount,
    spawn: Spawner,
    /// Renews it, if the body settles it.
    pub(crate) renewals: Vec<Renewals>,
}

/// The account to which a cost is charged.
pub(crate) trait Account: Send {
    /// Charges a request's real cost.
    fn commit(self: Box<Self>, actual: Amount) -> BoxFuture<'static, ()>;
}

/// A reservation, and its limiter.
pub(crate) struct Reserved<S> {
    pub(crate) limiter: Limiter<S>,
    pub(crate) id: String,
    pub(crate) reservation: Reservation,
}

impl<S: Store + 'static> Account for Reserved<S> {
    fn commit(self: Box<Self>, actual: Amount) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Reserved { limiter, id, reservation } = &*self;
            // If the commit fails, the estimate stays charged.
            let _ = match &actual {
                Amount::All(actual) => limiter.commit(id, reservation, *actual).await,
                Amount::Parts(actual) => {
                    limiter.commit_parts(id, reservation, &by_name(actual)[..]).await
                }
            };
        })
    }
}

impl Open {
    pub(crate) fn new(
        account: Box<dyn Account>,
        by: Commit,
        estimate: Amount,
        spawn: Spawner,
    ) -> Self {
        Open { account: Some(account), by, estimate, spawn, renewals: Vec::new() }
    }

    /// Gives it back, since the request does not go ahead.
    pub(crate) fn cancel(&mut self) {
        self.renewals.clear();
        if let Some(account) = self.account.take() {
            (self.spawn)(account.commit(self.estimate.nothing()));
        }
    }

    /// Charges the real cost. `actual` returns it from the place among the parts of the commit and the estimate.
    fn settle(&mut self, actual: impl Fn(usize, u64) -> u64) {
        let Some(account) = self.account.take() else { return };
        self.renewals.clear();
        let charged = match &self.estimate {
            Amount::All(estimate) => Amount::All(actual(0, *estimate)),
            Amount::Parts(estimates) => {
                let part = |(name, estimate): &(Arc<str>, u64)| {
                    let place = self.by.parts.iter().position(|part| **part == **name);
                    let charged = place.map_or(*estimate, |place| actual(place, *estimate));
                    (Arc::clone(name), charged)
                };
                Amount::Parts(estimates.iter().map(part).collect())
            }
        };
        (self.spawn)(account.commit(charged));
    }
}
