//! Limiters on every store.

use std::time::Duration;

use lockage::{Key, Store, Verdict};
use lockage_core::{Acquire, Decision, RequestId};

use super::{Bench, LIMITS};

const TICK: Duration = Duration::from_micros(1);

/// D1, D2, D4: the capacity is admitted, then nothing, until exactly `retry_after`; at
/// `reset_after` all of it is back.
pub(super) async fn admits_the_capacity_and_recovers<S: Store + Clone>(bench: &Bench<'_, S>) {
    for limit in LIMITS {
        let limiter = bench.limiter("capacity", limit);
        for left in (0..5).rev() {
            let decision = limiter.try_acquire("wait", 1).await.unwrap();
            assert!(decision.is_allowed(), "{limit}");
            assert_eq!((decision.limit, decision.remaining), (5, left), "{limit}");
        }
        let denied = limiter.try_acquire("wait", 1).await.unwrap();
        let Verdict::Denied { retry_after, .. } = denied.verdict else {
            panic!("{limit}: {denied:?}")
        };
        bench.at(retry_after - TICK);
        assert!(!limiter.peek("wait", 1).await.unwrap().is_allowed(), "{limit}");
        bench.at(retry_after);
        assert!(limiter.peek("wait", 1).await.unwrap().is_allowed(), "{limit}");

        // Another key: a store may have dropped that one by now, and time goes back here.
        bench.at(Duration::ZERO);
        let used = limiter.try_acquire("reset", 5).await.unwrap();
        bench.at(used.reset_after - TICK);
        assert_eq!(limiter.peek("reset", 0).await.unwrap().reset_after, TICK, "{limit}");
        bench.at(used.reset_after);
        let fresh = limiter.peek("reset", 5).await.unwrap();
        assert!(fresh.is_allowed() && fresh.reset_after == Duration::ZERO, "{limit}: {fresh:?}");

        let never = limiter.try_acquire("reset", 6).await.unwrap();
        assert_eq!(never.verdict, Verdict::Never, "{limit}");
    }
}

/// A list in one call gets the answers of the same requests one by one.
pub(super) async fn lists_are_decided_as_if_sent_singly<S: Store + Clone>(bench: &Bench<'_, S>) {
    for limit in LIMITS {
        let limiter = bench.limiter("list", limit);
        let costs = [2, 6, 2, 2, 1, 1];
        let mut singly = Vec::new();
        for cost in costs {
            singly.push(limiter.try_acquire("singly", cost).await.unwrap());
        }
        let at_once = limiter.try_acquire_each("at once", &costs).await.unwrap();
        assert_eq!(at_once, singly, "{limit}");
        let admitted: Vec<bool> = singly.iter().map(|decision| decision.is_allowed()).collect();
        assert_eq!(admitted, [true, false, true, false, true, false], "{limit}");
        assert_eq!(
            limiter.peek("singly", 1).await.unwrap(),
            limiter.peek("at once", 1).await.unwrap()
        );
    }
}

/// D5: asking and being denied change no later decision.
pub(super) async fn peeks_and_denials_change_nothing<S: Store + Clone>(bench: &Bench<'_, S>) {
    for limit in LIMITS {
        let limiter = bench.limiter("peek", limit);
        for id in ["asked", "plain"] {
            bench.at(Duration::ZERO);
            _ = limiter.try_acquire(id, 4).await.unwrap();
            for second in 1..=12 {
                bench.at(Duration::from_secs(second));
                if id == "asked" {
                    _ = limiter.peek(id, 3).await.unwrap();
                    _ = limiter.try_acquire(id, 7).await.unwrap();
                }
            }
        }
        let asked = limiter.try_acquire("asked", 2).await.unwrap();
        assert_eq!(asked, limiter.try_acquire("plain", 2).await.unwrap(), "{limit}");
    }
}

/// A reset returns whether the key had a record, and leaves a fresh key.
pub(super) async fn resets_forget<S: Store + Clone>(bench: &Bench<'_, S>) {
    for limit in LIMITS {
        let limiter = bench.limiter("reset", limit);
        assert!(!limiter.reset("id").await.unwrap(), "{limit}");
        _ = limiter.try_acquire("id", 5).await.unwrap();
        assert!(limiter.reset("id").await.unwrap(), "{limit}");
        assert!(!limiter.reset("id").await.unwrap(), "{limit}");
        assert!(limiter.try_acquire("id", 5).await.unwrap().is_allowed(), "{limit}");
    }
}

/// D12: the usage of one key leaves all others untouched.
pub(super) async fn keys_are_independent<S: Store + Clone>(bench: &Bench<'_, S>) {
    for limit in LIMITS {
        let limiter = bench.limiter("keys", limit);
        for id in ["a", "b", "a}b", "ключ", "with space"] {
            let decision = limiter.try_acquire(id, 5).await.unwrap();
            assert!(decision.is_allowed(), "{limit}: {id}");
        }
    }
}

/// Many costs in one call are decided as if sent singly also where the key remembers a request, so that a server takes the
/// call in parts.
pub(super) async fn long_lists_are_decided_as_if_sent_singly<S: Store + Clone>(
    bench: &Bench<'_, S>,
) {
    for (index, limit) in LIMITS.into_iter().enumerate() {
        let prefix = format!("{}-long-{index}", bench.name);
        let limiter = bench.limiter("long", limit).with_prefix(&prefix).unwrap();
        let costs: Vec<u64> = (0..25).map(|number| [6, 1, 2][number % 3]).collect();
        for id in ["singly", "at once"] {
            let acquire = Acquire::new(limiter.limit().unwrap(), 1).unwrap();
            let request = RequestId::from_u128(7 << 64 | 0xFEED);
            let request = acquire.with_request(request, Duration::from_secs(60)).unwrap();
            let key = Key::new(&prefix, id).unwrap();
            assert!(bench.store.execute(&key, &request).await.unwrap().is_allowed(), "{limit}");
        }
        let mut singly = Vec::new();
        for cost in &costs {
            singly.push(limiter.try_acquire("singly", *cost).await.unwrap());
        }
        let at_once = limiter.try_acquire_each("at once", &costs).await.unwrap();
        assert_eq!(at_once, singly, "{limit}");
        let admitted = singly.iter().filter(|decision| decision.is_allowed()).count();
        assert_eq!(admitted, 3, "{limit}: 1, 2 and 1");
    }
}

/// D11: a request that is sent again under its id gets the same answer and is charged once; one that
/// was denied is a new attempt.
pub(super) async fn a_request_id_is_charged_once<S: Store + Clone>(bench: &Bench<'_, S>) {
    for (index, limit) in LIMITS.into_iter().enumerate() {
        let prefix = format!("{}-request-{index}", bench.name);
        let limiter = bench.limiter("request", limit).with_prefix(&prefix).unwrap();
        let key = Key::new(&prefix, "id").unwrap();
        let send = async |id: u128, cost: u64| -> Decision {
            let acquire = Acquire::new(limiter.limit().unwrap(), cost).unwrap();
            let id = RequestId::from_u128(id << 64 | 0xFEED);
            let request = acquire.with_request(id, Duration::from_secs(60)).unwrap();
            bench.store.execute(&key, &request).await.unwrap()
        };
        let first = send(1, 3).await;
        assert!(first.is_allowed(), "{limit}");
        bench.at(Duration::from_millis(1));
        assert_eq!(send(1, 3).await, first, "{limit}");
        assert_eq!(limiter.peek("id", 1).await.unwrap().remaining, 2, "{limit}");

        let denied = send(2, 5).await;
        bench.at(Duration::from_millis(1) + denied.retry_after().unwrap());
        let admitted = send(2, 5).await;
        assert!(admitted.is_allowed(), "{limit}");
        // Long after all of it is back, both are still remembered.
        bench.at(Duration::from_secs(59));
        for (id, cost, told) in [(1, 3, first), (2, 5, admitted)] {
            assert_eq!(send(id, cost).await, told, "{limit}");
        }
        assert_eq!(limiter.peek("id", 1).await.unwrap().remaining, 5, "{limit}");
        bench.at(Duration::from_secs(60));
        assert_eq!(send(1, 3).await.remaining, 2, "{limit}: a new attempt");
    }
}

/// Bug 18: 9,000 entries that expire at once are pruned by the next request.
pub(super) async fn many_expired_entries_are_no_trouble<S: Store + Clone>(bench: &Bench<'_, S>) {
    let limiter = bench.limiter("many", "sliding-log 10000/s");
    for _ in 0..9 {
        let decisions = limiter.try_acquire_each("id", &[1; 1000]).await.unwrap();
        assert!(decisions.iter().all(|decision| decision.is_allowed()));
    }
    bench.at(Duration::from_millis(500));
    _ = limiter.try_acquire("id", 1).await.unwrap();
    bench.at(Duration::from_secs(1));
    let decision = limiter.try_acquire("id", 9999).await.unwrap();
    assert!(decision.is_allowed());
    assert_eq!(decision.remaining, 0);
    let denied = limiter.try_acquire("id", 2).await.unwrap();
    // One unit is back after half a second, the second only with the large entry.
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
}
