//! Programs whose work is done by one for all: results, cached values, and the latch.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use lockage::Error;
use lockage::locks::{LatchHandle, WorkError};
use lockage::runtime::Runtime;

use super::{EVER, LONG, Life};
use crate::simulation::judge::Seen;
use crate::simulation::place::Place;

impl<P: Place> Life<P> {
    pub(super) async fn once(&self, job: usize, for_: Duration) {
        let work = async |_token| {
            self.runtime.sleep(for_).await;
            Ok::<_, String>(format!("job {job} {}", self.runtime.random()))
        };
        match self.once.run("order", work).await {
            Ok(done) => self.place.saw(Seen::Result { result: done.result }),
            Err(error) => self.work_failed("run", error),
        }
    }

    /// Frees the lock of that work by force, once it was held for so long.
    pub(super) async fn force(&self, for_: Duration) {
        if let Err(error) = self.force_within(for_).await {
            self.failed("force a release", &error);
        }
    }

    async fn force_within(&self, for_: Duration) -> Result<(), Error> {
        let lock = self.locks.lock("order").expect("a name");
        for _ in 0..50 {
            if let Some(holder) = lock.inspect().await?.holder {
                self.runtime.sleep(for_).await;
                lock.force_release(holder.hold.token).await?;
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

    /// The first job closes the latch.
    async fn latch_is_set(&self) -> bool {
        let latch = self.latch();
        let set = async |_token| {
            self.place.saw(Seen::SetsLatch);
            latch.set(self.plan.count).await.map(|_| "it is set".to_owned())
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
        self.place.saw(Seen::CountsDown { count });
        match self.latch().count_down(count).await {
            Ok(0) => self.place.saw(Seen::Opened),
            Ok(_) => self.place.saw(Seen::CountedDown),
            Err(error) => self.failed("count down", &error),
        }
    }

    pub(super) async fn wait_for_latch(&self, wait: Duration) {
        if !self.latch_is_set().await {
            return;
        }
        let (since, latch) = (self.runtime.now(), self.latch());
        let waited = match wait {
            EVER => {
                // It may never be opened.
                let sleep = pin!(self.runtime.sleep(Duration::from_secs(4)));
                match select(pin!(latch.wait()), sleep).await {
                    Either::Left((opened, _)) => opened.map(|()| 0),
                    Either::Right(_) => return,
                }
            }
            _ => latch.wait_within(wait).await,
        };
        match waited {
            Ok(0) => self.place.saw(Seen::Opened),
            // It may be too late for another look.
            Ok(left) if self.runtime.now().saturating_sub(since) < wait / 2 => {
                let what = format!("a wait for the latch ends too soon, with {left} left");
                self.place.saw(Seen::Wrong { what });
            }
            Ok(_) => {}
            Err(error) => self.failed("wait for the latch", &error),
        }
    }

    pub(super) async fn get(&self, for_: Duration) {
        let since_us = self.place.now_us();
        let build = async || {
            let built_us = self.place.now_us();
            self.runtime.sleep(for_).await;
            Ok::<_, String>(built_us.to_string())
        };
        match self.cached.get("page", build).await {
            Ok(value) => {
                let built_us = value.parse().expect("it was built here");
                self.place.saw(Seen::Got { since_us, built_us });
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
