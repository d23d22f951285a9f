//! Refusals on every store, which leave everything as it was.

use lockage::limiter::CostError;
use lockage::store::lock;
use lockage::store::lock::{HoldId, OwnerId};
use lockage::store::{KeyError, RecordError, Timestamp};
use lockage::{Error, Key, Store, StoreError};

use super::{Bench, LIMITS};
use std::time::Duration;

/// Bad input gets a typed error, and nothing is stored.
pub(super) async fn bad_input_is_refused_before_it_is_sent<S: Store + Clone>(bench: &Bench<'_, S>) {
    let limiter = bench.limiter("input", LIMITS[0]);
    let zero = limiter.try_acquire("id", 0).await;
    assert!(matches!(zero, Err(Error::Cost(CostError::Zero))), "{zero:?}");
    let empty = limiter.try_acquire_each("id", &[]).await;
    assert!(matches!(empty, Err(Error::Cost(CostError::Empty))), "{empty:?}");
    let nobody = limiter.try_acquire("", 1).await;
    assert!(matches!(nobody, Err(Error::Key(KeyError::EmptyId))), "{nobody:?}");
    let brace = limiter.peek("}id", 1).await;
    assert!(matches!(brace, Err(Error::Key(KeyError::BraceFirstInId))), "{brace:?}");
    assert!(!limiter.reset("id").await.unwrap());
}

/// D12: a key that holds something else is refused by its name, and kept.
pub(super) async fn another_record_is_refused_and_kept<S: Store + Clone>(bench: &Bench<'_, S>) {
    let span = Duration::from_secs(1);
    let lock = lock::Lock::new(span, span).unwrap();
    for (index, limit) in LIMITS.into_iter().enumerate() {
        let prefix = format!("{}-other-{index}", bench.name);
        let limiter = bench.limiter("other", limit).with_prefix(&prefix).unwrap();
        _ = limiter.try_acquire("used", 2).await.unwrap();
        let key = Key::new(&prefix, "used").unwrap();
        let inspected = bench.store.execute(&key, &lock.inspect()).await;
        assert!(matches!(inspected, Err(StoreError::Record(RecordError::OtherKind))));
        assert_eq!(limiter.peek("used", 1).await.unwrap().remaining, 3, "{limit}");

        let (owner, id) = (OwnerId::from_u128(1), HoldId::from_u128(1));
        let key = Key::new(&prefix, "held").unwrap();
        let acquire = lock.acquire(owner, id, Timestamp::MAX);
        let held = bench.store.execute(&key, &acquire).await.unwrap();
        for refused in [limiter.try_acquire("held", 1).await, limiter.peek("held", 1).await] {
            assert_record_error(refused, RecordError::OtherKind);
        }
        assert_record_error(limiter.refund("held", 1).await, RecordError::OtherKind);
        assert_record_error(limiter.reset("held").await, RecordError::OtherKind);
        assert_eq!(bench.store.execute(&key, &acquire).await.unwrap(), held, "{limit}");
    }
}

#[track_caller]
fn assert_record_error<T: std::fmt::Debug>(result: Result<T, Error>, expected: RecordError) {
    match result {
        Err(Error::Store(StoreError::Record(error))) => assert_eq!(error, expected),
        other => panic!("{other:?} is not refused as {expected:?}"),
    }
}
