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

struct Scene {
    server: Server,
    limiter: Limiter<RedisStore>,
    /// The server's time, in seconds and microseconds.
    now: (u64, u64),
}

impl Scene {
    fn new() -> Self {
        let server = Server::start();
        let now = redis::cmd("TIME").query(&mut server.connection()).unwrap();
        let store = RedisStore::open(&server.url()).unwrap();
        let limiter = Limiter::new(store, limit!("gcra 1/h burst 20"));
        Scene { limiter: limiter.with_prefix("taken").unwrap(), server, now }
    }

    /// Writes the key of an older limiter, of which so much is used: as the Lua of the one does, and the Rust of the other.
    fn leave(&self, older: Older, id: &str, used: u64) {
        let (seconds, micros) = self.now;
        let full_at = seconds + used * INTERVAL.as_secs();
        let number = match older {
            Older::RedisRate => format!("{}.{micros:06}", full_at - 1_483_228_800),
            Older::RedisCell => format!("{full_at}{micros:06}000"),
        };
        self.set(older, id, &number);
    }

    fn set(&self, older: Older, id: &str, text: &str) {
        let mut set = redis::cmd("SET");
        set.arg(older.key(id)).arg(text).exec(&mut self.server.connection()).unwrap();
    }

    async fn take_over(&self, older: Older, id: &str) -> Result<u64, String> {
        let client = redis::Client::open(self.server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let taken = take_over(&mut connection, &self.limiter, older, id, (20, INTERVAL)).await;
        taken.map_err(|error| error.to_string())
    }

    fn has(&self, older: Older, id: &str) -> bool {
        redis::cmd("EXISTS").arg(older.key(id)).query(&mut self.server.connection()).unwrap()
    }

    async fn left(&self, id: &str) -> u64 {
        self.limiter.peek(id, 1).await.unwrap().remaining
    }
}

/// E1 and D11: the use of a key stays used, and is charged once by all who find it. The key is gone then.
#[tokio::test]
async fn the_use_of_an_older_key_is_charged_once() {
    let scene = Scene::new();
    for older in [Older::RedisRate, Older::RedisCell] {
        for used in [1, 8, 20] {
            let id = format!("{older:?}:{used}");
            scene.leave(older, &id, used);
            let call = || scene.take_over(older, &id);
            let (one, two, three) = tokio::join!(call(), call(), call());
            assert_eq!(one.unwrap() + two.unwrap() + three.unwrap(), used, "{id}");
            assert_eq!(scene.left(&id).await, 20 - used, "{id}");
            assert!(!scene.has(older, &id), "{id}");
        }
    }
}

/// D12: a key that the older limiter has not written, or that is full again, stays, and nothing is charged.
#[tokio::test]
async fn other_keys_stay_as_they_are() {
    let scene = Scene::new();
    for older in [Older::RedisRate, Older::RedisCell] {
        for text in ["a session", "", "7", "-1", "1e300", "inf", "nan"] {
            scene.set(older, "x", text);
            let taken = scene.take_over(older, "x").await;
            assert!(taken.as_ref().is_ok_and(|used| *used == 0) || taken.is_err(), "{taken:?}");
            assert_eq!((scene.left("x").await, scene.has(older, "x")), (20, true), "{text}");
        }
        scene.leave(older, "x", 21);
        assert!(scene.take_over(older, "x").await.unwrap_err().contains("out of range"));
        scene.leave(older, "x", 0);
        assert_eq!(scene.take_over(older, "x").await, Ok(0));
        assert_eq!((scene.left("x").await, scene.has(older, "x")), (20, true));
    }
}
