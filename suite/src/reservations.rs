//! Reservations on every store.

use std::time::Duration;

use lockage::limiter::{Renewal, RequestId, Reservation, Settlement};
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

/// D15: a renewed reservation is settled after its first end as if its true cost had been charged. One that is not renewed in
/// time stays charged.
pub(super) async fn a_renewed_reservation_is_settled_later<S: Store + Clone>(bench: &Bench<'_, S>) {
    for (index, limit) in LIMITS.into_iter().enumerate() {
        let limiter = bench.limiter("renew", limit);
        let id = |name: u128| RequestId::from_u128(1_000 + 10 * index as u128 + name);
        let reserve = async |name| {
            let reserved = limiter.reserve_as("tokens", 4, id(name), HOLD).await.unwrap();
            reserved.reservation.expect("it is admitted")
        };
        let renew = async |reservation: &Reservation| {
            limiter.renew("tokens", reservation, HOLD).await.unwrap()
        };
        let renewed = async |reservation: &Reservation| match renew(reservation).await {
            Renewal::Renewed(longer) => longer,
            other => panic!("{limit}: {other:?}"),
        };
        assert!(limiter.try_acquire("other", 1).await.unwrap().is_allowed());
        let first = reserve(1).await;
        let before = limiter.peek("tokens", 0).await.unwrap();
        let second = renewed(&first).await;
        assert_eq!(second.expires_at.saturating_since(first.expires_at), HOLD, "{limit}");
        assert_eq!(renewed(&first).await, second, "{limit}: D11");
        assert_eq!(limiter.peek("tokens", 0).await.unwrap(), before, "{limit}: nothing is charged");
        bench.at(HOLD + HOLD / 2);
        let third = renewed(&second).await;
        assert_eq!(renewed(&first).await, third, "{limit}: an end never moves back");
        bench.at(HOLD * 2 + HOLD / 2);
        let settled = limiter.commit("tokens", &first, 1).await.unwrap();
        assert!(matches!(settled, Settlement::Settled { .. }), "{limit}: {settled:?}");
        let [left, other] = ["tokens", "other"].map(|id| limiter.peek(id, 0));
        assert_eq!(left.await.unwrap().remaining, other.await.unwrap().remaining, "{limit}: D15");
        assert_eq!(renew(&third).await, Renewal::AlreadySettled, "{limit}");

        bench.at(HOLD * 20);
        let late = reserve(2).await;
        let unknown = Reservation { id: id(3), ..late };
        assert_eq!(renew(&unknown).await, Renewal::Unknown, "{limit}");
        bench.at(HOLD * 21);
        assert_eq!(renew(&late).await, Renewal::Expired, "{limit}");
        assert_eq!(limiter.cancel("tokens", &late).await.unwrap(), Settlement::Expired, "{limit}");
    }
}

/// E9: places are kept for as long as their reservation is renewed, many leases here, and are all given back by its
/// settlement. Those of a holder that renews nothing return within two leases.
pub(super) async fn places_are_given_back<S: Store + Clone>(bench: &Bench<'_, S>) {
    let limiter = bench.limiter("in_flight", "in-flight 5 lease 2s");
    let reserve = async |name: u128, places| {
        let id = RequestId::from_u128(2_000 + name);
        limiter.reserve_as("places", places, id, HOLD).await.unwrap()
    };
    let left = async || limiter.peek("places", 0).await.unwrap().remaining;
    let mut held = reserve(1, 3).await.reservation.expect("it is admitted");
    for half in 1..=12_u32 {
        bench.at(HOLD / 2 * half);
        assert!(!reserve(2, 3).await.decision.is_allowed(), "after {half}");
        let renewed = limiter.renew("places", &held, HOLD).await.unwrap();
        let Renewal::Renewed(longer) = renewed else { panic!("after {half}: {renewed:?}") };
        let ends = longer.expires_at.saturating_since(held.expires_at);
        assert_eq!(ends, HOLD / 2, "at most a lease from now");
        held = longer;
    }
    let settled = limiter.commit("places", &held, 9).await.unwrap();
    assert!(matches!(settled, Settlement::Settled { amount: 3, .. }), "{settled:?}");
    assert_eq!(limiter.commit("places", &held, 9).await.unwrap(), settled, "D11");
    assert_eq!(left().await, 5);

    assert!(reserve(3, 4).await.reservation.is_some());
    assert!(limiter.try_acquire("places", 1).await.unwrap().is_allowed());
    assert_eq!(left().await, 0);
    bench.at(HOLD * 8);
    assert_eq!(left().await, 5);
}
