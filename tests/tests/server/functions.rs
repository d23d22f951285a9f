//! Plain scripts as functions of the server: the same outcomes with them, without them, and while they come and go.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use fred::types::config::Config;
use lockage::lock::{Answer, HoldId, Lock, OwnerId};
use lockage::{Clock, Error, Key, Limit, Limiter, Replicated, Store, StoreError};
use lockage_core::{Acquire, ManualClock, Timestamp};
use lockage_fred::FredStore;
use lockage_redis_rs::{BlockingRedisStore, RedisStore};
use lockage_tests::config::Shape;
use lockage_tests::lock;
use lockage_tests::properties::{cases, equals_the_model, property};
use lockage_tests::server::{Cluster, Server, has_functions};
use lockage_tests::stores::{Model, Real, Session, Time};
use lockage_tests::strategies::trace;
use lockage_tests::subject::Limiter as Subject;
use lockage_tests::suite::blocking::Blocking;
use lockage_tests::suite::{Bench, START_US};
use proptest::prelude::*;
use redis::Client;
use redis::cluster::ClusterClientBuilder;

const LIMITS: [&str; 7] = [
    "fixed-window 5/h",
    "sliding-window 5/h",
    "sliding-log 5/h",
    "token-bucket 5/h burst 5",
    "token-bucket 5 every 1h burst 5",
    "leaky-bucket 5/h queue 5",
    "fixed-window 5/h + token-bucket 5/h burst 5",
];

/// Traces for each kind of limit, and for locks; and the longest of them.
const CASES: u32 = 75;
const STEPS: usize = 24;

const PATIENCE: Duration = Duration::from_secs(10);

/// A store that calls functions, and can give them to the server.
trait Functions: Store + Clone {
    async fn load(&self) -> Result<(), StoreError>;
}

impl<L: lockage_redis_rs::Link + Clone> Functions for RedisStore<L> {
    async fn load(&self) -> Result<(), StoreError> {
        self.load_functions().await
    }
}

impl<L: lockage_fred::Link + Clone> Functions for FredStore<L> {
    async fn load(&self) -> Result<(), StoreError> {
        self.load_functions().await
    }
}

impl Functions for Blocking<BlockingRedisStore<Client>> {
    async fn load(&self) -> Result<(), StoreError> {
        self.store().load_functions(PATIENCE)
    }
}

fn redis_rs(url: &str) -> RedisStore<lockage_redis_rs::Reconnecting> {
    RedisStore::connect(Client::open(url).unwrap()).with_functions()
}

fn fred(url: &str) -> FredStore<lockage_fred::Reconnecting> {
    FredStore::connect(Config::from_url(url).unwrap()).with_functions()
}

fn blocking(url: &str) -> Blocking<BlockingRedisStore<Client>> {
    Blocking::new(BlockingRedisStore::new(Client::open(url).unwrap()).with_functions())
}

/// How many calls a server has executed as functions, and as scripts.
fn executed(server: &Server) -> (u64, u64) {
    (server.calls_of("fcall"), server.calls_of("evalsha") + server.calls_of("eval"))
}

/// The same number of calls, the way that this server can do them.
fn by_functions(calls: u64) -> (u64, u64) {
    if has_functions() { (calls, 0) } else { (0, calls) }
}

/// Does what plain scripts do, in as many calls as it says.
async fn plain_calls(store: &impl Store, id: &str) -> u64 {
    for limit in LIMITS {
        let limiter = Limiter::new(store, limit.parse().unwrap()).with_prefix(limit).unwrap();
        for left in (0..5).rev() {
            assert_eq!(limiter.try_acquire(id, 1).await.unwrap().remaining, left, "{limit}");
        }
        assert!(!limiter.try_acquire(id, 1).await.unwrap().is_allowed(), "{limit}");
    }
    let lock = Lock::new(Duration::from_secs(60), Duration::from_secs(60)).unwrap();
    let [owner, other] = [1, 2].map(OwnerId::from_u128);
    let hold = HoldId::from_u128(1);
    let key = Key::new("lock", id).unwrap();
    let answers = [
        lock.acquire(owner, hold, Timestamp::MAX),
        lock.acquire(other, HoldId::from_u128(2), Timestamp::MAX),
        lock.renew(owner, None),
        lock.release(owner, hold),
    ];
    let mut told = Vec::new();
    for operation in &answers {
        told.push(store.execute(&key, operation).await.unwrap().answer);
    }
    let [Answer::Held(_), Answer::Refused(_), Answer::Held(_), Answer::Released { holds: 0, .. }] =
        told[..]
    else {
        panic!("{told:?}");
    };
    6 * LIMITS.len() as u64 + 4
}

/// Without the functions, with them, and without them again.
async fn functions_come_and_go(name: &str, server: &Server, store: impl Functions) {
    let mut plain = server.connection();
    let calls = plain_calls(&store, &format!("{name} before")).await;
    assert_eq!(executed(server), (0, calls), "{name}");

    // Twice, as each process of an application does.
    for _ in 0..2 {
        assert_eq!(store.load().await.is_ok(), has_functions(), "{name}");
    }
    redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut plain).unwrap();
    let calls = plain_calls(&store, &format!("{name} with")).await;
    assert_eq!(executed(server), by_functions(calls), "{name}");

    let limiter = Limiter::new(&store, "token-bucket 9/h".parse().unwrap());
    for left in (0..9).rev() {
        match left % 3 {
            1 if has_functions() => redis::cmd("FUNCTION").arg("FLUSH").exec(&mut plain).unwrap(),
            2 if has_functions() => store.load().await.unwrap(),
            _ => {}
        }
        assert_eq!(limiter.try_acquire(name, 1).await.unwrap().remaining, left, "{name}");
    }
}

#[tokio::test]
async fn functions_come_and_go_and_nothing_is_lost_or_done_twice() {
    for name in ["redis-rs", "fred", "blocking"] {
        let server = Server::start();
        match name {
            "redis-rs" => functions_come_and_go(name, &server, redis_rs(&server.url())).await,
            "fred" => functions_come_and_go(name, &server, fred(&server.url())).await,
            _ => functions_come_and_go(name, &server, blocking(&server.url())).await,
        }
    }
}

/// How far the caller's clock may be off the server's: much, here.
const SKEW: Duration = Duration::from_secs(3600);

async fn suite<S: Store + Clone>(name: &str, store: impl FnOnce(Arc<dyn Clock>) -> S) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(START_US).unwrap()));
    let store = store(Arc::clone(&clock) as Arc<dyn Clock>);
    let set_us = |now_us| clock.set(Timestamp::from_micros(now_us).unwrap());
    Bench { name, store, set_us: &set_us }.run().await;
}

/// On a server that has not been given the functions, and then on one that has.
#[tokio::test]
async fn the_suite_passes_by_functions_and_without_them() {
    let server = Server::start();
    let url = server.url();
    for name in ["without", "with"] {
        let is_loaded = name == "with" && has_functions();
        if is_loaded {
            redis_rs(&url).load_functions().await.unwrap();
        }
        suite(&format!("redis-rs {name}"), |clock| redis_rs(&url).with_clock(clock, SKEW)).await;
        suite(&format!("fred {name}"), |clock| fred(&url).with_clock(clock, SKEW)).await;
        let store = BlockingRedisStore::new(Client::open(&url[..]).unwrap()).with_functions();
        let blocking = |clock| Blocking::new(store.with_clock(clock, SKEW));
        suite(&format!("blocking {name}"), blocking).await;
        assert_eq!(server.calls_of("fcall") > 0, is_loaded, "{name}");
    }
}

/// Where its error can be read: these arguments begin with zeros.
#[tokio::test]
async fn a_server_that_does_not_know_functions_runs_the_scripts() {
    let server = Server::without("FCALL");
    let limit: Limit = "fixed-window 9/h".parse().unwrap();
    let url = server.url();
    for left in [8, 5, 2] {
        let redis_rs = Limiter::new(redis_rs(&url), limit).try_acquire("id", 1).await.unwrap();
        let fred = Limiter::new(fred(&url), limit).try_acquire("id", 1).await.unwrap();
        let blocking = Limiter::new(blocking(&url), limit).try_acquire("id", 1).await.unwrap();
        let remaining = [redis_rs, fred, blocking].map(|decision| decision.remaining);
        assert_eq!(remaining, [left, left - 1, left - 2]);
    }
}

/// With functions, for a user who may not call them, and on a server that does not know `FCALL`: through redis-rs each
/// of these is another error of a transaction.
#[tokio::test]
async fn calls_that_wait_for_replicas_are_done_with_and_without_functions() {
    for (server, knows) in [(Server::start(), has_functions()), (Server::without("FCALL"), false)] {
        let mut make = redis::cmd("ACL");
        make.arg("SETUSER").arg(&["without", "on", ">pw", "~*", "&*", "+@all"]);
        // Before 7.0 there is no such command to be refused.
        if knows {
            make.arg("-fcall");
        }
        make.exec(&mut server.connection()).unwrap();
        let users = [server.url(), server.url().replace("//", "//without:pw@")];
        let mut left = 100;
        for loads in [false, true] {
            if loads && has_functions() {
                redis_rs(&server.url()).load_functions().await.unwrap();
            }
            for url in &users {
                acknowledged(&redis_rs(url), &mut left).await;
                acknowledged(&fred(url), &mut left).await;
            }
        }
        assert_eq!(left, 92, "each was charged once");
        assert_eq!(server.calls_of("fcall"), if knows { 2 } else { 0 });
    }
}

async fn acknowledged(store: &impl Replicated, left: &mut u64) {
    let acquire = Acquire::new("fixed-window 100/h".parse::<Limit>().unwrap(), 1).unwrap();
    let key = Key::new("replicated", "id").unwrap();
    let (outcome, _) = store.execute_acknowledged(&key, &acquire, 0, PATIENCE).await.unwrap();
    *left -= 1;
    assert_eq!(outcome.remaining, *left);
}

/// A function is refused where a script would have been run up to its first write.
#[tokio::test]
async fn a_denial_is_a_denial_where_the_server_takes_no_writes() {
    let server = Server::start();
    let mut plain = server.connection();
    let store = redis_rs(&server.url());
    assert_eq!(store.load_functions().await.is_ok(), has_functions());
    let limit: Limit = "token-bucket 1/h".parse().unwrap();
    let (redis_rs, fred) = (Limiter::new(store, limit), Limiter::new(fred(&server.url()), limit));
    redis_rs.try_acquire("id", 1).await.unwrap();
    for (name, broken, mended) in [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")] {
        let mut config = |value| {
            redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec(&mut plain).unwrap();
        };
        config(broken);
        assert!(!redis_rs.try_acquire("id", 1).await.unwrap().is_allowed(), "{name}");
        assert!(!fred.try_acquire("id", 1).await.unwrap().is_allowed(), "{name}");
        let error = redis_rs.try_acquire("other", 1).await.unwrap_err();
        assert!(matches!(error, Error::Store(StoreError::NotDone(_))), "{name}: {error:?}");
        let error = fred.try_acquire("other", 1).await.unwrap_err();
        assert!(matches!(error, Error::Store(StoreError::NotDone(_))), "{name}: {error:?}");
        config(mended);
    }
}

/// What was refused is not done, and what was not answered is unknown.
async fn loading_fails(store: impl Functions, server: &Server) {
    let error = store.load().await.unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
    server.freeze();
    let error = store.load().await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    server.thaw();
}

#[tokio::test]
async fn loading_that_fails_says_so() {
    let server = Server::without("FUNCTION");
    loading_fails(redis_rs(&server.url()), &server).await;
    loading_fails(fred(&server.url()), &server).await;
    let store = BlockingRedisStore::new(Client::open(server.url()).unwrap());
    let error = store.load_functions(PATIENCE).unwrap_err();
    assert!(matches!(error, StoreError::NotDone(_)), "{error:?}");
    server.freeze();
    let error = store.load_functions(Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
}

/// Each master has the functions, and a slot is followed with and without them.
async fn functions_in_a_cluster(all: &Cluster, store: impl Functions) {
    assert_eq!(store.load().await.is_ok(), has_functions());
    for node in 0..6 {
        redis::cmd("CONFIG").arg("RESETSTAT").exec(&mut all.connection(node)).unwrap();
    }
    let mut calls = 0;
    for id in 0..12 {
        calls += plain_calls(&store, &format!("{id}")).await;
    }
    let sums = all.nodes().iter().map(executed);
    let sums = sums.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(sums, by_functions(calls));

    // The node that takes the slot over is asked (ASK): it has the functions, then has them no more.
    let limiter = Limiter::new(&store, "token-bucket 5/h".parse().unwrap());
    let moving = "lockage:{moving}";
    let from = all.master_of(moving);
    let to = (0..12).map(|id| all.master_of(&format!("{{{id}}}"))).find(|to| *to != from).unwrap();
    all.begin_migration(moving, to);
    assert_eq!(limiter.try_acquire("moving", 1).await.unwrap().remaining, 4);
    if has_functions() {
        redis::cmd("FUNCTION").arg("FLUSH").exec(&mut all.connection(to)).unwrap();
    }
    assert_eq!(limiter.try_acquire("moving", 1).await.unwrap().remaining, 3);
    all.end_migration(moving);
    // The old master does not have the slot any more (MOVED).
    for left in (0..3).rev() {
        assert_eq!(limiter.try_acquire("moving", 1).await.unwrap().remaining, left);
    }
}

#[tokio::test]
async fn functions_are_called_in_a_cluster_through_redis_rs() {
    let all = Cluster::start();
    let store = RedisStore::cluster(ClusterClientBuilder::new(all.urls())).unwrap();
    functions_in_a_cluster(&all, store.with_functions()).await;
}

#[tokio::test]
async fn functions_are_called_in_a_cluster_through_fred() {
    let all = Cluster::start();
    let url = all.urls().join(",").replace("redis://", "").replacen(',', "?node=", 1);
    let url = format!("redis-cluster://{}", url.replace(',', "&node="));
    functions_in_a_cluster(&all, fred(&url)).await;
}

/// Whose clock decides.
fn time() -> impl Strategy<Value = Time> {
    let caller = Time::Caller { store_ahead_us: -7_000, skew_ms: 20 };
    prop_oneof![3 => Just(Time::Store), 1 => Just(caller)]
}

/// On a real server and an injected clock.
#[test]
fn functions_are_the_same_machines() {
    let session = RefCell::new(Session::with_functions());
    for shape in Shape::ALL {
        let name = format!("three_way_functions_{}", shape.name());
        property(&name, cases(CASES), &(trace(shape, STEPS), time()), |(trace, time)| {
            let limit = trace.limits.limit();
            let mut on_real = Subject::on(Real::new(&session, time), limit);
            equals_the_model(&mut Subject::on(Model::new(time), limit), &mut on_real, &trace)
        });
    }
    let input = (lock::trace(STEPS, true), time());
    property("three_way_functions_lock", cases(CASES), &input, |(trace, time)| {
        let mut on_real = lock::OnKey(Real::new(&session, time));
        lock::equality::equals_the_model(&mut lock::OnKey(Model::new(time)), &mut on_real, &trace)
    });
    assert_eq!(session.borrow().server().calls_of("fcall") > 0, has_functions());
}
