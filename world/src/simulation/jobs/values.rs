//! Programs whose work one job does for all: results, cached values, and the latch.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use lockage::locks::{LatchHandle, WorkError};
use lockage::runtime::Runtime;
use lockage::{Error, StoreError};

use super::{EVER, LONG, Life};
use crate::simulation::judge::{Common, HolderAnswer, LatchChange, Seen};
use crate::simulation::place::Place;
use crate::simulation::store::{CACHED, DONE, DOOR, GATE, ORDER};

impl<P: Place> Life<P> {
    pub(super) async fn once(&self, job: usize, for_: Duration, is_blind: bool) {
        let since_us = self.place.now_us();
        let work = async |_token| {
            self.do_for_all((job, since_us), Common::Order, for_, is_blind).await;
            Ok::<_, String>(format!("job {job} {}", self.runtime.random()))
        };
        match self.once.run("order", work).await {
            Ok(done) => {
                if done.is_new != done.result.starts_with(&format!("job {job} ")) {
                    self.place.saw(Seen::Wrong { what: format!("of job {job}: {done:?}") });
                }
                let answer = match done.is_new {
                    true => HolderAnswer::Accepted,
                    false => HolderAnswer::Kept { value: Some(done.result.clone().into()) },
                };
                self.place.saw(Seen::Told { keys: vec![DONE.to_owned()], since_us, answer });
                self.place.saw(Seen::Result { since_us, result: done.result });
            }
            Err(error) => self.work_failed("run", error),
        }
    }

    /// Does the work that one job does for all, for this long. The future is dropped if its lock is
    /// lost.
    async fn do_for_all(
        &self,
        (job, since_us): (usize, u64),
        of: Common,
        for_: Duration,
        is_blind: bool,
    ) {
        let end = self.runtime.now().saturating_add(for_);
        self.place.saw(Seen::Begins { job, of, since_us });
        loop {
            let left = end.saturating_sub(self.runtime.now());
            let most = if is_blind { Duration::from_millis(1 << self.place.draw(7)) } else { left };
            self.runtime.sleep(left.min(most)).await;
            self.place.saw(Seen::GoesOn { job, of });
            if left <= most {
                break;
            }
        }
        self.place.saw(Seen::Finishes { job, of });
    }

    /// Frees the lock of that work by force, after it was held for `for_`.
    pub(super) async fn force(&self, for_: Duration) {
        if let Err(error) = self.force_within(for_).await {
            self.failed("force a release", &error);
        }
    }

    async fn force_within(&self, for_: Duration) -> Result<(), Error> {
        let lock = self.locks.lock("order").expect("a name");
        for _ in 0..50 {
            let since_us = self.place.now_us();
            let seen = lock.inspect().await?;
            let tokens = seen.holder.iter().map(|holder| holder.hold.token).collect();
            let answer = HolderAnswer::Inspected { tokens, count: seen.queued };
            self.place.saw(Seen::Told { keys: vec![ORDER.to_owned()], since_us, answer });
            if let Some(holder) = seen.holder {
                self.runtime.sleep(for_).await;
                self.place.saw(Seen::Forces);
                let (since_us, token) = (self.place.now_us(), holder.hold.token);
                let is_freed = lock.force_release(token).await?;
                if is_freed {
                    let (keys, answer) =
                        (vec![ORDER.to_owned()], HolderAnswer::Released { holds: 0 });
                    self.place.saw(Seen::Told { keys, since_us, answer });
                }
                return Ok(());
            }
            self.runtime.sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn work_failed<E>(&self, what: &str, error: WorkError<E>)
    where
        WorkError<E>: fmt::Display,
    {
        match error {
            WorkError::Store(error) => self.failed(what, &error),
            WorkError::Lost(_) => {}
            error => self.place.saw(Seen::Wrong { what: format!("{what}: {error}") }),
        }
    }

    fn latch(&self) -> LatchHandle<P::Store, P::Runtime> {
        self.locks.latch("gate", LONG).expect("a name")
    }

    /// Sets the latch if this is the first job; returns whether it is set.
    async fn latch_is_set(&self) -> bool {
        let latch = self.latch();
        let set = async |_token| {
            let change = LatchChange { is_gate: true, is_set: true, count: self.plan.count };
            self.changes(change, latch.set(change.count)).await.map(|_| "it is set".to_owned())
        };
        match self.once.run("latch", set).await {
            Ok(_) => true,
            Err(WorkError::Work(error)) => {
                self.failed("set the latch", &error);
                false
            }
            Err(error) => {
                self.work_failed("set the latch", error);
                false
            }
        }
    }

    pub(super) async fn count_down(&self, count: u64) {
        if !self.latch_is_set().await {
            return;
        }
        let since_us = self.place.now_us();
        let change = LatchChange { is_gate: true, is_set: false, count };
        let counted = self.changes(change, self.latch().count_down(count)).await;
        if let Ok(left) = counted {
            self.tell_left(left, since_us);
        }
        match counted {
            Ok(0) => self.place.saw(Seen::Opened),
            Ok(_) => self.place.saw(Seen::CountedDown),
            Err(error) => self.failed("count down", &error),
        }
    }

    /// Changes a latch.
    async fn changes<T>(
        &self,
        change: LatchChange,
        changed: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.place.saw(Seen::ChangesLatch(change));
        let changed = changed.await;
        if let Err(Error::Store(StoreError::NotDone(_))) = changed {
            self.place.saw(Seen::LatchIsAsBefore(change));
        }
        changed
    }

    /// Closes another latch, counts it down, and forgets it, so many times in any order.
    pub(super) async fn change_latch(&self, count: u64, times: u32, every: Duration) {
        let latch = self.locks.latch("door", LONG).expect("a name");
        for _ in 0..times {
            if let Err(error) = self.change_once(&latch, count).await {
                self.failed("change a latch", &error);
            }
            self.runtime.sleep(every).await;
        }
    }

    async fn change_once(
        &self,
        latch: &LatchHandle<P::Store, P::Runtime>,
        count: u64,
    ) -> Result<(), Error> {
        let change = |is_set| LatchChange { is_gate: false, is_set, count };
        let since_us = self.place.now_us();
        let answer = match self.place.draw(9) {
            0 => HolderAnswer::Forgot { left: latch.reset().await? },
            1 => HolderAnswer::Left { left: latch.inspect().await?.left },
            2..=4 => match self.changes(change(true), latch.set(count)).await? {
                true => HolderAnswer::Left { left: count },
                false => HolderAnswer::Closed,
            },
            _ => {
                let left = self.changes(change(false), latch.count_down(count)).await?;
                HolderAnswer::Left { left }
            }
        };
        self.place.saw(Seen::Told { keys: vec![DOOR.to_owned()], since_us, answer });
        Ok(())
    }

    fn tell_left(&self, left: u64, since_us: u64) {
        let (keys, answer) = (vec![GATE.to_owned()], HolderAnswer::Left { left });
        self.place.saw(Seen::Told { keys, since_us, answer });
    }

    pub(super) async fn wait_for_latch(&self, job: usize, wait: Duration) {
        if !self.latch_is_set().await {
            return;
        }
        let (since_us, until_us) = (self.place.now_us(), self.place.true_us_in(wait));
        let latch = self.latch();
        self.place.saw(Seen::WaitsForLatch { job });
        let waited = self.wait_for(&latch, wait).await;
        self.place.saw(Seen::WaitsNoLonger { job });
        let Some(waited) = waited else { return };
        let denial = match waited {
            Ok(left) if left > 0 => Some(HolderAnswer::Left { left }),
            _ => None,
        };
        let at_us = self.place.now_us();
        self.place.saw(Seen::Waited { what: None, since_us, until_us, at_us, denial });
        match waited {
            Ok(0) => {
                self.tell_left(0, since_us);
                self.place.saw(Seen::Opened);
            }
            Ok(_) => {}
            Err(error) => self.failed("wait for the latch", &error),
        }
    }

    /// Waits until the latch is open, or for this long, but not for ever: it may never open.
    async fn wait_for(
        &self,
        latch: &LatchHandle<P::Store, P::Runtime>,
        wait: Duration,
    ) -> Option<Result<u64, Error>> {
        Some(match wait {
            EVER => {
                let sleep = pin!(self.runtime.sleep(Duration::from_secs(4)));
                match select(pin!(latch.wait()), sleep).await {
                    Either::Left((opened, _)) => opened.map(|()| 0),
                    Either::Right(_) => return None,
                }
            }
            _ => latch.wait_within(wait).await,
        })
    }

    pub(super) async fn get(&self, job: usize, for_: Duration, is_blind: bool) {
        let since_us = self.place.now_us();
        let build = async || {
            let built_us = self.place.now_us();
            self.do_for_all((job, since_us), Common::Page, for_, is_blind).await;
            Ok::<_, String>(format!("{built_us} {job}"))
        };
        match self.cached.get("page", build).await {
            Ok(value) => {
                let (built_us, by) = value.split_once(' ').expect("it was built here");
                let built_us = built_us.parse().expect("it was built here");
                let is_own = by == job.to_string();
                if !is_own {
                    let answer = HolderAnswer::Kept { value: Some(value.into()) };
                    self.place.saw(Seen::Told { keys: vec![CACHED.to_owned()], since_us, answer });
                }
                self.place.saw(Seen::Got { since_us, built_us, is_own });
            }
            Err(error) => self.work_failed("get", error),
        }
    }

    pub(super) async fn invalidate(&self) {
        let since_us = self.place.now_us();
        match self.cached.invalidate("page").await {
            Ok(()) => self.place.saw(Seen::Invalidated { since_us }),
            Err(error) => self.failed("invalidate", &error),
        }
    }
}
