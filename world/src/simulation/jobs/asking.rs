//! Programs that ask a limiter.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use lockage::limiter::{Adjusted, RequestId, Reserved};
use lockage::runtime::Runtime;
use lockage::{Decision, Error, Verdict};

use super::{IDS, LONG, Life, micros};
use crate::simulation::judge::Seen;
use crate::simulation::place::Place;
use crate::simulation::plan::Verb;

/// A caller that may share its call, until it is answered or dropped.
struct Sharing<'a>(&'a AtomicUsize);

impl Drop for Sharing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A caller in line, until it is answered or dropped.
struct InLine<'a, P: Place> {
    place: &'a P,
    id: usize,
    caller: usize,
    is_admitted: bool,
}

impl<P: Place> Drop for InLine<'_, P> {
    fn drop(&mut self) {
        let InLine { place, id, caller, is_admitted } = *self;
        place.saw(Seen::LeavesLine { id, caller, is_admitted });
    }
}

impl<P: Place> Life<P> {
    pub(super) async fn ask(&self, id: usize, cost: u64, verb: Verb) {
        let since_us = self.place.now_us();
        let name = IDS[id];
        match verb {
            Verb::Acquire { wait_us: 0 } => {
                self.asks(id, cost);
                let _sharing = self.share(id, true);
                let answer = self.limiter.try_acquire(name, cost).await;
                self.decided(id, cost, since_us, answer).await;
            }
            Verb::Acquire { wait_us } => {
                self.asks(id, cost);
                let _sharing = self.share(id, false);
                let mut in_line = self.join(id);
                let answer = self.limiter.acquire_within(name, cost, micros(wait_us)).await;
                in_line.is_admitted = answer.as_ref().is_ok_and(Decision::is_allowed);
                drop(in_line);
                let late_us = self.place.now_us().saturating_sub(since_us + wait_us);
                self.place.saw(Seen::Overdue { id, by_us: late_us });
                self.decided(id, cost, since_us, answer).await;
            }
            Verb::Lazy { wait_us, for_us } => {
                self.asks(id, cost);
                let _sharing = self.share(id, false);
                let mut wait = pin!(self.limiter.acquire_within(name, cost, micros(wait_us)));
                let first = poll_fn(|context| Poll::Ready(wait.as_mut().poll(context))).await;
                let answer = match first {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => {
                        self.runtime.sleep(micros(for_us)).await;
                        wait.await
                    }
                };
                self.decided(id, cost, since_us, answer).await;
            }
            Verb::Once => {
                self.asks(id, cost);
                let random = || u128::from(self.runtime.random());
                let request = RequestId::from_u128(random() << 64 | random());
                let answer = self.limiter.try_acquire_once(name, cost, request, LONG).await;
                self.decided(id, cost, since_us, answer).await;
            }
            Verb::Each { more } => {
                self.asks(id, cost + more);
                match self.limiter.try_acquire_each(name, &[cost, more]).await {
                    Ok(decisions) => {
                        for (cost, decision) in [cost, more].into_iter().zip(decisions) {
                            self.tell(id, cost, since_us, &decision);
                        }
                    }
                    Err(error) => self.failed("ask for each", &error),
                }
            }
            Verb::Turn { is_cancelled } => self.take_turn(id, cost, since_us, is_cancelled).await,
            Verb::Reserve { hold_us, actual } => {
                self.reserve(id, (cost, since_us), micros(hold_us), actual).await;
            }
            Verb::Refund => {
                self.place.saw(Seen::Changes);
                let changed = self.limiter.refund(name, cost).await;
                self.changed("refund", changed);
            }
            Verb::Penalty => {
                self.asks(id, cost);
                self.adjusted("penalty", self.limiter.penalty(name, cost).await);
            }
            Verb::TakeUpTo => {
                self.asks(id, cost);
                self.adjusted("take", self.limiter.take_up_to(name, cost).await);
            }
            Verb::Block { for_us } => {
                // A late copy of what ends it may come at any time.
                self.place.saw(Seen::Changes);
                self.adjusted("block", self.limiter.block(name, micros(for_us)).await);
                self.runtime.sleep(micros(for_us / 2)).await;
                self.adjusted("unblock", self.limiter.unblock(name).await);
            }
            Verb::Peek => {
                if let Err(error) = self.limiter.peek(name, cost).await {
                    self.failed("peek", &error);
                }
            }
            Verb::Reset => {
                self.place.saw(Seen::Changes);
                if let Err(error) = self.limiter.reset(name).await {
                    self.failed("reset", &error);
                }
            }
            Verb::Under => {
                // What is charged under it is converted, and so is it again by the next call under the other one.
                self.place.saw(Seen::Changes);
                if let Err(error) =
                    self.limiter.under(self.plan.other).try_acquire(name, cost).await
                {
                    self.failed("ask under another limit", &error);
                }
            }
            Verb::Store => {
                self.place.saw(Seen::Changes);
                self.store_limit(name, cost).await;
            }
        }
    }

    /// Shares a call with others of this process, or is the first to make one.
    fn share(&self, id: usize, is_sent: bool) -> Sharing<'_> {
        let sharing = &self.sharing[id];
        if sharing.fetch_add(1, Ordering::Relaxed) == 0 && is_sent {
            self.place.saw(Seen::Alone { id });
        }
        Sharing(sharing)
    }

    /// Joins a line: the limiter's next caller for this id is this one.
    fn join(&self, id: usize) -> InLine<'_, P> {
        let caller = self.callers.fetch_add(1, Ordering::Relaxed);
        self.place.saw(Seen::JoinsLine { id, caller });
        InLine { place: &self.place, id, caller, is_admitted: false }
    }

    fn asks(&self, id: usize, cost: u64) {
        self.place.saw(Seen::Asked { id, cost });
    }

    async fn decided(&self, id: usize, cost: u64, since_us: u64, answer: Result<Decision, Error>) {
        let decision = match answer {
            Ok(decision) => decision,
            Err(error) => return self.failed_call("ask", cost, &error),
        };
        self.tell(id, cost, since_us, &decision);
        if let Verdict::Denied { retry_after, .. } = decision.verdict {
            // Around the very moment at which it fits, by a clock that may be slow.
            let (early_us, late_us) =
                [(0, 0), (0, 0), (0, 1), (0, 500), (0, 1500), (300, 0), (1000, 0)]
                    [self.place.draw(6) as usize];
            let wait = retry_after.saturating_sub(micros(early_us)).saturating_add(micros(late_us));
            // A day is too long for a world.
            if wait < Duration::from_secs(5) {
                self.runtime.sleep(wait).await;
            }
        }
    }

    fn tell(&self, id: usize, cost: u64, since_us: u64, decision: &Decision) {
        self.place.saw(Seen::Decided { id, cost, since_us, decision: decision.clone() });
    }

    async fn take_turn(&self, id: usize, cost: u64, since_us: u64, is_cancelled: bool) {
        self.asks(id, cost);
        let turn = match self.limiter.take_turn(IDS[id], cost).await {
            Ok(turn) => turn,
            Err(error) => return self.failed("take a turn", &error),
        };
        self.tell(id, cost, since_us, &turn.decision);
        let Some(ticket) = turn.ticket else { return };
        self.runtime.sleep(turn.decision.turn_after / 2).await;
        if is_cancelled {
            self.place.saw(Seen::Changes);
            let changed = self.limiter.cancel_turn(IDS[id], ticket).await;
            self.changed("cancel a turn", changed);
        }
    }

    async fn reserve(
        &self,
        id: usize,
        (cost, since_us): (u64, u64),
        hold: Duration,
        actual: Option<u64>,
    ) {
        self.asks(id, cost.max(actual.unwrap_or_default()));
        let Reserved { decision, reservation, .. } =
            match self.limiter.reserve(IDS[id], cost, hold).await {
                Ok(reserved) => reserved,
                Err(error) => return self.failed("reserve", &error),
            };
        self.tell(id, cost, since_us, &decision);
        let (Some(reservation), Some(actual)) = (reservation, actual) else { return };
        // Some are settled in time, and some at the very end.
        let at = [hold / 4, hold / 2, hold][self.place.draw(2) as usize];
        self.runtime.sleep(at).await;
        self.place.saw(Seen::Settles { cost, actual });
        let settlement = match actual {
            0 => self.limiter.cancel(IDS[id], &reservation).await,
            actual => self.limiter.commit(IDS[id], &reservation, actual).await,
        };
        if let Ok(settlement) = &settlement {
            let settlement = settlement.clone();
            self.place.saw(Seen::Settled { id, reservation, actual, settlement });
        }
        self.changed("settle", settlement);
    }

    async fn store_limit(&self, name: &str, which: u64) {
        let terms = self.plan.options.stored.expect("limits are stored");
        let (limit, other) = (terms.of(self.plan.limit), terms.of(self.plan.other));
        let stored = match which {
            1 => self.limiter.set_limit(name, other).await,
            2 => self.limiter.try_set_limit(name, limit).await.map(drop),
            _ => self.limiter.set_limit_afresh(name, limit).await,
        };
        if let Err(error) = stored {
            return self.failed("store a limit", &error);
        }
        let is_one_of = |known| known == limit || known == other;
        match self.limiter.stored_limit(name).await {
            Ok(Some(known)) if is_one_of(known) => {}
            // It may be over by now, or reset.
            Ok(None) => {}
            Ok(limit) => self.place.saw(Seen::Wrong { what: format!("{limit:?} is stored") }),
            Err(error) => self.failed("read a limit", &error),
        }
    }

    fn changed<T>(&self, what: &str, changed: Result<T, Error>) {
        match changed {
            Ok(_) => self.place.saw(Seen::Changed),
            Err(error) => self.failed(what, &error),
        }
    }

    fn adjusted(&self, what: &str, adjusted: Result<Adjusted, Error>) {
        if let Err(error) = adjusted {
            self.failed(what, &error);
        }
    }
}
