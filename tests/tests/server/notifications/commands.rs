//! The messages of a command, and their receivers.

use std::time::Duration;

use lockage::notifications::{Notification, Notifications, Wake};
use lockage::store::{RecordError, Timestamp};
use lockage_core::lock::{HoldId, Lock, OwnerId};
use lockage_core::{Command, Publish, Ran, Record, ReplyError, ScriptId, TextCall};
use lockage_memory::MemoryStore;
use lockage_tests::server::Server;

use super::{fred, key, redis_rs, signal, wait};

/// A command that publishes at a given place.
#[derive(Clone)]
struct Knock(bool);

impl Command for Knock {
    type Outcome = bool;

    fn encode_text(&self) -> TextCall {
        TextCall::new(ScriptId::LimiterReset)
    }

    fn outcome(&self, _reply: &[i64]) -> Result<bool, ReplyError> {
        Err(ReplyError::Unexpected)
    }

    fn reply(&self, _: &bool, _: &Ran<'_>) -> Vec<i64> {
        Vec::new()
    }

    fn apply(&self, _slot: &mut Option<Record>, _now: Timestamp) -> Result<bool, RecordError> {
        Ok(self.0)
    }

    fn publishes(&self, outcome: &bool, _stored: Option<&Record>) -> Publish {
        if *outcome { Publish::Any } else { Publish::Nothing }
    }
}

#[test]
fn a_command_in_memory_publishes_as_its_outcome_requires() {
    let store = MemoryStore::new();
    let other = store.clone();
    smol::block_on(async {
        let mut listener = other.listen(&key("a"), Wake::One).await.unwrap();
        store.run(key("a").as_str(), &Knock(false)).unwrap();
        store.run(key("b").as_str(), &Knock(true)).unwrap();
        assert_eq!(wait(&mut listener).await, None);
        store.run(key("a").as_str(), &Knock(true)).unwrap();
        assert_eq!(signal(&mut listener).await, Notification::Message);
    });
}

/// L9: when a lock is given back, or the first waiter in line leaves, the next one is notified, and no other.
async fn the_next_waiter_is_notified<S: Notifications>(store: S) {
    let key = key("in-line");
    let lock = Lock::new(Duration::from_secs(60), Duration::from_secs(60)).unwrap();
    // A name of digits only, too, which looks like a number.
    let [alice, bob, carol, dora] = [0xa11ce, 7, 0xca401, 0xd04a].map(OwnerId::from_u128);
    let id = HoldId::from_u128;
    let acquire = |owner, number| lock.acquire(owner, id(number), Timestamp::MAX);
    let line = |owner, number| acquire(owner, number).queued(Duration::from_secs(60));
    store.execute(&key, &acquire(alice, 1)).await.unwrap();
    store.execute(&key, &line(bob, 2)).await.unwrap();
    store.execute(&key, &line(carol, 3)).await.unwrap();
    let mut any = store.listen(&key, Wake::One).await.unwrap();
    let mut of_bob = store.listen(&key, Wake::Named(bob.as_u128())).await.unwrap();
    let mut of_carol = store.listen(&key, Wake::Named(carol.as_u128())).await.unwrap();
    store.execute(&key, &lock.release(alice, id(1))).await.unwrap();
    assert_eq!(signal(&mut of_bob).await, Notification::Message);
    assert_eq!(wait(&mut of_carol).await, None);
    store.execute(&key, &lock.withdraw(bob)).await.unwrap();
    assert_eq!(signal(&mut of_carol).await, Notification::Message);
    let grant = store.execute(&key, &line(carol, 5)).await.unwrap();
    let lockage::store::lock::Answer::Held(hold) = grant.answer else {
        panic!("she is next: {grant:?}")
    };
    // While it is held, nothing is published.
    store.execute(&key, &line(bob, 6)).await.unwrap();
    store.execute(&key, &lock.withdraw(bob)).await.unwrap();
    for listener in [&mut any, &mut of_bob, &mut of_carol] {
        assert_eq!(wait(listener).await, None);
    }
    // A caller waits, and none is in line.
    store.execute(&key, &acquire(dora, 7).waiting(Duration::from_secs(60))).await.unwrap();
    store.execute(&key, &lock.force_release(hold.token)).await.unwrap();
    assert_eq!(signal(&mut any).await, Notification::Message);
    assert_eq!([wait(&mut of_bob).await, wait(&mut of_carol).await], [None, None]);
}

#[tokio::test]
async fn l9_the_next_waiter_is_notified_in_memory_and_by_both_clients() {
    the_next_waiter_is_notified(MemoryStore::new()).await;
    let server = Server::start();
    the_next_waiter_is_notified(redis_rs(&server)).await;
    redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
    the_next_waiter_is_notified(fred(&server)).await;
}
