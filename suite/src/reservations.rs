//! Reservations on every store.

use std::time::Duration;

use lockage::limiter::{RequestId, Settlement};
use lockage::store::RecordError;
use lockage::{Error, Store, StoreError};

use super::{Bench, LIMITS};

const HOLD: Duration = Duration::from_secs(2);

/// A reservation is charged its estimate until it is settled, once; one that expires stays charged.
pub(super) async fn a_reservation_is_settled_once<S: Store + Clone>(bench: &Bench<'_, S>) {
    for (index, limit) in LIMITS.into_iter().enumerate() {
        let limiter = bench.limiter("reserve", limit);
        // A reset does not make an id new.
        let id = |name: u128| RequestId::from_u128(10 * index as u128 + name);
        let reserve = |name, cost| limiter.reserve_as("tokens", cost, id(name), HOLD);
        let first = reserve(1, 4).await.unwrap();
        assert_eq!(reserve(1, 4).await.unwrap(), first, "{limit}: D11");
        let reservation = first.reservation.expect("it is admitted");
        assert_eq!(limiter.peek("tokens", 0).await.unwrap().remaining, 1, "{limit}");
        let denied = reserve(2, 2).await.unwrap();
        assert!(!denied.decision.is_allowed() && denied.reservation.is_none(), "{limit}");

        let settled = limiter.commit("tokens", &reservation, 1).await.unwrap();
        let Settlement::Settled { amount, ref after } = settled else { panic!("{settled:?}") };
        assert_eq!((amount, after.remaining), (3, 4), "{limit}");
        assert_eq!(
            limiter.commit("tokens", &reservation, 1).await.unwrap(),
            settled,
            "{limit}: D11"
        );
        let again = limiter.cancel("tokens", &reservation).await.unwrap();
        assert_eq!(again, Settlement::AlreadySettled, "{limit}");
        let other = limiter.commit("other", &reservation, 1).await.unwrap();
        assert_eq!(other, Settlement::Unknown, "{limit}");
        let reused = reserve(1, 4).await.unwrap_err();
        let is_refused =
            matches!(reused, Error::Store(StoreError::Record(RecordError::OperationReused)));
        assert!(is_refused, "{limit}: {reused:?}");

        let late = reserve(3, 2).await.unwrap().reservation.expect("it is admitted");
        bench.at(HOLD);
        assert_eq!(limiter.cancel("tokens", &late).await.unwrap(), Settlement::Expired, "{limit}");
        limiter.reset("tokens").await.unwrap();
    }
}
