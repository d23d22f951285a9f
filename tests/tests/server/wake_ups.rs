//! L12 through listeners: waiters for a semaphore, a read-write lock or a latch are notified of changes that make
//! room, and of nothing else, in memory and on a server, through both clients.

use std::time::{Duration, Instant};

use fred::types::config::Config;
use lockage::Key;
use lockage::notifications::{Listener, Notification, Notifications, Wake};
use lockage::store::latch::Latch;
use lockage::store::latch::OperationId;
use lockage::store::lock::OwnerId;
use lockage::store::rw_lock::{self, HoldId, Mode, RwLock};
use lockage::store::semaphore::{self, PermitId, Semaphore};
use lockage::store::{Command, Timestamp};
use lockage_fred::FredStore;
use lockage_memory::MemoryStore;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;

const HOUR: Duration = Duration::from_secs(3600);
/// The time that a caller waits before it polls.
const BOUND: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn in_memory() {
    smol::block_on(a_waiter_hears(MemoryStore::new()));
}

#[tokio::test]
async fn on_a_server_through_redis_rs() {
    let server = Server::start();
    a_waiter_hears(RedisStore::connect(redis::Client::open(server.url()).unwrap())).await;
}

#[tokio::test]
async fn on_a_server_through_fred() {
    let server = Server::start();
    a_waiter_hears(FredStore::connect(Config::from_url(&server.url()).unwrap())).await;
}

async fn a_waiter_hears(store: impl Notifications) {
    l12_a_semaphore_notifies_its_waiters(Ear::at(&store, "semaphore").await).await;
    l12_a_read_write_lock_notifies_its_waiters(Ear::at(&store, "rw-lock").await).await;
    l12_a_latch_notifies_when_it_opens(Ear::at(&store, "latch").await).await;
}

async fn l12_a_semaphore_notifies_its_waiters(mut ear: Ear<'_, impl Notifications>) {
    use semaphore::Answer;
    let semaphore = Semaphore::new(1, HOUR, HOUR).unwrap();
    let id = PermitId::from_u128;
    let acquire = |number| semaphore.acquire(id(number), 1, Timestamp::MAX).unwrap();
    let release = |number| semaphore.release(id(number), None);

    assert!(matches!(ear.silent(&acquire(1)).await.answer, Answer::Held(_)));
    assert!(matches!(ear.silent(&acquire(2)).await.answer, Answer::Full { .. }));
    assert!(matches!(ear.silent(&release(1)).await.answer, Answer::Released { .. }));

    ear.silent(&acquire(3)).await;
    assert!(matches!(ear.silent(&acquire(4).waiting(HOUR)).await.answer, Answer::Full { .. }));
    assert!(matches!(ear.heard(&release(3)).await.answer, Answer::Released { .. }));
    assert!(matches!(ear.silent(&release(3)).await.answer, Answer::Released { .. }), "L10");
}

async fn l12_a_read_write_lock_notifies_its_waiters(mut ear: Ear<'_, impl Notifications>) {
    use rw_lock::Answer;
    let lock = RwLock::new(HOUR, HOUR).unwrap();
    let [alice, bob] = [1, 2].map(OwnerId::from_u128);
    let id = HoldId::from_u128;
    let read = |owner, hold| lock.read(owner, id(hold), Timestamp::MAX);
    let write = |owner, hold| lock.write(owner, id(hold), Timestamp::MAX);
    let release = |owner, mode, hold| lock.release(owner, mode, id(hold));

    ear.silent(&read(alice, 1)).await;
    assert!(matches!(ear.silent(&write(bob, 2)).await.answer, Answer::Refused { .. }));
    ear.silent(&release(alice, Mode::Read, 1)).await;

    ear.silent(&read(alice, 3)).await;
    ear.silent(&read(alice, 4)).await;
    let refused = ear.silent(&write(bob, 5).waiting(HOUR)).await.answer;
    assert!(matches!(refused, Answer::Refused { .. }));
    ear.silent(&release(alice, Mode::Read, 3)).await;
    ear.heard(&release(alice, Mode::Read, 4)).await;
    ear.silent(&release(alice, Mode::Read, 4)).await;

    // A writer that goes on reading lets other readers in.
    assert!(matches!(ear.silent(&write(bob, 5)).await.answer, Answer::Held(_)));
    assert!(matches!(ear.silent(&read(bob, 6)).await.answer, Answer::Held(_)));
    let refused = ear.silent(&read(alice, 7).waiting(HOUR)).await.answer;
    assert!(matches!(refused, Answer::Refused { .. }));
    ear.heard(&release(bob, Mode::Write, 5)).await;
    assert!(matches!(ear.silent(&read(alice, 7)).await.answer, Answer::Held(_)));
}

async fn l12_a_latch_notifies_when_it_opens(mut ear: Ear<'_, impl Notifications>) {
    let latch = Latch::new(HOUR).unwrap();
    let id = OperationId::from_u128;
    let set = |number| latch.set(1, id(number), Timestamp::MAX).unwrap();
    let down = |number| latch.count_down(1, id(number), Timestamp::MAX).unwrap();

    ear.silent(&latch.set(2, id(1), Timestamp::MAX).unwrap()).await;
    ear.silent(&down(2)).await;
    ear.heard(&down(3)).await;
    ear.silent(&down(3)).await;
    ear.silent(&down(4)).await;
    ear.silent(&latch.reset()).await;
    ear.silent(&set(5)).await;
    assert_eq!(ear.heard(&latch.reset()).await, Some(1));
    assert_eq!(ear.silent(&latch.reset()).await, None);
}

/// One key of a store, its listeners, and another key whose messages show that all before them have come.
struct Ear<'s, S> {
    store: &'s S,
    key: Key,
    listener: Listener,
    other: Key,
    others: Listener,
    /// The number of operations that the latch of the other key has seen.
    told: u128,
}

impl<'s, S: Notifications> Ear<'s, S> {
    async fn at(store: &'s S, id: &str) -> Self {
        let [key, other] =
            ["wake-ups", "wake-ups-after"].map(|prefix| Key::new(prefix, id).unwrap());
        let listener = store.listen(&key, Wake::All).await.unwrap();
        let others = store.listen(&other, Wake::All).await.unwrap();
        Ear { store, key, listener, other, others, told: 0 }
    }

    /// Runs a command, asserts that it wakes no listener, and returns its outcome.
    async fn silent<C: Command<Outcome: Send> + Sync>(&mut self, command: &C) -> C::Outcome {
        let outcome = self.run(command).await;
        // A later message arrives later, so nothing was published to this key before.
        let latch = Latch::new(HOUR).unwrap();
        let mut id = || {
            self.told += 1;
            OperationId::from_u128(self.told)
        };
        let set = latch.set(1, id(), Timestamp::MAX).unwrap();
        let open = latch.count_down(1, id(), Timestamp::MAX).unwrap();
        self.store.execute(&self.other, &set).await.unwrap();
        self.store.execute(&self.other, &open).await.unwrap();
        signal(&mut self.others).await;
        assert_eq!(wait(&mut self.listener).await, None, "{:?}", command.encode().script());
        outcome
    }

    /// Runs a command, waits until it wakes the listener, and returns its outcome.
    async fn heard<C: Command<Outcome: Send> + Sync>(&mut self, command: &C) -> C::Outcome {
        let outcome = self.run(command).await;
        signal(&mut self.listener).await;
        outcome
    }

    async fn run<C: Command<Outcome: Send> + Sync>(&self, command: &C) -> C::Outcome {
        self.store.execute(&self.key, command).await.expect("the store is up")
    }
}

/// Waits once, not for ever, as callers wait. Its timer runs under any executor.
async fn wait(listener: &mut Listener) -> Option<Notification> {
    let signal = async { Some(listener.next().await) };
    smol::future::or(signal, async {
        smol::Timer::after(BOUND).await;
        None
    })
    .await
}

/// Waits until there is a message.
async fn signal(listener: &mut Listener) {
    let deadline = Instant::now() + DEADLINE;
    while wait(listener).await != Some(Notification::Message) {
        assert!(Instant::now() < deadline, "no message: {listener:?}");
    }
}
