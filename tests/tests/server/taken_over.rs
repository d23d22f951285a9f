//! The worked example of keys that other limiters have left: their use is charged once, whoever comes first.

use std::time::Duration;

use lockage::{Limiter, limit};
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;

#[path = "../../../adapter-redis-rs/examples/take_over.rs"]
#[allow(dead_code)]
mod take_over;

use take_over::{Older, take_over};

const INTERVAL: Duration = Duration::from_secs(3600);

/// E1 and D11: eight of 20 are used, and stay so for the limiter that takes over; the older key is gone, and is charged
/// once by all who find it. A number of the past is of a key that is full again.
#[tokio::test]
async fn the_use_of_an_older_key_is_charged_once() {
    let server = Server::start();
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut server.connection()).unwrap();
    let store = RedisStore::open(&server.url()).unwrap();
    let limiter = Limiter::new(store, limit!("gcra 1/h burst 20")).with_prefix("taken").unwrap();
    for (used, left) in [(8, 12), (0, 20)] {
        let full_at = seconds + used * INTERVAL.as_secs();
        // As the Lua of the one has it, and the Rust of the other.
        let rate = format!("{}.{micros:06}", full_at - 1_483_228_800);
        let cell = format!("{full_at}{micros:06}000");
        for (older, number) in [(Older::RedisRate, rate), (Older::RedisCell, cell)] {
            let id = format!("{older:?}:{used}");
            let key = older.key(&id);
            redis::cmd("SET").arg(&key).arg(number).exec(&mut server.connection()).unwrap();
            let client = redis::Client::open(server.url()).unwrap();
            let call = async || {
                let mut connection = client.get_multiplexed_async_connection().await.unwrap();
                take_over(&mut connection, &limiter, older, &id, INTERVAL).await.unwrap()
            };
            let (one, two, three) = tokio::join!(call(), call(), call());
            assert_eq!(one + two + three, used, "{older:?}");
            assert_eq!(limiter.peek(&id, 1).await.unwrap().remaining, left, "{older:?}");
            let is_there: bool =
                redis::cmd("EXISTS").arg(&key).query(&mut server.connection()).unwrap();
            assert!(!is_there, "{older:?}");
        }
    }
}
