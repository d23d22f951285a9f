//! Programs of candidates, and of readers of who leads.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use lockage::locks::Sighting;
use lockage::runtime::Runtime;

use super::Life;
use super::holding::SLICE;
use crate::simulation::judge::{HolderAnswer, Seen};
use crate::simulation::place::Place;
use crate::simulation::store::LOCK;

impl<P: Place> Life<P> {
    /// Leads for so many terms. Each is half as long as the one before, so that it ends before a longest hold some day.
    pub(super) async fn lead(&self, job: usize, for_: Duration, terms: u32, is_blind: bool) {
        let lock = self.locks.lock("lock").expect("a name");
        let [begun, ended] = [AtomicU32::new(0), AtomicU32::new(0)];
        self.place.saw(Seen::Campaigns { job });
        let led = lock.lead(|token| {
            let for_ = for_ / (1 << begun.fetch_add(1, Ordering::Relaxed).min(10));
            let ended = &ended;
            async move {
                self.rule((job, token), for_, is_blind).await;
                match ended.fetch_add(1, Ordering::Relaxed) + 1 {
                    last if last >= terms => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            }
        });
        if let Err(error) = led.await {
            self.place.saw(Seen::Wrong { what: format!("lead: {error}") });
        }
    }

    /// Works under a term for this long. The future is dropped if the term is lost.
    async fn rule(&self, (job, token): (usize, u64), for_: Duration, is_blind: bool) {
        let end = self.runtime.now().saturating_add(for_);
        self.place.saw(Seen::Leads { job, token });
        loop {
            let left = end.saturating_sub(self.runtime.now());
            if left.is_zero() {
                break;
            }
            if self.place.draw(3) == 0 {
                self.write(job, token).await;
            }
            let slice = if is_blind { SLICE / (1 << self.place.draw(6)) } else { SLICE };
            self.runtime.sleep(left.min(slice)).await;
            self.place.saw(Seen::Rules { job });
        }
        self.place.saw(Seen::StepsDown { job });
    }

    /// Looks who leads, so many times.
    pub(super) async fn watch(&self, every: Duration, times: u32) {
        let lock = self.locks.lock("lock").expect("a name");
        let mut watch = lock.watch(every);
        for _ in 0..times {
            let (before, since_us) = (watch.last(), self.place.now_us());
            let patience = pin!(self.runtime.sleep(every.saturating_mul(3)));
            let changed = pin!(watch.changed());
            match select(changed, patience).await {
                Either::Left((Ok(now), _)) => {
                    if before.map(|before| before.token()) == Some(now.token()) {
                        let what = format!("{now:?} is not other than {before:?}");
                        self.place.saw(Seen::Wrong { what });
                    }
                    self.sees(now, since_us);
                }
                Either::Left((Err(error), _)) => self.failed("watch", &error),
                Either::Right(_) => {}
            }
        }
    }

    fn sees(&self, now: Sighting, since_us: u64) {
        let (tokens, count) = (now.token().into_iter().collect(), now.inspection.queued);
        let answer = HolderAnswer::Inspected { tokens, count };
        self.place.saw(Seen::Told { keys: vec![LOCK.to_owned()], since_us, answer });
    }
}
