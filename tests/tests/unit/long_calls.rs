//! Calls of many costs, which are cut where a server would be busy with them for long.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockage::limiter::RequestId;
use lockage::{Error, Key, Limit, Limiter, Store, StoreError};
use lockage_core::{Adjust, MAX_SLOW_COSTS};
use lockage_redis::{Link, LinkError, LuaStore, Reply, Request};
use lockage_tests::simulated::Simulated;

/// Notes how many arguments in text each call of a script has, and loses the connection before one of them.
#[derive(Clone)]
struct Watched {
    server: Simulated,
    sent: Arc<Mutex<Vec<usize>>>,
    ends_before: usize,
}

impl Link for Watched {
    async fn send(&self, request: &Request<'_>) -> Result<Reply, LinkError> {
        // In binary there are two.
        let arguments = request.arguments().count() - 3;
        if arguments > 2 && request.name() == "EVALSHA" {
            let mut sent = self.sent.lock().unwrap();
            if sent.len() == self.ends_before {
                return Err(LinkError::not_sent("the connection is over"));
            }
            sent.push(arguments);
        }
        self.server.send(request).await
    }
}

/// Returns the outcome of 25 requests on a key that remembers an adjustment, so that no call for it takes the fast
/// path, and the sent calls.
fn ask(limit: &str, ends_before: usize) -> (Result<usize, Error>, Vec<usize>) {
    pollster::block_on(async {
        let server = Simulated::start();
        let limit: Limit = limit.parse().unwrap();
        let adjust = Adjust::take_up_to(limit, 1).unwrap();
        let adjust = adjust.with_request(RequestId::from_u128(1), Duration::from_secs(60));
        let key = Key::new("long", "id").unwrap();
        _ = server.store().execute(&key, &adjust.unwrap()).await.unwrap();
        let link = Watched { server, sent: Arc::default(), ends_before };
        let limiter = Limiter::new(LuaStore::new(link.clone()), limit);
        let limiter = limiter.with_prefix("long").unwrap();
        let decisions = limiter.try_acquire_each("id", &[1; 25]).await;
        let allowed = decisions.map(|all| all.iter().filter(|one| one.is_allowed()).count());
        (allowed, link.sent.lock().unwrap().clone())
    })
}

/// D2, D7: each script call of the slow path decides a few, of a limit that has a fast path and of one that has none.
#[test]
fn the_slow_path_decides_a_few_at_a_time() {
    for (limit, words) in
        [("fixed-window 20/min", 3), ("fixed-window 20/min + sliding-log 30/min", 7)]
    {
        let (allowed, sent) = ask(limit, usize::MAX);
        assert_eq!(allowed.unwrap(), 19, "{limit}");
        let costs: Vec<usize> = sent.iter().map(|arguments| arguments - 3 - words).collect();
        let most = MAX_SLOW_COSTS;
        assert_eq!(costs, [most, most, most, most, 1], "{limit}");
    }
}

/// A loss before the first part is "not done". After it something was done, and it is not safe to ask again.
#[test]
fn a_call_that_ends_between_its_parts_is_unknown() {
    let (lost, _) = ask("fixed-window 20/min", 0);
    assert!(matches!(lost, Err(Error::Store(StoreError::NotDone(_)))), "{lost:?}");
    let (lost, sent) = ask("fixed-window 20/min", 1);
    assert!(matches!(lost, Err(Error::Store(StoreError::Unknown(_)))), "{lost:?}");
    assert_eq!(sent.len(), 1);
}
