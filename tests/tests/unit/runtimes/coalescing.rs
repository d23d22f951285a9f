//! Requests are sent by the executor of their callers.

use lockage::{Error, Limiter, RetryStore, StoreError};
use lockage_memory::testing::{FailingStore, Fate, paused_memory};
use tokio::time::sleep;

use super::*;

/// D10: a caller waits for no executor but its own.
#[tokio::test(start_paused = true)]
async fn callers_depend_on_no_other_executor() {
    for ends in [true, false] {
        let (executors, store) = (Executors::default(), FailingStore::new(paused_memory()));
        let timed = RetryStore::new(store.clone(), executors.clone(), SECOND);
        let limiter = Limiter::new(timed, "fixed-window 100/h".parse().unwrap());
        let limiter = limiter.with_coalescing(100).unwrap();
        let ask = || {
            let limiter = limiter.clone();
            async move { limiter.try_acquire("id", 1).await }
        };
        // The first call is in flight, and others wait behind it.
        store.next([Fate::Silence]);
        let first: Vec<_> = (0..3).map(|_| executors.run(1, ask())).collect();
        sleep(SECOND / 10).await;
        let second = executors.run(2, ask());
        tokio::task::yield_now().await;
        match ends {
            true => executors.end(1).await,
            false => executors.block(1, true),
        }
        let third = executors.run(2, ask());
        sleep(SECOND / 10).await;
        assert!(second.is_finished() && third.is_finished(), "{ends}");
        assert!(second.await.unwrap().unwrap().is_allowed());
        assert!(third.await.unwrap().unwrap().is_allowed());
        if !ends {
            // Those of the blocked one come to their end when it goes on.
            executors.block(1, false);
            for one in first {
                let told = one.await.unwrap();
                assert!(
                    matches!(&told, Ok(_) | Err(Error::Store(StoreError::Unknown(_)))),
                    "{told:?}"
                );
            }
            sleep(SECOND).await;
        }
        assert_eq!(limiter.coalescing_stats().unwrap().waiting, 0, "{ends}");
    }
}
