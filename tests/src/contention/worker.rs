//! A process whose tasks contend for limits and locks, and log their calls.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fred::types::config::Config;
use lockage::fenced::{Fenced, Kept};
use lockage::locks::{Busy, LockHandle, Released, TryLock};
use lockage::notifications::Notifications;
use lockage::runtime::Tokio;
use lockage::{Error, LockGuard, Locks, RetryStore, Store, StoreError};
use lockage_core::lock::OwnerId;
use lockage_fred::FredStore;
use lockage_redis_rs::RedisStore;
use lockage_world::simulation::Theme;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClient, SentinelServerType};
use serde::{Deserialize, Serialize};

use super::history::{self, Access, Acquired, Call, Entry, GivenBack, Holder, Log, Loss};
use super::{election, programs};

/// The settings of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Which process it is.
    pub process: usize,
    /// The client library of its calls.
    pub client: Client,
    /// The servers of the locks.
    pub locks: Servers,
    /// The other servers of a quorum.
    pub others: Vec<Servers>,
    /// The server of the guarded values.
    pub values: String,
    /// The number of locks.
    pub keys: usize,
    /// The number of tasks.
    pub tasks: usize,
    /// The duration of a grant.
    pub lease: Duration,
    /// The seed.
    pub seed: u64,
    /// Whether locks are taken at all.
    pub guarded: bool,
    /// The workload of its tasks.
    pub workload: Workload,
    /// The file of its history.
    pub file: PathBuf,
}

/// The workload of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// They count in guarded values.
    Counters,
    /// They run programs of the simulated worlds.
    Programs(Theme),
    /// The process campaigns for one lock, and polls as often as this.
    Lead {
        /// The poll.
        poll: Duration,
    },
}

/// A client library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Client {
    /// The `redis` crate.
    RedisRs,
    /// The `fred` crate.
    Fred,
}

/// The servers of the locks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Servers {
    /// On the server of this URL.
    One(String),
    /// On the master that sentinels name.
    Sentinels {
        /// The URLs of the sentinels.
        urls: Vec<String>,
        /// The name of the master.
        service: String,
    },
}

/// Runs the process until its standard input ends.
///
/// # Panics
/// Where the settings cannot be parsed, or the guarded values cannot be reached.
pub fn run(settings: &str) {
    let settings: Settings = serde_json::from_str(settings).expect("settings as JSON");
    let stop = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&stop);
    std::thread::spawn(move || {
        // Nothing is sent: it ends, also where the other process does.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stops.store(true, Ordering::Relaxed);
    });
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("threads can be started");
    runtime.block_on(async {
        match settings.client {
            Client::RedisRs => work(&settings, redis_rs, stop).await,
            Client::Fred => work(&settings, fred, stop).await,
        }
    });
}

async fn work<S>(settings: &Settings, open: impl Fn(&Servers) -> S, stop: Arc<AtomicBool>)
where
    S: Notifications + Clone + 'static,
{
    let store = open(&settings.locks);
    match settings.workload {
        Workload::Counters => {
            let values = open(&Servers::One(settings.values.clone()));
            tasks(settings, store, values, stop).await;
        }
        Workload::Programs(theme) => {
            let others = settings.others.iter().map(open).collect();
            programs::run(settings, theme, (store, others), stop).await;
        }
        Workload::Lead { poll } => {
            let values = open(&Servers::One(settings.values.clone()));
            election::campaign(settings, poll, (store, values), &stop).await;
        }
    }
}

pub(super) fn redis_rs(servers: &Servers) -> RedisStore {
    match servers {
        Servers::One(url) => RedisStore::connect(redis::Client::open(url.as_str()).expect("a URL")),
        Servers::Sentinels { urls, service } => {
            let kind = SentinelServerType::Master;
            let client = SentinelClient::build(urls.clone(), service.clone(), None, kind);
            RedisStore::sentinel(client.expect("URLs of sentinels"))
        }
    }
}

fn fred(servers: &Servers) -> FredStore {
    let url = match servers {
        Servers::One(url) => url.clone(),
        Servers::Sentinels { urls, service } => {
            let nodes: Vec<&str> =
                urls.iter().map(|url| url.trim_start_matches("redis://")).collect();
            let others = nodes[1..].join("&node=");
            format!("redis-sentinel://{}?node={others}&sentinelServiceName={service}", nodes[0])
        }
    };
    FredStore::connect(Config::from_url(&url).expect("a URL"))
}

/// The timeout of a call for guarded values. Their server has no faults.
const PATIENT: Duration = Duration::from_secs(20);

async fn tasks<S>(settings: &Settings, locks: S, values: S, stop: Arc<AtomicBool>)
where
    S: Notifications + Clone + 'static,
{
    let log = Arc::new(Log::create(&settings.file).expect("a history can be written"));
    let locks = RetryStore::new(locks, Tokio, settings.lease / 4);
    let locks = Locks::new(locks, settings.lease).expect("a lease");
    let values = RetryStore::new(values, Tokio, PATIENT);
    let values = Fenced::new(values, Duration::from_secs(3600)).expect("an hour");
    let client = redis::Client::open(settings.values.as_str()).expect("a URL");
    let patient = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENT))
        .set_response_timeout(Some(PATIENT));
    let plain = client.get_multiplexed_async_connection_with_config(&patient).await;
    let plain = plain.expect("what is guarded has a server");
    let mut running = tokio::task::JoinSet::new();
    for task in 0..settings.tasks {
        let mut task = Task {
            settings: settings.clone(),
            task,
            // Some waiters are woken, the others poll.
            locks: if task % 2 == 0 { locks.clone().with_wake_ups() } else { locks.clone() },
            values: values.clone(),
            plain: plain.clone(),
            log: Arc::clone(&log),
            chance: fastrand::Rng::with_seed(
                settings.seed ^ (settings.process << 16 | task) as u64,
            ),
        };
        let stop = Arc::clone(&stop);
        running.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                task.turn().await;
                let pause = task.chance.u64(0..5000);
                tokio::time::sleep(Duration::from_micros(pause)).await;
            }
        });
    }
    running.join_all().await;
}

struct Task<S> {
    settings: Settings,
    task: usize,
    locks: Locks<S, Tokio>,
    values: Fenced<RetryStore<S, Tokio>>,
    /// The connection to the values that check no tokens.
    plain: MultiplexedConnection,
    log: Arc<Log>,
    chance: fastrand::Rng,
}

/// A turn of a task: its owner, and the lock.
#[derive(Clone)]
struct Turn {
    key: String,
    owner: OwnerId,
}

impl<S: Store + Clone + 'static> Task<S> {
    /// Takes a lock in one way or another, works under it, and gives it back in one way or another.
    async fn turn(&mut self) {
        let key = format!("lock{}", self.chance.usize(0..self.settings.keys));
        let turn = Turn { key, owner: self.locks.new_owner() };
        if !self.settings.guarded {
            self.work(&turn, 1, None).await;
            return;
        }
        // Each turn is an owner of its own, whose name is known also where no answer comes.
        let lock = self.locks.lock(&turn.key).expect("a plain name").as_owner(turn.owner);
        // Some wait in line.
        let lock = if self.chance.bool() { lock.fair() } else { lock };
        let Some(guard) = self.acquire(&turn, &lock).await else { return };
        if self.work(&turn, guard.token(), Some(&guard)).await && self.chance.u8(0..8) == 0 {
            self.hold_again(&turn, &lock).await;
        }
        self.note_loss(&turn, &guard);
        self.give_back(&turn, guard).await;
    }

    async fn acquire(
        &mut self,
        turn: &Turn,
        lock: &LockHandle<S, Tokio>,
    ) -> Option<LockGuard<S, Tokio>> {
        let longest = self.settings.lease.as_micros() as u64;
        let patience = Duration::from_micros(self.chance.u64(0..longest));
        let way = self.chance.u8(0..10);
        let invoked = history::now();
        let result = match way {
            0..=2 => Some(lock.try_acquire().await),
            3..=7 => Some(lock.acquire_within(patience).await),
            // Given up, wherever it is.
            _ => match tokio::time::timeout(patience, lock.acquire()).await {
                Ok(result) => Some(result.map(TryLock::Taken)),
                Err(_) => None,
            },
        };
        self.note_acquire(turn, invoked, result)
    }

    fn note_acquire(
        &self,
        turn: &Turn,
        invoked: u64,
        result: Option<Result<TryLock<LockGuard<S, Tokio>>, Error>>,
    ) -> Option<LockGuard<S, Tokio>> {
        let (acquired, guard) = match result {
            Some(Ok(TryLock::Taken(guard))) => {
                let (token, holds) = (guard.token(), guard.holds());
                (Acquired::Granted { token, holds }, Some(guard))
            }
            Some(Ok(TryLock::Busy(Busy::Held(holder)))) => {
                (Acquired::Held(of_holder(holder)), None)
            }
            // Others are next.
            Some(Ok(TryLock::Busy(_))) => (Acquired::NotDone, None),
            Some(Err(error)) if is_done(&error) => (Acquired::Unknown, None),
            Some(Err(_)) => (Acquired::NotDone, None),
            None => (Acquired::Unknown, None),
        };
        self.note(turn, invoked, guard.as_ref(), Call::Acquire(acquired));
        guard
    }

    /// Adds one to the guarded values; returns whether it was done to the end.
    async fn work(&mut self, turn: &Turn, token: u64, guard: Option<&LockGuard<S, Tokio>>) -> bool {
        // Some do not look whether they have lost it.
        let careless = self.chance.u8(0..4) == 0;
        if self.chance.u8(0..4) == 0 {
            // Until the next holder touches the value, an older one is not refused.
            tokio::time::sleep(Duration::from_millis(self.chance.u64(1..5))).await;
        }
        let invoked = history::now();
        let read = self.values.read(&turn.key, token).await;
        let read = access(read, |kept| {
            let number = |kept: Kept| kept.text().ok()?.parse().ok();
            kept.map_or(0, |kept| number(kept).expect("a number was written"))
        });
        self.note(turn, invoked, guard, Call::Read(token, read));
        let Access::Accepted(value) = read else { return false };

        let invoked = history::now();
        let plain: Option<u64> = self.plain.get(&turn.key).await.expect("its server is up");
        let pause = match self.chance.u16(0..400) {
            // Longer than a lease, which must be renewed.
            0 => self.settings.lease + self.settings.lease / 5,
            1..=80 => Duration::from_millis(self.chance.u64(1..5)),
            _ => Duration::ZERO,
        };
        match guard {
            Some(guard) if !careless => {
                if guard.run(tokio::time::sleep(pause)).await.is_err() {
                    return false;
                }
            }
            _ => tokio::time::sleep(pause).await,
        }
        let next = plain.unwrap_or_default() + 1;
        let () = self.plain.set(&turn.key, next).await.expect("its server is up");
        self.note(turn, invoked, guard, Call::Update(token));

        if !careless && guard.is_some_and(|guard| guard.time_left().is_err()) {
            return false;
        }
        let invoked = history::now();
        let written = self.values.write(&turn.key, token, (value + 1).to_string()).await;
        let written = access(written, |()| ());
        self.note(turn, invoked, guard, Call::Write(token, value + 1, written));
        matches!(written, Access::Accepted(()))
    }

    /// Takes the lock once more for the same owner, and gives that hold back.
    async fn hold_again(&mut self, turn: &Turn, lock: &LockHandle<S, Tokio>) {
        let invoked = history::now();
        let result = lock.try_acquire().await;
        if let Some(guard) = self.note_acquire(turn, invoked, Some(result)) {
            self.give_back(turn, guard).await;
        }
    }

    fn note_loss(&self, turn: &Turn, guard: &LockGuard<S, Tokio>) {
        let loss = match guard.time_left() {
            Ok(_) => return,
            Err(lockage::locks::Loss::Refused(_)) => Loss::Refused,
            Err(_) => Loss::Expired,
        };
        self.note(turn, history::now(), None, Call::Lost(guard.token(), loss));
    }

    async fn give_back(&mut self, turn: &Turn, guard: LockGuard<S, Tokio>) {
        let token = guard.token();
        let invoked = history::now();
        let given_back = if self.chance.u8(0..8) == 0 {
            drop(guard);
            GivenBack::Dropped
        } else {
            match guard.release().await {
                Ok(Released::Free) => GivenBack::Left(0),
                Ok(Released::Held(left)) => GivenBack::Left(left),
                Ok(Released::NotHeld(holder)) => GivenBack::NotHeld(holder.map(of_holder)),
                Err(_) => GivenBack::Unknown,
            }
        };
        self.note(turn, invoked, None, Call::Release(token, given_back));
    }

    fn note(&self, turn: &Turn, invoked: u64, guard: Option<&LockGuard<S, Tokio>>, call: Call) {
        let returned = history::now();
        let until = |left: Duration| returned + left.as_nanos() as u64;
        self.log.push(&Entry {
            process: self.settings.process,
            task: self.task,
            key: turn.key.clone(),
            owner: turn.owner.to_string(),
            invoked,
            returned,
            deadline: guard.and_then(|guard| guard.time_left().ok()).map(until),
            call,
        });
    }
}

fn of_holder(holder: lockage_core::lock::Holder) -> Holder {
    let lockage_core::lock::Hold { token, holds, .. } = holder.hold;
    Holder { owner: holder.owner.to_string(), token, holds }
}

fn access<T, U>(
    result: Result<lockage::fenced::Access<T>, Error>,
    accepted: impl FnOnce(T) -> U,
) -> Access<U> {
    match result {
        Ok(lockage::fenced::Access::Accepted(value)) => Access::Accepted(accepted(value)),
        Ok(lockage::fenced::Access::Stale { newest }) => Access::Stale(newest),
        Err(error) if is_done(&error) => Access::Unknown,
        Err(_) => Access::NotDone,
    }
}

/// Returns whether the call may have been done despite this error.
///
/// # Panics
/// For an error that no trouble of a store explains.
fn is_done(error: &Error) -> bool {
    match error {
        Error::Store(StoreError::Unknown(_)) => true,
        Error::Store(StoreError::NotDone(_)) => false,
        // A process that was paused read the answer after the lease that it granted.
        Error::TooSlow { .. } => true,
        other => panic!("{other}"),
    }
}
