//! Other operations on a key than admissions, and limits that change, on every store.

use std::time::Duration;

use lockage::limiter::Adjusted;
use lockage::{Error, Store};

use super::{Bench, LIMITS};

const SECOND: Duration = Duration::from_secs(1);

/// Permits are taken, given back and charged, by the reported amount.
pub(super) async fn usage_can_be_adjusted<S: Store + Clone>(bench: &Bench<'_, S>) {
    for limit in LIMITS {
        let limiter = bench.limiter("adjust", limit);
        let unused = limiter.refund("id", 1).await.unwrap();
        assert_eq!(
            (unused.amount, unused.after.remaining),
            (0, 5),
            "{limit}: nothing to give back"
        );
        assert!(!limiter.reset("id").await.unwrap(), "{limit}: and nothing was written");

        _ = limiter.try_acquire("id", 2).await.unwrap();
        let taken = limiter.take_up_to("id", 100).await.unwrap();
        assert_eq!((taken.amount, taken.after.remaining), (3, 0), "{limit}");
        assert_eq!(limiter.take_up_to("id", 1).await.unwrap().amount, 0, "{limit}");
        let refund = limiter.refund("id", 4).await.unwrap();
        assert_eq!((refund.amount, refund.after.remaining), (4, 4), "{limit}");
        let penalty = limiter.penalty("id", 100).await.unwrap();
        assert_eq!(
            (penalty.amount, penalty.after.remaining),
            (9, 0),
            "{limit}: twice the capacity"
        );
        let all = limiter.refund("id", 100).await.unwrap();
        assert_eq!((all.amount, all.after.remaining), (10, 5), "{limit}");
    }
}

/// Permits are given back and charged by part, and a part that costs zero stays as it is.
pub(super) async fn each_part_is_adjusted_by_its_own_cost<S: Store + Clone>(bench: &Bench<'_, S>) {
    let limiter =
        bench.limiter("adjust-parts", "a: fixed-window 9/1m + b: token-bucket 60/1m burst 20");
    let left = |adjusted: &Adjusted| [0, 1].map(|part| adjusted.after.parts[part].remaining);
    _ = limiter.try_acquire_parts("id", &[3, 15]).await.unwrap();
    let refund = limiter.refund_parts("id", &[("b", 10)]).await.unwrap();
    assert_eq!((refund.amount, left(&refund)), (10, [6, 15]));
    let penalty = limiter.penalty_parts("id", &[8, 5]).await.unwrap();
    assert_eq!((penalty.amount, left(&penalty)), (8, [0, 10]));
    let all = limiter.refund_parts("id", &[100, 4]).await.unwrap();
    assert_eq!((all.amount, left(&all)), (11, [9, 14]));
    for wrong in
        [limiter.refund_parts("id", &[1]).await, limiter.penalty_parts("id", &[0, 0]).await]
    {
        assert!(matches!(wrong, Err(Error::Cost(_))), "{wrong:?}");
    }
    assert_eq!(left(&limiter.refund_parts("id", &[1, 1]).await.unwrap()), [9, 15]);
}

/// D2: a blocked key admits nothing until the end of the block, and is then as if never blocked.
pub(super) async fn a_block_ends_to_the_microsecond<S: Store + Clone>(bench: &Bench<'_, S>) {
    for limit in LIMITS {
        let limiter = bench.limiter("block", limit);
        _ = limiter.try_acquire("id", 1).await.unwrap();
        _ = limiter.block("id", 20 * SECOND).await.unwrap();
        let shorter = limiter.block("id", SECOND).await.unwrap();
        assert_eq!(shorter.amount, 20_000_000, "{limit}: a block only grows");
        for decision in [limiter.try_acquire("id", 1).await, limiter.peek("id", 5).await] {
            let decision = decision.unwrap();
            assert_eq!(decision.retry_after(), Some(20 * SECOND), "{limit}");
            assert!(decision.is_blocked() && decision.remaining == 0, "{limit}");
        }
        bench.at(20 * SECOND - Duration::from_micros(1));
        assert!(!limiter.try_acquire("id", 1).await.unwrap().is_allowed(), "{limit}");
        bench.at(20 * SECOND);
        let free = limiter.try_acquire("id", 5).await.unwrap();
        assert!(free.is_allowed() && !free.is_blocked(), "{limit}");

        bench.at(Duration::ZERO);
        _ = limiter.block("other", 20 * SECOND).await.unwrap();
        assert_eq!(limiter.unblock("other").await.unwrap().amount, 1, "{limit}");
        assert_eq!(limiter.unblock("other").await.unwrap().amount, 0, "{limit}");
        assert!(limiter.try_acquire("other", 5).await.unwrap().is_allowed(), "{limit}");
    }
}

/// A key goes from any limit to any other, and keeps its usage.
pub(super) async fn changed_limits_keep_the_usage<S: Store + Clone>(bench: &Bench<'_, S>) {
    for (index, old) in LIMITS.into_iter().enumerate() {
        for (to, new) in LIMITS.into_iter().enumerate() {
            let prefix = format!("{}-change-{index}-{to}", bench.name);
            let under = |limit: &str| bench.limiter("change", limit).with_prefix(&prefix).unwrap();
            // All of them admit 5; the new one 2 more.
            let new = new.replace("5/", "7/").replace("burst 5", "burst 7");
            let new = new.replace("queue 5", "queue 7");
            _ = under(old).try_acquire("id", 3).await.unwrap();
            let peeked = under(&new).peek("id", 1).await.unwrap();
            assert_eq!((peeked.limit, peeked.remaining), (7, 4), "{old} to {new}");
            assert_eq!(
                under(old).peek("id", 1).await.unwrap().remaining,
                2,
                "a peek changes nothing"
            );
            assert!(under(&new).try_acquire("id", 4).await.unwrap().is_allowed(), "{old} to {new}");
            let denied = under(&new).try_acquire("id", 1).await.unwrap();
            assert!(!denied.is_allowed(), "{old} to {new}");
            assert!(!under(old).try_acquire("id", 1).await.unwrap().is_allowed(), "{new} to {old}");
        }
    }
}
