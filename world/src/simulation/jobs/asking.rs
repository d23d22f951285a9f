//! Programs that ask a limiter.

mod by_part;
mod reserving;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use lockage::limiter::{Adjusted, Origin, RequestId};
use lockage::runtime::Runtime;
use lockage::{Decision, Error, StoreError, Verdict};

use super::{IDS, LONG, Life, micros};
use crate::simulation::by_part::{ByPart, as_cost, each as each_part};
use crate::simulation::judge::{Answer, Op, Seen};
use crate::simulation::place::Place;
use crate::simulation::plan::Verb;
use reserving::with_first;

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

/// Reports this when it is dropped: also if its job is.
struct AtEnd<'a, P: Place> {
    place: &'a P,
    seen: Seen,
}

impl<P: Place> Drop for AtEnd<'_, P> {
    fn drop(&mut self) {
        self.place.saw(self.seen.clone());
    }
}

/// A request: its id, its cost, its time, and until when its caller waits by its own clock.
#[derive(Clone, Copy)]
struct Request {
    id: usize,
    op: Op,
    cost: ByPart,
    since_us: u64,
    deadline_us: Option<u64>,
}

impl<P: Place> Life<P> {
    pub(super) async fn ask(&self, id: usize, cost: u64, second: Option<u64>, verb: Verb) {
        let since_us = self.place.now_us();
        let name = IDS[id];
        let both = [cost, second.unwrap_or(cost)];
        let request = Request { id, op: Op::Acquire, cost: both, since_us, deadline_us: None };
        match verb {
            Verb::Reserve { hold_us, actual } => {
                let request = Request { op: Op::Reserve, ..request };
                self.reserve(request, second.is_some(), micros(hold_us), actual).await;
            }
            Verb::All { more } => self.ask_for_all(request, with_first(both, more)).await,
            Verb::Held { hold_us, for_us, is_dropped, actual } => {
                let request = Request { op: Op::Reserve, ..request };
                let spans = (micros(hold_us), micros(for_us));
                self.ask_and_hold(request, second.is_some(), spans, is_dropped, actual).await;
            }
            verb if second.is_some() => self.ask_by_part(request, verb).await,
            Verb::Acquire { wait_us: 0 } => {
                self.asks(id, both);
                let _sharing = self.share(id, true);
                let answer = self.call(self.limiter.try_acquire(name, cost), |it| it.origin).await;
                self.decided(request, answer).await;
            }
            Verb::Acquire { wait_us } => {
                self.asks(id, both);
                let _sharing = self.share(id, false);
                let request = self.waits(request, wait_us);
                let mut in_line = self.join(id);
                let answer = self.limiter.acquire_within(name, cost, micros(wait_us)).await;
                in_line.is_admitted = answer.as_ref().is_ok_and(Decision::is_allowed);
                drop(in_line);
                let late_us = self.place.now_us().saturating_sub(since_us + wait_us);
                self.place.saw(Seen::Overdue { id, by_us: late_us });
                self.decided(request, answer).await;
            }
            Verb::Lazy { wait_us, for_us } => {
                self.asks(id, both);
                let _sharing = self.share(id, false);
                let request = self.waits(request, wait_us);
                let mut in_line = self.join(id);
                let mut wait = pin!(self.limiter.acquire_within(name, cost, micros(wait_us)));
                let first = poll_fn(|context| Poll::Ready(wait.as_mut().poll(context))).await;
                let answer = match first {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => {
                        self.runtime.sleep(micros(for_us)).await;
                        wait.await
                    }
                };
                in_line.is_admitted = answer.as_ref().is_ok_and(Decision::is_allowed);
                drop(in_line);
                self.decided(request, answer).await;
            }
            Verb::Once => {
                self.asks(id, both);
                let once = self.limiter.try_acquire_once(name, cost, self.random_id(), LONG);
                let answer = self.call(once, |it| it.origin).await;
                self.decided(request, answer).await;
            }
            Verb::Each { more } => {
                self.asks(id, [cost + more; 2]);
                let costs = [cost, more];
                let each = self.limiter.try_acquire_each(name, &costs);
                match self.call(each, |all| all[0].origin).await {
                    Ok(decisions) => {
                        for (cost, decision) in [cost, more].into_iter().zip(decisions) {
                            self.tell(Request { cost: [cost; 2], ..request }, false, &decision);
                        }
                    }
                    Err(error) => self.failed("ask for each", &error),
                }
            }
            Verb::Turn { is_cancelled } => self.take_turn(request, is_cancelled).await,
            Verb::Refund => {
                let changing = self.changing(id, false);
                self.adjusted(
                    Request { op: Op::Refund, ..request },
                    self.limiter.refund(name, cost).await,
                );
                drop(changing);
            }
            Verb::Penalty => {
                self.asks(id, both);
                let changing = self.changing(id, false);
                self.adjusted(
                    Request { op: Op::Penalty, ..request },
                    self.limiter.penalty(name, cost).await,
                );
                drop(changing);
            }
            Verb::TakeUpTo => {
                self.asks(id, both);
                let changing = self.changing(id, false);
                self.adjusted(
                    Request { op: Op::TakeUpTo, ..request },
                    self.limiter.take_up_to(name, cost).await,
                );
                drop(changing);
            }
            Verb::Block { for_us } => {
                let changing = self.changing(id, true);
                let request = Request { op: Op::Block, cost: [for_us; 2], ..request };
                self.adjusted(request, self.limiter.block(name, micros(for_us)).await);
                drop(changing);
                self.runtime.sleep(micros(for_us / 2)).await;
                let since_us = self.place.now_us();
                let changing = self.changing(id, false);
                let request = Request { op: Op::Unblock, cost: [0; 2], since_us, ..request };
                self.adjusted(request, self.limiter.unblock(name).await);
                drop(changing);
            }
            Verb::Peek => match self.call(self.limiter.peek(name, cost), |it| it.origin).await {
                Ok(decision) => self.tell(Request { op: Op::Peek, ..request }, false, &decision),
                Err(error) => self.failed("peek", &error),
            },
            Verb::Reset => {
                let changing = self.changing(id, true);
                let answer = self.limiter.reset(name).await.map(Answer::Done);
                self.answered(Request { op: Op::Reset, cost: [0; 2], ..request }, answer);
                drop(changing);
            }
            Verb::Under => {
                // A charge under the other limit converts the key, and so does the next call under
                // the plan's.
                self.asks(id, both);
                self.place.saw(Seen::AsksUnder { id, is_other: true });
                let limiter = self.limiter.under(self.plan.other);
                match self.call(limiter.try_acquire(name, cost), |it| it.origin).await {
                    Ok(decision) => self.tell(request, true, &decision),
                    Err(error) => self.failed_call("ask under another limit", both, &error),
                }
            }
            Verb::Store => self.store_limit(id, cost, since_us).await,
        }
    }

    fn random_id(&self) -> RequestId {
        let random = || u128::from(self.runtime.random());
        RequestId::from_u128(random() << 64 | random())
    }

    /// Makes a call that a circuit breaker may refuse.
    pub(super) async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
        origin: impl Fn(&T) -> Origin,
    ) -> Result<T, Error> {
        if !self.shows_circuit {
            return call.await;
        }
        let (number, mut call) = (self.callers.fetch_add(1, Ordering::Relaxed), pin!(call));
        let mut is_called = false;
        self.place.saw(Seen::Calls);
        let answer = poll_fn(|context| {
            let polled = call.as_mut().poll(context);
            if !std::mem::replace(&mut is_called, true) {
                let clock_us = self.place.clock_us();
                self.place.saw(Seen::Called { call: number, is_sent: false, clock_us });
            }
            polled
        })
        .await;
        let origin = match &answer {
            Ok(answer) => Some(origin(answer)),
            Err(Error::Store(StoreError::NotDone(_) | StoreError::Unknown(_))) => None,
            // The store has answered.
            Err(_) => Some(Origin::Store),
        };
        let clock_us = self.place.clock_us();
        self.place.saw(Seen::CallEnds { call: number, origin, clock_us });
        answer
    }

    /// Reports that the caller of a request waits for this long, by its own clock.
    fn waits(&self, request: Request, wait_us: u64) -> Request {
        let deadline_us = self.place.clock_us().saturating_add(wait_us);
        Request { deadline_us: Some(deadline_us), ..request }
    }

    /// Shares a call with others of this process, or is the first to make one.
    fn share(&self, id: usize, is_sent: bool) -> Sharing<'_> {
        let sharing = &self.sharing[id];
        if sharing.fetch_add(1, Ordering::Relaxed) == 0 && is_sent {
            self.place.saw(Seen::Alone { id });
        }
        Sharing(sharing)
    }

    /// Joins a line: this caller is the limiter's next one for this id.
    fn join(&self, id: usize) -> InLine<'_, P> {
        let caller = self.callers.fetch_add(1, Ordering::Relaxed);
        self.place.saw(Seen::JoinsLine { id, caller });
        InLine { place: &self.place, id, caller, is_admitted: false }
    }

    /// Begins to change the charges of an id, or with `is_key` also the permits granted before.
    fn changing(&self, id: usize, is_key: bool) -> AtEnd<'_, P> {
        self.place.saw(Seen::Changes { id, is_key });
        AtEnd { place: &self.place, seen: Seen::Changed { id, is_key } }
    }

    fn asks(&self, id: usize, cost: ByPart) {
        self.place.saw(Seen::Asked { id, cost });
    }

    async fn decided(&self, request: Request, answer: Result<Decision, Error>) {
        let decision = match answer {
            Ok(decision) => decision,
            Err(error) => return self.failed_call("ask", request.cost, &error),
        };
        self.tell(request, false, &decision);
        if let Verdict::Denied { retry_after, .. } = decision.verdict {
            // Around the exact moment at which it fits, by a clock that may be slow.
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

    fn tell(&self, request: Request, is_other: bool, decision: &Decision) {
        let Request { id, op, cost, since_us, deadline_us } = request;
        let left_us = deadline_us.map(|at_us| at_us.saturating_sub(self.place.clock_us()));
        let decision = decision.clone();
        self.place.saw(Seen::Decided { id, op, cost, since_us, left_us, is_other, decision });
    }

    /// Asks for two ids in one decision.
    async fn ask_for_all(&self, request: Request, more: ByPart) {
        let Request { id, cost, .. } = request;
        let each = [(id, cost), ((id + 1) % IDS.len(), more)];
        each.into_iter().for_each(|(id, cost)| self.asks(id, cost));
        let requests = each.map(|(id, cost)| self.limiter.request(IDS[id], as_cost(cost)));
        let all = self.limiter.try_acquire_all(&requests);
        let all = match self.call(all, |all| all.decisions[0].origin).await {
            Ok(all) => all,
            // Something may have been charged, and given back.
            Err(error) if self.plan.is_apart() => return self.failed("ask for all", &error),
            Err(error) => {
                let both = each_part(cost, more, |one, other| one + other);
                return self.failed_call("ask for all", both, &error);
            }
        };
        let is_denied = |at: usize| !all.decisions[at].is_allowed();
        let is_apart = self.plan.is_apart() && all.decisions[0].origin == Origin::Store;
        for (at, ((id, cost), decision)) in each.into_iter().zip(&all.decisions).enumerate() {
            // On two nodes, the first one is reserved, and given back if the other one is denied.
            let is_first = is_apart && IDS[id] < IDS[each[1 - at].0];
            let op = match (is_denied(at), is_denied(1 - at)) {
                // One that is not charged, because the other one is denied, is only looked at.
                (false, true) => Op::Peek,
                (true, true) if is_apart => Op::Apart,
                _ if is_first => Op::Reserve,
                _ => Op::Acquire,
            };
            if is_first && op == Op::Peek {
                self.place.saw(Seen::GaveBack { id, since_us: request.since_us });
            }
            self.tell(Request { id, op, cost, ..request }, false, decision);
        }
    }

    async fn store_limit(&self, id: usize, which: u64, since_us: u64) {
        let name = IDS[id];
        let terms = self.plan.options.stored.expect("limits are stored");
        let (limit, other) = (terms.of(self.plan.limit), terms.of(self.plan.other));
        let changing = self.changing(id, true);
        let (op, is_other, stored) = match which {
            1 => (Op::SetLimit, true, self.limiter.set_limit(name, other).await.map(|()| true)),
            2 => (Op::SetLimitIfAbsent, false, self.limiter.try_set_limit(name, limit).await),
            _ => {
                let stored = self.limiter.set_limit_afresh(name, limit).await;
                (Op::SetLimitAfresh, false, stored.map(|()| true))
            }
        };
        let request = Request { id, op, cost: [0; 2], since_us, deadline_us: None };
        let is_stored = stored.is_ok();
        self.answered_under(request, is_other, stored.map(Answer::Done));
        drop(changing);
        if !is_stored {
            return;
        }
        let request = Request { op: Op::ReadLimit, since_us: self.place.now_us(), ..request };
        let read = self.limiter.stored_limit(name).await;
        self.answered(request, read.map(|limit| Answer::Limit(limit.map(Box::new))));
    }

    fn adjusted(&self, request: Request, adjusted: Result<Adjusted, Error>) {
        self.answered(request, adjusted.map(Answer::Adjusted));
    }

    fn answered(&self, request: Request, answer: Result<Answer, Error>) {
        self.answered_under(request, false, answer);
    }

    fn answered_under(&self, request: Request, is_other: bool, answer: Result<Answer, Error>) {
        let Request { id, op, cost, since_us, .. } = request;
        match answer {
            Ok(answer) => {
                let answer = Box::new(answer);
                self.place.saw(Seen::Answered { id, op, cost, since_us, is_other, answer })
            }
            Err(error) => self.failed(&format!("{op:?}"), &error),
        }
    }
}
