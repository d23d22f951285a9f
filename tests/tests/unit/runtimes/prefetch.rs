//! Requests that wait for the permits that a caller of another executor asks for.

use lockage::limiter::Prefetch;
use lockage::{Limiter, RetryStore};
use lockage_memory::testing::{FailingStore, Fate, paused_memory};
use tokio::time::{sleep, timeout};

use super::*;

/// They go on by themselves when its executor ends, and a timeout later where it is blocked.
#[tokio::test(start_paused = true)]
async fn waiters_depend_on_no_other_executor() {
    for ends in [true, false] {
        let (executors, store) = (Executors::default(), FailingStore::new(paused_memory()));
        let timed = RetryStore::new(store.clone(), executors.clone(), SECOND);
        let limiter = Limiter::new(timed, "fixed-window 100/h".parse().unwrap());
        let limiter = limiter.with_prefetch(Prefetch::new(10, SECOND * 10)).unwrap();
        let ask = || {
            let limiter = limiter.clone();
            async move { limiter.try_acquire("id", 1).await.unwrap().is_allowed() }
        };
        store.next([Fate::Silence]);
        let first = executors.run(1, ask());
        sleep(SECOND / 10).await;
        let waiters: Vec<_> = (0..3).map(|_| executors.run(2, ask())).collect();
        tokio::task::yield_now().await;
        match ends {
            true => executors.end(1).await,
            false => executors.block(1, true),
        }
        let longest = if ends { SECOND / 10 } else { SECOND * 11 / 10 };
        for waiter in waiters {
            assert!(timeout(longest, waiter).await.expect("it goes on").unwrap(), "{ends}");
        }
        drop(first);
    }
}
