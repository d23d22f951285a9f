//! Programs that hold something for a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join;
use lockage::fenced::Access;
use lockage::locks::{
    Busy, Handle, Kind, LockGuard, Loss, ManyGuard, QuorumGuard, Released, TryLock,
};
use lockage::runtime::{Runtime, Spawn};
use lockage::{Error, Locks, Store};
use lockage_core::lock::OwnerId;

use super::{EVER, Life, locks, micros};
use crate::simulation::judge::{HolderAnswer, Seen};
use crate::simulation::place::Place;
use crate::simulation::plan::{End, What};
use crate::simulation::store::{LOCK, OTHER, VALUE, keys_of};

/// The guard of a grant.
enum Guard<S, R> {
    One(LockGuard<S, R>),
    Many(ManyGuard<S, R>),
    Quorum(QuorumGuard<S, R>),
}

/// The grant that a job asks for, and how long it waits.
#[derive(Clone, Copy)]
pub(super) struct Hold {
    pub(super) job: usize,
    pub(super) what: What,
    pub(super) wait: Duration,
    /// How long it is held at least.
    pub(super) least: Duration,
    /// Whether its owner acquires it once more.
    pub(super) again: bool,
    /// Whether its work never checks that the grant is held.
    pub(super) is_blind: bool,
    /// Whether its guard does not run its work.
    pub(super) is_loose: bool,
    /// The runtime on which it works.
    pub(super) moves_to: Option<u64>,
}

/// The longest slice of work between two checks that the grant is still held.
pub(super) const SLICE: Duration = Duration::from_millis(200);

type Held<P> = Guard<<P as Place>::Store, <P as Place>::Runtime>;

impl<P: Place> Life<P> {
    pub(super) async fn hold(&self, hold: Hold, for_: Duration, end: End, is_own: bool) {
        let own = is_own.then(|| locks(&self.plan, &self.place));
        let held = self.hold_by(own.as_ref().unwrap_or(&self.locks), hold, for_).await;
        let (Some(guard), what) = (held, hold.what) else { return };
        match (end, own) {
            (End::Closed, Some(own)) => {
                // An acquire that is under way meanwhile takes nothing, or releases it.
                let late = own.lock("other").expect("a name");
                let is_over = AtomicBool::new(false);
                let late = async {
                    drop(late.try_acquire().await);
                    is_over.store(true, Ordering::Relaxed);
                };
                let most = micros(2 * (self.plan.lease_us + self.plan.timeout_us));
                let close = async {
                    let begun = self.runtime.now();
                    own.close().await;
                    let took = self.runtime.now().saturating_sub(begun);
                    if took < most && !is_over.load(Ordering::Relaxed) {
                        let what = "locks are closed while an acquire is under way".to_owned();
                        self.place.saw(Seen::Wrong { what });
                    }
                };
                join(late, close).await;
                self.place.saw(Seen::ClosedLocks { what, token: guard.token() });
                // A quorum has locks of its own.
                if what != What::Quorum && guard.time_left().is_ok() {
                    self.place.saw(Seen::Wrong { what: "it is held after all was closed".into() });
                }
            }
            (End::Released, _) => self.release(what, guard).await,
            (End::Dropped | End::Closed, own) => {
                drop(guard);
                if own.is_some() {
                    drop(own);
                    self.place.saw(Seen::DroppedLocks);
                }
            }
        }
    }

    /// Acquires, works, and returns the guard at the end, unless the grant is lost.
    async fn hold_by(
        &self,
        locks: &Locks<P::Store, P::Runtime>,
        hold: Hold,
        for_: Duration,
    ) -> Option<Held<P>> {
        let Hold { job, what, wait, least, again, is_blind, is_loose, moves_to } = hold;
        let (since_us, until_us) = (self.place.now_us(), self.place.true_us_in(wait));
        self.place.saw(Seen::Waits { job, what });
        let acquired = self.acquire(locks, hold).await;
        self.place.saw(Seen::WaitsNoLonger { job });
        let denial = match &acquired {
            Ok(TryLock::Busy(busy)) => Some(answer_of(busy)),
            _ => None,
        };
        let at_us = self.place.now_us();
        self.place.saw(Seen::Waited { what: Some(what), since_us, until_us, at_us, denial });
        let guard = match acquired {
            Ok(TryLock::Taken(guard)) => guard,
            Ok(TryLock::Busy(_)) => return None,
            Err(error) => {
                if let Error::NotReplicated { .. } = error {
                    self.place.saw(Seen::Acknowledged { is_enough: false, since_us });
                }
                self.failed("acquire", &error);
                return None;
            }
        };
        if self.plan.terms.replicas && what != What::Quorum {
            self.place.saw(Seen::Acknowledged { is_enough: true, since_us });
        }
        for (key, one) in guard.parts(what) {
            self.tell_granted(key, one, since_us);
        }
        if !least.is_zero() {
            let (token, least_us) = (guard.token(), least.as_micros() as u64); // some seconds
            self.place.saw(Seen::Keeps { token, least_us });
        }
        if let Guard::One(guard) = &guard
            && again
        {
            self.hold_again(locks, what, wait, guard.owner()).await;
        }
        if let Some(runtime) = moves_to {
            if !self.tell_held(job, what, &guard) {
                return None;
            }
            self.place.move_to(runtime).await;
        }
        let end = self.runtime.now().saturating_add(for_);
        loop {
            if !self.tell_held(job, what, &guard) {
                return None;
            }
            let left = end.saturating_sub(self.runtime.now());
            if left.is_zero() {
                break;
            }
            if matches!(what, What::Lock { .. }) && self.place.draw(3) == 0 {
                self.write(job, guard.token()).await;
            }
            let slice = if is_blind { left } else { left.min(SLICE) };
            if is_loose {
                self.runtime.sleep(slice).await;
                continue;
            }
            // The loss ends the run at once.
            match guard.run(self.work(hold, slice)).await {
                Ok(()) => {}
                Err(loss) => {
                    self.place.saw(Seen::Lost { job, what, loss });
                    return None;
                }
            }
        }
        self.place.saw(Seen::Left { job, what });
        Some(guard)
    }

    /// Works for this long. The future is dropped if the grant is lost.
    async fn work(&self, Hold { job, what, is_blind, .. }: Hold, for_: Duration) {
        let end = self.runtime.now().saturating_add(for_);
        loop {
            let left = end.saturating_sub(self.runtime.now());
            if left.is_zero() {
                return;
            }
            let most = if is_blind { SLICE / (1 << self.place.draw(6)) } else { left };
            self.runtime.sleep(left.min(most)).await;
            self.place.saw(Seen::Works { job, what });
        }
    }

    /// Reports a grant from a call that began at `since_us`.
    fn tell_granted(&self, key: String, guard: &LockGuard<P::Store, P::Runtime>, since_us: u64) {
        let answer = HolderAnswer::Held { token: guard.token(), holds: guard.holds() };
        self.place.saw(Seen::Told { keys: vec![key], since_us, answer });
    }

    /// Releases a grant, and reports the answer.
    async fn release(&self, what: What, guard: Held<P>) {
        let since_us = self.place.now_us();
        let released = match guard {
            Guard::One(guard) => guard.release().await.map(|one| vec![(keys_of(what), one)]),
            Guard::Many(guard) => guard.release().await.map(|all| {
                all.into_iter().map(|(name, one)| (vec![format!("lock:{{{name}}}")], one)).collect()
            }),
            Guard::Quorum(guard) => {
                let servers = guard.release().await;
                return self.place.saw(Seen::ReleasedOn { servers, since_us });
            }
        };
        match released {
            Ok(all) => all.into_iter().for_each(|(keys, released)| {
                let answer = match released {
                    Released::Free => HolderAnswer::Released { holds: 0 },
                    Released::Held(holds) => HolderAnswer::Released { holds },
                    Released::NotHeld(by) => {
                        HolderAnswer::Refused { by: by.map(|by| by.hold.token) }
                    }
                };
                self.place.saw(Seen::Told { keys, since_us, answer });
            }),
            Err(error) => self.failed("release", &error),
        }
    }

    async fn acquire(
        &self,
        locks: &Locks<P::Store, P::Runtime>,
        Hold { what, wait, least, .. }: Hold,
    ) -> Result<TryLock<Held<P>>, Error> {
        let invariant = "names and numbers are right";
        let held = match what {
            What::Lock { is_fair } => {
                let lock = locks.lock("lock").expect(invariant);
                let lock = if is_fair { lock.fair() } else { lock };
                let lock = lock.hold_at_least(least).expect(invariant);
                one(&lock, wait).await
            }
            What::Both => {
                let both = locks.many(["other", "lock"]).expect(invariant);
                let both = match wait {
                    EVER => TryLock::Taken(both.acquire().await?),
                    _ => both.acquire_within(wait).await?,
                };
                return Ok(guarded(both, Guard::Many));
            }
            What::Quorum => {
                let lock = self.quorum.lock("quorum").expect(invariant);
                let held = match wait {
                    EVER => TryLock::Taken(lock.acquire().await?),
                    _ => lock.acquire_within(wait).await?,
                };
                return Ok(guarded(held, Guard::Quorum));
            }
            What::Other => one(&locks.lock("other").expect(invariant), wait).await,
            What::Permits(count) => {
                let semaphore = locks.semaphore("places", self.plan.permits).expect(invariant);
                one(&semaphore.permits(count).expect(invariant), wait).await
            }
            What::Read => one(&locks.read_lock("table").expect(invariant), wait).await,
            What::Write => one(&locks.write_lock("table").expect(invariant), wait).await,
        };
        Ok(guarded(held?, Guard::One))
    }

    /// Acquires the lock again as its owner, or the other side of a read-write lock, and releases
    /// that.
    async fn hold_again(
        &self,
        locks: &Locks<P::Store, P::Runtime>,
        what: What,
        wait: Duration,
        owner: OwnerId,
    ) {
        let (invariant, since_us) = ("a name", self.place.now_us());
        let again = match what {
            What::Lock { .. } => {
                locks.lock("lock").expect(invariant).as_owner(owner).acquire_within(wait).await
            }
            // Two readers that both wait to write wait for each other.
            What::Read => {
                locks.write_lock("table").expect(invariant).as_owner(owner).try_acquire().await
            }
            What::Write => {
                locks
                    .read_lock("table")
                    .expect(invariant)
                    .as_owner(owner)
                    .acquire_within(wait)
                    .await
            }
            _ => return,
        };
        match again {
            Ok(TryLock::Taken(again)) => {
                self.tell_granted(keys_of(what).remove(0), &again, since_us);
                self.release(what, Guard::One(again)).await;
            }
            Ok(TryLock::Busy(busy)) => {
                let answer = answer_of(&busy);
                self.place.saw(Seen::Told { keys: keys_of(what), since_us, answer });
            }
            Err(error) => self.failed("acquire again", &error),
        }
    }

    /// Writes the value that the lock protects.
    pub(super) async fn write(&self, job: usize, token: u64) {
        let since_us = self.place.now_us();
        self.place.saw(Seen::Writes { job, token });
        match self.values.write("value", token, "by a job").await {
            Ok(access) => {
                let is_accepted = matches!(access, Access::Accepted(()));
                let answer = match access {
                    Access::Accepted(()) => HolderAnswer::Accepted,
                    Access::Stale { newest } => HolderAnswer::Stale { newest },
                };
                let keys = vec![VALUE.to_owned()];
                self.place.saw(Seen::Told { keys, since_us, answer });
                self.place.saw(Seen::Wrote { job, token, is_accepted });
            }
            Err(error) => self.failed("write", &error),
        }
    }

    /// Reports until when the grant is surely held; returns whether it is.
    fn tell_held(&self, job: usize, what: What, guard: &Held<P>) -> bool {
        let before_us = self.place.now_us();
        match guard.time_left() {
            Ok(left) => {
                // If the process stood still meanwhile, the time left is from before that.
                let passed_us = self.place.now_us() - before_us;
                let until_us = self.place.true_us_in(left).saturating_sub(passed_us);
                self.place.saw(Seen::Holds { job, what, token: guard.token(), until_us });
                if let Guard::Many(guard) = guard {
                    let token = guard.of("other").expect("it is one of them").token();
                    self.place.saw(Seen::Holds { job, what: What::Other, token, until_us });
                }
                true
            }
            Err(loss) => {
                self.place.saw(Seen::Lost { job, what, loss });
                false
            }
        }
    }
}

/// Acquires one resource: at once, within a time, or whenever it is free.
async fn one<S, R, K>(
    handle: &Handle<S, R, K>,
    wait: Duration,
) -> Result<TryLock<LockGuard<S, R>>, Error>
where
    S: Store + 'static,
    R: Spawn,
    K: Into<Kind> + Copy + Send + Sync,
{
    match wait {
        Duration::ZERO => handle.try_acquire().await,
        EVER => Ok(TryLock::Taken(handle.acquire().await?)),
        _ => handle.acquire_within(wait).await,
    }
}

/// Returns the answer in a busy result.
fn answer_of(busy: &Busy) -> HolderAnswer {
    match *busy {
        Busy::Held(holder) => HolderAnswer::Refused { by: Some(holder.hold.token) },
        Busy::Queued { ahead } => HolderAnswer::Queued { ahead },
        Busy::InUse { retry_after } => HolderAnswer::in_use_for(retry_after, false),
        Busy::Upgrade { retry_after } => HolderAnswer::in_use_for(retry_after, true),
        ref other => unreachable!("{other:?}"),
    }
}

fn guarded<G, H>(acquired: TryLock<G>, guard: fn(G) -> H) -> TryLock<H> {
    match acquired {
        TryLock::Taken(held) => TryLock::Taken(guard(held)),
        TryLock::Busy(busy) => TryLock::Busy(busy),
    }
}

impl<S: Store + 'static, R: Spawn> Guard<S, R> {
    fn time_left(&self) -> Result<Duration, Loss> {
        match self {
            Guard::One(guard) => guard.time_left(),
            Guard::Many(guard) => guard.time_left(),
            Guard::Quorum(guard) => guard.time_left(),
        }
    }

    /// Returns the fencing token of the lock; a quorum has none.
    fn token(&self) -> u64 {
        match self {
            Guard::One(guard) => guard.token(),
            Guard::Many(guard) => guard.of("lock").expect("it is one of them").token(),
            Guard::Quorum(_) => 0,
        }
    }

    async fn run(&self, work: impl Future<Output = ()>) -> Result<(), Loss> {
        match self {
            Guard::One(guard) => guard.run(work).await,
            Guard::Many(guard) => guard.run(work).await,
            Guard::Quorum(guard) => guard.run(work).await,
        }
    }

    /// Returns the keys of the guard with their parts, except for a quorum.
    fn parts(&self, what: What) -> Vec<(String, &LockGuard<S, R>)> {
        match self {
            Guard::One(guard) => vec![(keys_of(what).remove(0), guard)],
            Guard::Many(guard) => [("lock", LOCK), ("other", OTHER)]
                .map(|(name, key)| (key.to_owned(), guard.of(name).expect("it is one of them")))
                .into(),
            Guard::Quorum(_) => Vec::new(),
        }
    }
}
