//! Waiting in line for permits.

mod forecast;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use core::time::Duration;

use self::forecast::{Forecast, with_next_look};
use super::{backoff, part_of};
use crate::decision::{Decision, DenialReason, Origin, Verdict};
use crate::limit::Limit;
use crate::limiter::Cost;

/// The growth of pauses with each denial.
const GROWTH: u32 = 4;
/// The shortest pause after the first denial, however soon a permit is due.
const FIRST_LEAST: Duration = Duration::from_millis(1);
/// The longest of the shortest pauses.
const LONGEST_LEAST: Duration = Duration::from_millis(32);
/// The span of the jitter before it grows, where a quarter of `retry_after` is not more.
const FIRST_JITTER: Duration = Duration::from_millis(4);
/// The longest span of the jitter.
const LONGEST_JITTER: Duration = Duration::from_millis(100);

/// The callers of one process that wait for permits of one key under one limit, in the order in which they came.
///
/// Each caller asks the store for itself, once it is its turn: all before it are being asked for or have left, and its
/// permit is due by the latest decision. So a large cost is admitted once it fits, and no smaller one takes its
/// permits. Decisions forecast the next permits: exactly for buckets (refilled by intervals, up to their capacity) and
/// for the costs that `remaining` covers. Those callers ask at the same time; under other limits the next caller asks
/// at once.
///
/// One caller of the process asks at a time, so after its first denial it comes back at `retry_after`, without jitter.
/// A further denial means that other processes took the permit. It then leaves some permits to them: as many times
/// `retry_after` as fit into a random part of a span, which is a quarter of `retry_after` at first (at least 4 ms),
/// four times as long with each denial, and at most 100 ms. So the process whose call was admitted goes on, the others
/// seldom ask, and a permit lies idle for 100 ms at most. One admission does not reset the count of denials: two
/// processes that take turns would make two calls for each permit. A pause is at least 1 ms, growing to 32 ms.
///
/// A caller that is not polled must not hold up the others. If no call begins or ends within `silence` of the time at
/// which one was due, the next caller that looks asks instead, and those before it are passed over until they look
/// again. Calls without an answer are not repeated by the line; after each one that fails, twice as many callers ask at
/// a time, so that all of them soon notice an unreachable store.
#[derive(Clone, Debug)]
pub struct Line {
    places: VecDeque<Place>,
    joined: u64,
    known: Option<Known>,
    /// Denials since the last admission.
    denials: u32,
    /// Those before that admission, if it was the first one after them.
    denials_before: u32,
    /// Calls that failed since the last answer.
    failures: u32,
    /// When a call last began or ended.
    acted_at: Duration,
    silence: Duration,
    /// How many calls have begun, and the latest of those that ended without an answer.
    calls: u64,
    lost_call: u64,
    /// The calls in flight, and their costs in all.
    asking: u32,
    asked: u128,
    /// The costs of all in line that are not away.
    wanted: u128,
    /// How many are new.
    new: usize,
}

#[derive(Clone, Debug)]
struct Place {
    number: u64,
    cost: u64,
    deadline: Duration,
    state: State,
    /// It has not looked since a decision is known.
    is_new: bool,
    /// Permits came back since its last call began, so its decision may not know of them.
    is_outdated: bool,
    /// It leaves permits to other processes until then.
    paused_until: Duration,
    /// The number of its last call.
    call: u64,
    /// When its last call began. Times after its decision count from then, so that the next call arrives when they
    /// have passed.
    asked_at: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits,
    Asks,
    /// It seems not to be polled.
    Away,
}

/// The latest decision of the store.
#[derive(Clone, Debug)]
struct Known {
    decision: Decision,
    /// On this cost.
    cost: u64,
    limit: Option<Limit>,
    call: u64,
    at: Duration,
}

/// The next action of a caller in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Ask the store.
    Ask,
    /// Look again after this time, or as soon as it is called.
    Sleep(Duration),
    /// It has left the line: its permit does not come in time.
    Denied(Decision),
}

/// The consequence of a decision for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The decision is final: admitted, never admissible, or the permit does not come in time. It has left the line.
    Done,
    /// Admitted; after this time, at its turn, the decision is final. It has left the line.
    Turn(Duration),
    /// It waits on: look again.
    Wait,
}

impl Line {
    /// Creates an empty line, in which callers that are not polled hold up others for at most `silence`.
    pub fn new(silence: Duration) -> Self {
        Line {
            places: VecDeque::new(),
            joined: 0,
            known: None,
            denials: 0,
            denials_before: 0,
            failures: 0,
            acted_at: Duration::ZERO,
            silence,
            calls: 0,
            lost_call: 0,
            asking: 0,
            asked: 0,
            wanted: 0,
            new: 0,
        }
    }

    /// Takes in a caller that waits from `now` for `timeout` at most, and returns its number. With a timeout of zero it
    /// asks once.
    pub fn join(&mut self, cost: u64, now: Duration, timeout: Duration) -> u64 {
        if self.places.is_empty() {
            // The known decision is out of date: permits may have been wasted meanwhile.
            *self = Line { joined: self.joined, acted_at: now, ..Line::new(self.silence) };
        }
        self.joined += 1;
        let (number, deadline) = (self.joined, now.saturating_add(timeout));
        self.places.push_back(Place {
            number,
            cost,
            deadline,
            state: State::Away,
            is_new: true,
            is_outdated: false,
            paused_until: now,
            call: 0,
            asked_at: now,
        });
        self.new += 1;
        self.set(self.places.len() - 1, State::Waits);
        number
    }

    /// Returns whether the line is empty.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the callers that are to look after a change: the first one that does not ask, and once a decision is
    /// known, all that have not looked since, as their permits may come too late.
    pub fn called(&self) -> impl Iterator<Item = u64> + '_ {
        let has_news = self.new > 0 && self.known.is_some();
        let most = if has_news { usize::MAX } else { 1 };
        let waiting = self.places.iter().filter(|place| place.state == State::Waits).take(most);
        let called = waiting.enumerate().filter(|(index, place)| *index == 0 || place.is_new);
        called.map(|(_, place)| place.number)
    }

    /// Returns how long the caller still waits: the latest turn that it takes.
    pub fn patience(&self, number: u64, now: Duration) -> Duration {
        let deadline = self.index(number).map(|index| self.places[index].deadline);
        deadline.unwrap_or_default().saturating_sub(now)
    }

    /// Returns the next action of a caller.
    pub fn look(&mut self, number: u64, now: Duration) -> Look {
        // Invariant: a caller looks only while it is in line.
        let Some(index) = self.index(number) else { return Look::Ask };
        let is_new = self.places[index].is_new;
        if is_new && self.known.is_some() {
            self.places[index].is_new = false;
            self.new -= 1;
        }
        // One that was passed over is back.
        self.set(index, State::Waits);
        let Place { cost, deadline, .. } = self.places[index];

        let (mut until, is_first) = (self.silent_until(), self.is_first(index));
        if is_first && let Some(at) = self.asks_at(&self.places[index]) {
            if at <= now {
                return self.ask(index, now);
            }
            until = at;
        } else if until <= now {
            (0..index).for_each(|before| self.set(before, State::Away));
            return self.ask(index, now);
        }
        if now >= deadline || (is_new || is_first) && self.comes_too_late(index) {
            return match self.denial(&self.total_before(index, cost).into(), &cost.into(), now) {
                Some(decision) => {
                    self.remove(index);
                    Look::Denied(decision)
                }
                None => self.ask(index, now),
            };
        }
        Look::Sleep(until.min(deadline).saturating_sub(now))
    }

    /// Takes in the decision on a caller that asked under this limit, if it is known.
    pub fn answered(
        &mut self,
        number: u64,
        decision: &Decision,
        limit: Option<&Limit>,
        now: Duration,
        random: u64,
    ) -> Step {
        let Some(index) = self.end_call(number, now) else { return Step::Done };
        self.failures = 0;
        let Place { cost, deadline, call, asked_at: at, is_outdated, .. } = self.places[index];
        // Only then does a denial show that other processes take permits.
        let was_sure = self.due(&cost.into()).is_sure;
        let decision = with_next_look(decision, limit);
        if decision.verdict != Verdict::Never && !is_outdated {
            let (decision, limit) = ((*decision).clone(), limit.copied());
            self.known = Some(Known { decision, cost, limit, call, at });
        }
        let Verdict::Denied { retry_after, .. } = decision.verdict else {
            self.denials_before = match self.denials {
                0 => 0,
                denials => self.denials_before.saturating_add(denials),
            };
            self.denials = 0;
            self.remove(index);
            return match decision.is_allowed() && !decision.turn_after.is_zero() {
                true => Step::Turn(decision.turn_after),
                false => Step::Done,
            };
        };
        let left = deadline.saturating_sub(now);
        if left.is_zero() || retry_after.max(decision.turn_after) > left {
            if !decision.turn_after.is_zero() {
                // Its turn is too late for this caller, and perhaps not for the next one.
                self.known = None;
            }
            self.remove(index);
            return Step::Done;
        }
        // Among calls in flight at one time, the first one shows whether other processes take permits.
        if self.is_first(index) && !is_outdated {
            let before = if was_sure { self.denials_before } else { 0 };
            let pause = pause(self.denials.saturating_add(before), retry_after, random);
            self.denials = self.denials.saturating_add(1);
            self.places[index].paused_until = at.saturating_add(pause);
        }
        Step::Wait
    }

    /// Removes a caller whose call has failed.
    pub fn failed(&mut self, number: u64, now: Duration) {
        if let Some(index) = self.end_call(number, now) {
            self.lost_call = self.lost_call.max(self.places[index].call);
            self.remove(index);
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// Removes a caller that gives up, with or without a call in flight.
    pub fn left(&mut self, number: u64) {
        if let Some(index) = self.index(number) {
            let Place { call, state, .. } = self.places[index];
            if state == State::Asks {
                self.lost_call = self.lost_call.max(call);
            }
            self.remove(index);
        }
    }

    /// Notes that permits were given back or the limit was changed: the known decision is out of date.
    pub fn changed(&mut self) {
        self.known = None;
        for place in &mut self.places {
            (place.is_outdated, place.paused_until) = (true, Duration::ZERO);
        }
    }

    /// Returns the denial of a request that comes now and does not wait; `None` if it is to ask the store. It is denied
    /// unless it would be admitted after all in line. A part that it asks for nothing does not count.
    pub fn overtaking(&self, cost: impl Into<Cost>, now: Duration) -> Option<Decision> {
        if self.wanted == 0 || self.silent_until() <= now {
            return None;
        }
        let cost = cost.into();
        let is_by_part = cost.parts().is_some();
        let total = cost.map(|_, cost| match cost {
            0 if is_by_part => 0,
            cost => clamped(self.wanted + u128::from(cost)),
        });
        let due = self.due(&total);
        match due.is_sure && due.after <= now {
            true => None,
            false => self.denial(&total, &cost, now),
        }
    }

    fn index(&self, number: u64) -> Option<usize> {
        self.places.binary_search_by_key(&number, |place| place.number).ok()
    }

    /// Returns the costs of those before this place that are not passed over, and this one.
    fn total_before(&self, index: usize, cost: u64) -> u64 {
        let before = self.places.iter().take(index).filter(|place| place.state != State::Away);
        before.fold(cost, |sum, place| sum.saturating_add(place.cost))
    }

    /// Returns when these permits can be had, by the clock of the line.
    fn due(&self, total: &Cost) -> Forecast {
        let Some(Known { decision, cost, limit, call, at }) = &self.known else {
            return Forecast { after: Duration::ZERO, is_sure: false };
        };
        let Forecast { after, is_sure } = Forecast::of(limit.as_ref(), decision, *cost, total);
        let is_sure = is_sure && *call > self.lost_call;
        Forecast { after: at.saturating_add(after), is_sure }
    }

    /// Returns whether all callers before this place ask, or are passed over.
    fn is_first(&self, index: usize) -> bool {
        !self.places.iter().take(index).any(|place| place.state == State::Waits)
    }

    /// Returns whether waiting is useless for a caller, by the known decision.
    fn comes_too_late(&self, index: usize) -> bool {
        let Place { cost, deadline, .. } = self.places[index];
        let is_never = self.known.as_ref().is_some_and(|known| cost > known.decision.limit);
        is_never || self.due(&self.total_before(index, cost).into()).after > deadline
    }

    /// Returns when the first caller that does not ask does so; `None` while it has to wait for an answer.
    fn asks_at(&self, first: &Place) -> Option<Duration> {
        let due = self.due(&clamped(self.asked + u128::from(first.cost)).into());
        let has_room = self.asking >> self.failures.min(31) == 0;
        // While other processes take permits, later permits are not for the callers in line.
        (due.is_sure && self.denials == 0 || has_room)
            .then(|| due.after.max(first.paused_until.min(first.deadline)))
    }

    /// Returns the time by which a caller acts, unless those whose turn it is are not polled.
    fn silent_until(&self) -> Duration {
        let first = self.places.iter().find(|place| place.state == State::Waits);
        let asks_at = first.and_then(|place| self.asks_at(place));
        self.acted_at.max(asks_at.unwrap_or_default()).saturating_add(self.silence)
    }

    /// Sets the state of a caller, and updates the counts.
    fn set(&mut self, index: usize, state: State) {
        let Place { cost, state: before, .. } = self.places[index];
        let cost = u128::from(cost);
        match before {
            State::Asks => (self.asking, self.asked) = (self.asking - 1, self.asked - cost),
            State::Waits => {}
            State::Away => self.wanted += cost,
        }
        match state {
            State::Asks => (self.asking, self.asked) = (self.asking + 1, self.asked + cost),
            State::Waits => {}
            State::Away => self.wanted -= cost,
        }
        self.places[index].state = state;
    }

    fn ask(&mut self, index: usize, now: Duration) -> Look {
        self.set(index, State::Asks);
        self.calls += 1;
        let place = &mut self.places[index];
        (place.call, place.asked_at, place.is_outdated) = (self.calls, now, false);
        self.acted_at = now;
        Look::Ask
    }

    /// Returns where a caller is whose call has ended.
    fn end_call(&mut self, number: u64, now: Duration) -> Option<usize> {
        let index = self.index(number)?;
        self.set(index, State::Waits);
        self.acted_at = now;
        Some(index)
    }

    fn remove(&mut self, index: usize) {
        self.set(index, State::Away);
        let removed = self.places.remove(index);
        self.new -= usize::from(removed.is_some_and(|place| place.is_new));
    }

    /// Returns the denial of a cost that is this total with those before it. Those count as admitted first.
    fn denial(&self, total: &Cost, cost: &Cost, now: Duration) -> Option<Decision> {
        let known = self.known.as_ref()?;
        let due = self.due(total).after.saturating_sub(now).max(Duration::from_micros(1));
        // Rounded up, as all spans of decisions are whole microseconds.
        let retry_after =
            Duration::from_micros(u64::try_from(due.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX));
        let passed = now.saturating_sub(known.at);
        let mut decision = known.decision.clone();
        let reason = match decision.verdict {
            Verdict::Denied { reason, .. } => reason,
            Verdict::Allowed | Verdict::Never => DenialReason::Limit,
        };
        decision.verdict = match cost.exceeds(&decision) {
            true => Verdict::Never,
            false => Verdict::Denied { retry_after, reason },
        };
        decision.remaining = 0;
        for span in [&mut decision.reset_after, &mut decision.turn_after] {
            let left = span.saturating_sub(passed);
            *span = left - Duration::from_nanos(u64::from(left.subsec_nanos() % 1000));
        }
        (decision.origin, decision.shadow) = (Origin::Line, None);
        Some(decision)
    }
}

fn clamped(total: u128) -> u64 {
    u64::try_from(total).unwrap_or(u64::MAX)
}

/// Returns the pause after a denial that follows this many others.
fn pause(denials: u32, retry_after: Duration, random: u64) -> Duration {
    let least = retry_after.max(backoff(FIRST_LEAST, GROWTH, denials, LONGEST_LEAST));
    if denials == 0 {
        return least;
    }
    let first_jitter = FIRST_JITTER.max(retry_after / 4);
    let jitter = part_of(backoff(first_jitter, GROWTH, denials, LONGEST_JITTER), random);
    // Whole permits are left to others: between two of them there is nothing to get.
    let rest = jitter.as_nanos() % retry_after.as_nanos().max(1);
    least + (jitter - Duration::from_nanos(u64::try_from(rest).unwrap_or_default()))
}
