//! Limits that stand in the store.

use std::time::Duration;

use lockage::limiter::{StoredLimit, StoredLimits};
use lockage::store::RecordError;
use lockage::{Error, Limit, Limiter, Store, StoreError};

use super::{Bench, LIMITS};

/// A key's limit is the one that is stored, whichever client asks, and its usage outlasts a change of the limit.
pub(super) async fn all_clients_follow_the_stored_limit<S: Store + Clone>(bench: &Bench<'_, S>) {
    bench.at(Duration::ZERO);
    for text in LIMITS {
        let limiter = limiter(bench, &format!("stored-{text}"), StoredLimits::new());
        let (one, other) = (limiter.clone(), limiter);
        assert!(matches!(one.try_acquire("id", 1).await, Err(Error::NoLimit)), "{text}");
        assert_eq!(one.stored_limit("id").await.unwrap(), None, "{text}");

        assert!(one.try_set_limit("id", limit(text)).await.unwrap(), "{text}");
        assert!(!other.try_set_limit("id", limit("fixed-window 9/h")).await.unwrap(), "{text}");
        assert_eq!(other.stored_limit("id").await.unwrap(), Some(StoredLimit::new(limit(text))));
        assert_eq!(one.try_acquire("id", 3).await.unwrap().remaining, 2, "{text}");
        let costs: Vec<bool> = allowed(other.try_acquire_each("id", &[1, 2, 1]).await.unwrap());
        assert_eq!(costs, [true, false, true], "{text}");
        assert_eq!(one.refund("id", 2).await.unwrap().amount, 2, "{text}");

        one.set_limit("id", limit("token-bucket 7/h burst 7")).await.unwrap();
        assert_eq!(other.peek("id", 0).await.unwrap().remaining, 4, "{text}");
        one.set_limit_afresh("id", limit(text)).await.unwrap();
        assert_eq!(other.peek("id", 0).await.unwrap().remaining, 5, "{text}");

        let plain = Limiter::new(bench.store.clone(), limit(text));
        let plain = plain.with_prefix(&prefix(bench, &format!("stored-{text}"))).unwrap();
        let refused = plain.try_acquire("id", 1).await.unwrap_err();
        let is_stored =
            matches!(refused, Error::Store(StoreError::Record(RecordError::LimitIsStored)));
        assert!(is_stored, "{text}: {refused:?}");
        assert!(one.reset("id").await.unwrap() && !one.reset("id").await.unwrap(), "{text}");
        assert!(plain.try_acquire("id", 5).await.unwrap().is_allowed(), "{text}");

        // Usage without a stored limit counts under the default.
        let limits = StoredLimits::new().with_default(limit("fixed-window 6/h"));
        let with_default = self::limiter(bench, &format!("stored-{text}"), limits);
        assert_eq!(with_default.try_acquire("id", 1).await.unwrap().remaining, 0, "{text}");
        assert_eq!(with_default.try_acquire("new", 1).await.unwrap().remaining, 5, "{text}");
        assert!(plain.try_acquire("new", 1).await.is_err(), "{text}");
    }
}

/// As Redisson's users have it: one message per telephone number and minute, and a limit that goes when
/// it was not used for a time.
pub(super) async fn one_message_per_number_and_minute<S: Store + Clone>(bench: &Bench<'_, S>) {
    let second = Duration::from_secs(1);
    bench.at(Duration::ZERO);
    let once = StoredLimit::new(limit("sliding-log 1/60s")).kept_for(100 * second).unwrap();
    let limiter = limiter(bench, "sms", StoredLimits::new().with_default(once));
    for number in ["+15550100", "+15550101"] {
        assert!(limiter.try_acquire(number, 1).await.unwrap().is_allowed());
        let decision = limiter.try_acquire(number, 1).await.unwrap();
        assert_eq!(decision.retry_after(), Some(60 * second));
    }
    bench.at(59 * second);
    assert!(!limiter.try_acquire("+15550100", 1).await.unwrap().is_allowed());
    bench.at(60 * second);
    assert!(limiter.try_acquire("+15550100", 1).await.unwrap().is_allowed());
    bench.at(101 * second);
    assert_eq!(limiter.stored_limit("+15550100").await.unwrap(), Some(once));
    assert_eq!(limiter.stored_limit("+15550101").await.unwrap(), None);
}

/// A limit per client is the same for each, and counts each one's usage by itself.
pub(super) async fn each_client_has_a_limit_of_its_own<S: Store + Clone>(bench: &Bench<'_, S>) {
    bench.at(Duration::ZERO);
    let client = |name| StoredLimits::new().as_client(name).unwrap();
    let one = limiter(bench, "per-client", client("worker-1"));
    let other = limiter(bench, "per-client", client("worker-2"));
    let limiter = limiter(bench, "per-client", StoredLimits::new());
    limiter
        .set_limit("id", StoredLimit::new(limit("fixed-window 5/h")).per_client())
        .await
        .unwrap();
    assert!(matches!(limiter.try_acquire("id", 1).await, Err(Error::NoClient)));
    assert_eq!(one.try_acquire("id", 4).await.unwrap().remaining, 1);
    assert_eq!(other.try_acquire("id", 1).await.unwrap().remaining, 4);
    // A change reaches each of them, and their usage counts.
    limiter
        .set_limit("id", StoredLimit::new(limit("token-bucket 6/h")).per_client())
        .await
        .unwrap();
    assert_eq!(one.try_acquire("id", 1).await.unwrap().remaining, 1);
    assert_eq!(other.try_acquire("id", 1).await.unwrap().remaining, 4);
    limiter.set_limit("id", limit("fixed-window 3/h")).await.unwrap();
    assert_eq!(one.try_acquire("id", 1).await.unwrap().remaining, 2);
    assert_eq!(other.try_acquire("id", 1).await.unwrap().remaining, 1);
}

fn limiter<S: Store + Clone>(
    bench: &Bench<'_, S>,
    scenario: &str,
    limits: StoredLimits,
) -> Limiter<S> {
    let limiter = Limiter::stored(bench.store.clone(), limits);
    limiter.with_prefix(&prefix(bench, scenario)).expect("no braces")
}

fn prefix<S>(bench: &Bench<'_, S>, scenario: &str) -> String {
    format!("{}-{scenario}", bench.name)
}

fn limit(text: &str) -> Limit {
    text.parse().expect("a limit")
}

fn allowed(decisions: Vec<lockage::Decision>) -> Vec<bool> {
    decisions.iter().map(lockage::Decision::is_allowed).collect()
}
