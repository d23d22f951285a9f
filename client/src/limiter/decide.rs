//! The path of a call through the options of its limiter.
//!
//! | | option | does | stands here because |
//! |---|---|---|---|
//! | 1 | observer | reports decisions | it must see every answer, whichever option made it, once for each wait |
//! | 2 | shadow mode | admits everything | it must see every denial and failure, whichever option made it |
//! | 3 | fallback | answers in the store's place | it answers the caller's own request, without permits ahead |
//! | 4 | prefetch | spends permits that are held, or takes some along | they are charged already, so no denial touches them |
//! | 5 | deny cache | denies again | such a denial is the store's own, and better than a fallback's guess while the circuit is open |
//! | 6 | circuit breaker | refuses calls while the store is away | requests must not queue for a store that is not asked |
//! | 7 | coalescing | puts requests into one call | it is next to the store, so that one call is one answer and one failure |
//! | 8 | idempotency | names a call for retries | only a call that is sent needs a name; a call with a name shares none |

use std::time::Duration;

use lockage_core::flow::Step;
use lockage_core::{Adjust, Adjusted, Cost, Decision, LimitCommand, TakeTurn};

use super::Limiter;
use super::ask::{Answer, Ask, Mode};
use super::circuit_breaker::Report;
use super::coalesce::Subject;
use super::options::Options;
use super::permits;
use crate::error::Error;
use crate::key::Key;
use crate::retry_store::HasTimeout;
use crate::runtime::Runtime;
use crate::store::Store;

impl<S: Store> Limiter<S> {
    /// Decides requests for `id`, and reports the decisions to the observer.
    pub(super) async fn decide(
        &self,
        id: &str,
        costs: &[Cost],
        mode: Mode<'_>,
    ) -> Result<Answer, Error> {
        let observer = self.options.observer.as_ref().filter(|_| mode.charges());
        let watch = observer.map(|observer| observer.begin(false));
        let answer = match Key::under(&self.prefix, id) {
            Ok(key) => {
                let ask = Ask::new(id, &key, &self.source, costs, mode);
                if let Some(denied) = self.overtaken(&ask) {
                    Ok(denied)
                } else if self.options.are_none() {
                    self.send(&ask).await
                } else {
                    self.decide_in_turn(&ask).await
                }
            }
            Err(error) => Err(error.into()),
        };
        if let Some(watch) = watch {
            watch.end(id, costs, answer.as_ref().map(Answer::decisions));
        }
        answer
    }

    /// Returns the denial of a caller that would overtake others in line.
    fn overtaken(&self, ask: &Ask<'_>) -> Option<Answer> {
        match &self.options.shadow {
            Some(_) => None,
            None => self.lines.overtaken(ask),
        }
    }

    /// Decides for a caller that overtakes no other in line.
    pub(super) async fn decide_in_turn(&self, ask: &Ask<'_>) -> Result<Answer, Error> {
        let mut answer = self.spend_or_ask(ask).await;
        if let Some(fallback) = &self.options.fallback {
            answer = answer.or_else(|error| fallback.answer(ask, error));
        }
        match &self.options.shadow {
            Some(shadow) => shadow.admit(ask, answer),
            None => answer,
        }
    }

    /// Spends permits that were taken ahead, and takes more along if none are left.
    async fn spend_or_ask(&self, ask: &Ask<'_>) -> Result<Answer, Error> {
        let (Some(held), Some(cost)) = (&self.options.prefetch, ask.single_cost()) else {
            return self.ask(ask).await;
        };
        for may_wait in [true, false] {
            match held.next(ask, cost, may_wait) {
                permits::Step::Spent(decision) => return Ok(Answer::One(decision)),
                permits::Step::Wait(answer) => {
                    if let Some(decision) = held.answer(answer).await {
                        return Ok(Answer::One(decision));
                    }
                }
                permits::Step::Ask(asking) => {
                    let costs = [(cost + asking.ahead()).into()];
                    let whole = Ask { costs: &costs, name: None, goes_alone: true, ..*ask };
                    let decision = self.ask(&whole).await?.decision();
                    match asking.answered(decision, ask.source) {
                        Some(decision) => return Ok(Answer::One(decision)),
                        None => break,
                    }
                }
                permits::Step::Alone => break,
            }
        }
        self.ask(ask).await
    }

    /// Asks the deny cache, and then the store.
    async fn ask(&self, ask: &Ask<'_>) -> Result<Answer, Error> {
        // Boxed: otherwise the future of every call would contain all of it, and be moved with it.
        let Some(denials) = &self.options.deny_cache else { return Box::pin(self.call(ask)).await };
        if let Some(denied) = denials.answer(ask) {
            return Ok(denied);
        }
        let ticket = denials.ticket(ask.key);
        let answer = Box::pin(self.call(ask)).await?;
        denials.learn_from(ask, ticket, &answer);
        Ok(answer)
    }

    /// Calls the store while its circuit is closed, and reports the call to the circuit breaker.
    async fn call(&self, ask: &Ask<'_>) -> Result<Answer, Error> {
        let Options { circuit_breaker, coalescing, idempotency, .. } = &self.options;
        let report = Report::begin(circuit_breaker.as_ref().filter(|_| !ask.needs_store()))?;
        if let (Some(coalescer), Some(cost)) = (coalescing, ask.shared_cost()) {
            let subject = Subject { key: ask.key.clone(), source: ask.source.clone() };
            return coalescer.wait(subject, cost, report).await.map(Answer::One);
        }
        let name = match idempotency {
            Some(idempotency) if ask.wants_name() => Some(idempotency.name()),
            _ => ask.name,
        };
        let answer = self.send(&Ask { name, ..*ask }).await;
        if let Some(report) = report {
            report.call_ended(&answer);
        }
        answer
    }

    /// Sends the command to the store. All but a plain acquire are boxed, so that its future does not contain them.
    async fn send(&self, ask: &Ask<'_>) -> Result<Answer, Error> {
        let Ask { key, source, .. } = *ask;
        let store = &self.store;
        Ok(match ask.mode {
            Mode::Acquire => {
                // Not within the call: the future would have a copy of it for `?`.
                let command = ask.acquire()?;
                Answer::One(source.execute(store, key, &command).await?)
            }
            Mode::Repeat(command) => {
                Answer::One(Box::pin(source.execute(store, key, command)).await?)
            }
            Mode::Each(command) => {
                Answer::Each(Box::pin(source.execute(store, key, command)).await?)
            }
            Mode::Peek(command) => {
                Answer::One(Box::pin(source.execute(store, key, command)).await?)
            }
            Mode::Reserve(command) => {
                Answer::Reserved(Box::pin(source.execute(store, key, command)).await?.into())
            }
            Mode::TakeTurn(command) => match source.limit() {
                Some(limit) => {
                    let turn = TakeTurn::new(ask.named(command.under(source.bounded(limit)?))?);
                    Answer::Turn(Box::pin(store.execute(key, &turn)).await?.into())
                }
                // No command gives back a turn under a stored limit.
                None => {
                    let command = ask.named(*command)?;
                    Answer::One(Box::pin(source.execute(store, key, &command)).await?)
                }
            },
        })
    }
}

/// A caller whose turn has come asks, and its call ends, within this time, or within the store's timeout if that is
/// shorter.
const LONGEST_SILENCE: Duration = Duration::from_secs(1);

impl<S: HasTimeout> Limiter<S> {
    /// Waits in line, and asks when it is the caller's turn.
    pub(super) async fn wait(
        &self,
        id: &str,
        cost: u64,
        timeout: Duration,
    ) -> Result<Decision, Error> {
        let runtime = self.store.runtime();
        let key = Key::under(&self.prefix, id)?;
        let subject = Subject { key: key.clone(), source: self.source.clone() };
        let silence = self.store.timeout().min(LONGEST_SILENCE);
        let place = self.lines.join(subject, cost, timeout, silence, runtime);
        // One id for all attempts: a late copy of one that was denied is charged instead of a later one, not in
        // addition.
        let name = self.options.idempotency.as_ref().map(|idempotency| idempotency.name());
        let costs = [cost.into()];
        let ask = Ask { name, ..Ask::new(id, &key, &self.source, &costs, Mode::Acquire) };
        loop {
            // In shadow mode nothing is denied, so no caller waits.
            if self.options.shadow.is_none()
                && let Some(denial) = place.turn(runtime).await
            {
                return Ok(denial);
            }
            let patience = place.patience(runtime.now());
            let mut decision = match self.decide_in_turn(&ask.within(patience)).await {
                Ok(answer) => answer.decision(),
                Err(error) => {
                    place.failed(runtime.now());
                    return Err(error);
                }
            };
            match place.answered(&decision, runtime.now(), runtime.random()) {
                Step::Wait => {}
                Step::Done => return Ok(decision),
                Step::Turn(time) => {
                    drop(place);
                    runtime.sleep(time).await;
                    decision.turn_after = Duration::ZERO;
                    return Ok(decision);
                }
            }
        }
    }
}

/// The part of a key that a command changes, besides admitting requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The charge: less may be denied afterwards.
    Use,
    /// All of it: permits that were granted before are no longer valid.
    Key,
}

impl<S: Store> Limiter<S> {
    /// Adjusts the charge once: the call is named, so that it can be retried.
    pub(super) async fn adjust(
        &self,
        id: &str,
        change: Change,
        command: Adjust,
    ) -> Result<Adjusted, Error> {
        let command = match &self.options.idempotency {
            Some(idempotency) => {
                let (name, window) = idempotency.name();
                command.with_request(name, window)?
            }
            None => command,
        };
        self.change(id, change, &command).await
    }

    /// Executes a command that changes a key's state.
    pub(super) async fn change<C>(
        &self,
        id: &str,
        change: Change,
        command: &C,
    ) -> Result<C::Outcome, Error>
    where
        C: LimitCommand<Outcome: Send> + Clone + Send + Sync,
    {
        let key = Key::under(&self.prefix, id)?;
        let _forgetting = self.forgetting(&key, change);
        self.source.execute(&self.store, &key, command).await
    }

    /// Forgets this process's knowledge of a key, now and when the guard is dropped: also if the call fails or is given
    /// up, since it may have run.
    pub(super) fn forgetting<'a>(&'a self, key: &'a Key, change: Change) -> Forgetting<'a, S> {
        self.forget(key, change);
        Forgetting { limiter: self, key, change }
    }

    fn forget(&self, key: &Key, change: Change) {
        if let Some(denials) = &self.options.deny_cache {
            denials.forget(key);
        }
        if let (Some(permits), Change::Key) = (&self.options.prefetch, change) {
            permits.forget(key);
        }
    }
}

/// A change of a key in progress.
#[must_use]
pub(super) struct Forgetting<'a, S: Store> {
    limiter: &'a Limiter<S>,
    key: &'a Key,
    change: Change,
}

impl<S: Store> Drop for Forgetting<'_, S> {
    fn drop(&mut self) {
        self.limiter.forget(self.key, self.change);
        // Permits may have come back for callers in line.
        self.limiter.lines.changed(self.key);
    }
}
