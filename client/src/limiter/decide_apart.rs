//! Requests for several ids on several nodes of a cluster.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use futures_util::future::join_all;
use lockage_core::{
    Acquire, Cost, Decision, Peek, RecordError, Reservation, Reserved, Settle, Settlement,
};

use super::acquire_all::Request;
use super::idempotency::random_id;
use super::limit_source::LimitSource;
use crate::error::{Error, StoreError};
use crate::key::Key;
use crate::store::Store;

/// A cancellation that comes later gives nothing back.
const HOLD: Duration = Duration::from_secs(10);

/// Charges each key in its turn, in the order of the keys, so that of two calls for the same keys one goes ahead. What was
/// charged is given back if one denies or fails. Also returns whether one has denied, which no failure after it undoes.
pub(super) async fn decide_apart(
    store: &impl Store,
    requests: &[Request<'_>],
    keys: &[Key],
    acquires: &[Acquire],
) -> (Result<Vec<Decision>, Error>, bool) {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_unstable_by_key(|at| keys[*at].as_str());
    let (mut charges, mut decisions) = (Vec::new(), vec![None; keys.len()]);
    for at in &order {
        let (Request { source, cost, .. }, key) = (&requests[*at], &keys[*at]);
        // The last one is decided by its answer, and needs no reservation.
        let decided = match Some(at) == order.last() {
            true => source.execute(store, key, &acquires[*at]).await.map(Reserved::from),
            false => reserve(store, source, key, acquires[*at]).await,
        };
        match decided {
            Ok(Reserved { decision, reservation, .. }) if decision.is_allowed() => {
                let charge = |reservation| Charge { source, key, cost: *cost, reservation };
                charges.extend(reservation.map(charge));
                decisions[*at] = Some(decision);
            }
            denied => {
                let has_denied = denied.is_ok();
                let decided = match (cancel(store, &charges).await, denied) {
                    (Err(error), _) | (Ok(()), Err(error)) => Err(error),
                    (Ok(()), Ok(Reserved { decision, .. })) => {
                        with_others(store, requests, keys, (*at, decision)).await
                    }
                };
                return (decided, has_denied);
            }
        }
    }
    // Cancellations are exact while few reservations are open. One that stays open is charged all the same, and keeps its
    // places in flight.
    let settled = charges.iter().filter(|charge| lease(charge.source, charge.key).is_none());
    join_all(settled.map(|charge| charge.settle(store, charge.cost))).await;
    (Ok(decisions.into_iter().flatten().collect()), false)
}

async fn reserve(
    store: &impl Store,
    source: &LimitSource,
    key: &Key,
    acquire: Acquire,
) -> Result<Reserved, Error> {
    let reserve = async || {
        let hold = lease(source, key).map_or(HOLD, |lease| lease.min(HOLD));
        let id = random_id(|| RandomState::new().hash_one(()));
        source.execute(store, key, &acquire.reserve(id, hold)?).await
    };
    match reserve().await {
        Err(Error::Store(StoreError::Record(RecordError::HoldTooLong))) => {
            // A stored limit has a shorter lease than was known: a peek reads it.
            _ = source.execute(store, key, &Peek::new(source.nominal(), 0)).await?;
            reserve().await
        }
        reserved => reserved,
    }
}

/// Returns how long places are kept, if the limit counts requests in flight.
fn lease(source: &LimitSource, key: &Key) -> Option<Duration> {
    source.known(key)?.limit.lease()
}

/// A request that is charged, and can be settled.
struct Charge<'a> {
    source: &'a LimitSource,
    key: &'a Key,
    cost: Cost,
    reservation: Reservation,
}

impl Charge<'_> {
    async fn settle(&self, store: &impl Store, actual: Cost) -> Result<Settlement, Error> {
        let command = Settle::by_part(self.source.nominal(), &self.reservation, actual);
        self.source.execute(store, self.key, &command).await
    }
}

/// Gives all of them back.
///
/// # Errors
/// [`StoreError::Unknown`] if one may stay charged.
async fn cancel(store: &impl Store, charges: &[Charge<'_>]) -> Result<(), Error> {
    let settled = join_all(charges.iter().map(|charge| charge.settle(store, 0.into()))).await;
    settled.into_iter().try_for_each(|settled| match settled {
        Ok(Settlement::Settled { .. }) => Ok(()),
        Ok(_) => Err(StoreError::Unknown("it is too late to give a charge back".into()).into()),
        Err(error) => Err(StoreError::Unknown(Box::new(error)).into()),
    })
}

/// Returns the decisions where this one denies: those of peeks on all others.
async fn with_others(
    store: &impl Store,
    requests: &[Request<'_>],
    keys: &[Key],
    (denied, decision): (usize, Decision),
) -> Result<Vec<Decision>, Error> {
    let others = (0..keys.len()).filter(|at| *at != denied).map(|at| async move {
        let Request { source, cost, .. } = &requests[at];
        source.execute(store, &keys[at], &Peek::by_part(source.nominal(), *cost)).await
    });
    let mut decisions = join_all(others).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    decisions.insert(denied, decision);
    Ok(decisions)
}
