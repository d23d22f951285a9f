//! What is refused on every store, and leaves everything as it was.

use lockage::{CostError, Error, Key, KeyError, RecordError, Store, StoreError, lock};

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
    for (index, holder) in LIMITS.into_iter().enumerate() {
        let prefix = format!("{}-other-{index}", bench.name);
        let on_same_keys =
            |limit: &str| bench.limiter("other", limit).with_prefix(&prefix).unwrap();
        let first = on_same_keys(holder);
        first.try_acquire("id", 2).await.unwrap();

        for other in LIMITS.into_iter().filter(|other| *other != holder) {
            let other = on_same_keys(other);
            for refused in [other.try_acquire("id", 1).await, other.peek("id", 1).await] {
                assert_record_error(refused, RecordError::OtherKind);
            }
            assert_record_error(other.reset("id").await, RecordError::OtherKind);
        }
        let faster = on_same_keys(&holder.replacen("5", "6", 1).replacen("burst 5", "burst 6", 1));
        assert_record_error(faster.try_acquire("id", 1).await, RecordError::OtherLimit);

        let key = Key::new(&prefix, "id").unwrap();
        let lock = lock::Lock::new(Duration::from_secs(1), Duration::from_secs(1)).unwrap();
        let inspected = bench.store.execute(&key, &lock.inspect()).await;
        assert!(matches!(inspected, Err(StoreError::Record(RecordError::OtherKind))));

        assert_eq!(first.peek("id", 1).await.unwrap().remaining, 3, "{holder}");
        // A reset serves whichever limit of its kind wrote the record.
        assert!(faster.reset("id").await.unwrap(), "{holder}");
        assert!(faster.try_acquire("id", 1).await.unwrap().is_allowed(), "{holder}");
    }
}

#[track_caller]
fn assert_record_error<T: std::fmt::Debug>(result: Result<T, Error>, expected: RecordError) {
    match result {
        Err(Error::Store(StoreError::Record(error))) => assert_eq!(error, expected),
        other => panic!("{other:?} is not refused as {expected:?}"),
    }
}
