//! Callers in their lines, and their events.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use lockage_core::flow::{Line, Look, Step};
use lockage_core::{Decision, Limit, Verdict};

use super::{Settled, Waiting};
use crate::replay::Outcome;
use crate::trace::{Request, Trace};
use crate::traffic::random::{Chance, Stream};

/// Simulated callers always look when it is their turn.
const SILENCE: Duration = Duration::from_secs(3600);

/// All callers, in their lines.
pub(super) struct Crowd<'a> {
    waiting: &'a Waiting,
    chance: Chance,
    /// In the order of their times, then in the order in which they were made.
    events: BTreeMap<(Duration, u64), Event>,
    made: u64,
    /// By process and key.
    lines: HashMap<(usize, u32), Line>,
    pub(super) callers: Vec<Caller>,
    /// The caller of each number in a line.
    places: HashMap<(usize, u32, u64), usize>,
}

pub(super) enum Event {
    Arrives,
    /// The caller of this request wakes.
    Looks(usize),
    Answered(usize, Decision),
}

pub(super) struct Caller {
    line: (usize, u32),
    pub(super) number: u64,
    pub(super) arrived: Duration,
    pub(super) calls: u32,
    /// When it wakes, and the event of that.
    looks_at: Option<(Duration, u64)>,
    pub(super) settled: Settled,
}

impl<'a> Crowd<'a> {
    pub(super) fn new(waiting: &'a Waiting) -> Self {
        let chance = Chance::new(waiting.seed, Stream::Jitter);
        let (events, made, lines, callers, places) = Default::default();
        Crowd { waiting, chance, events, made, lines, callers, places }
    }

    pub(super) fn push(&mut self, at: Duration, event: Event) -> (Duration, u64) {
        self.made += 1;
        self.events.insert((at, self.made), event);
        (at, self.made)
    }

    /// Returns the next event and its time; in one instant, new requests come first.
    pub(super) fn next(&mut self, arrives_at: Option<Duration>) -> Option<(Duration, Event)> {
        let happens_at = self.events.first_key_value().map(|((at, _), _)| *at);
        match arrives_at {
            Some(now) if happens_at.is_none_or(|at| now <= at) => Some((now, Event::Arrives)),
            _ => self.events.pop_first().map(|((at, _), event)| (at, event)),
        }
    }

    /// Callers are spread evenly over the processes.
    pub(super) fn joins(&mut self, trace: &Trace, request: usize, now: Duration) {
        let Request { key, cost, .. } = trace.requests()[request];
        let line = (request % self.waiting.processes.get() as usize, key);
        let silence = self.waiting.timeout.max(SILENCE).max(2 * self.waiting.round_trip);
        let places = self.lines.entry(line).or_insert_with(|| Line::new(silence));
        let number = places.join(cost, now, self.waiting.timeout);
        self.places.insert((line.0, line.1, number), request);
        let (outcome, zero) = (Outcome::Denied, Duration::ZERO);
        let settled = Settled { outcome, after: zero, waited: zero, queued: zero, calls: 0 };
        let looks_at = None;
        self.callers.push(Caller { line, number, arrived: now, calls: 0, looks_at, settled });
    }

    pub(super) fn line(&mut self, request: usize) -> &mut Line {
        let line = self.callers[request].line;
        self.lines.get_mut(&line).expect("a line that was joined")
    }

    pub(super) fn looks_at(&mut self, request: usize, at: Duration) {
        if let Some(before) = self.callers[request].looks_at {
            self.events.remove(&before);
        }
        self.callers[request].looks_at = Some(self.push(at, Event::Looks(request)));
    }

    pub(super) fn look(&mut self, request: usize, now: Duration) -> Look {
        self.callers[request].looks_at = None;
        let number = self.callers[request].number;
        let look = self.line(request).look(number, now);
        if !matches!(look, Look::Sleep(_)) {
            self.call_others(request, now);
        }
        look
    }

    /// Makes others in the line of this caller look.
    pub(super) fn call_others(&mut self, request: usize, now: Duration) {
        let line = self.callers[request].line;
        let called: Vec<u64> = self.line(request).called().collect();
        for number in called {
            let other = self.places[&(line.0, line.1, number)];
            if other != request {
                self.looks_at(other, now);
            }
        }
    }

    /// Returns when the caller goes ahead or gives up; `None` if it waits on.
    pub(super) fn answered(
        &mut self,
        limit: &Limit,
        request: usize,
        decision: Decision,
        now: Duration,
    ) -> Option<Duration> {
        // The least that can be drawn is no jitter at all.
        let random = if self.waiting.jitter { self.chance.bits() } else { 0 };
        let number = self.callers[request].number;
        let step = self.line(request).answered(number, &decision, Some(limit), now, random);
        self.call_others(request, now);
        let queued = match step {
            Step::Wait => return None,
            Step::Turn(time) => time,
            Step::Done => Duration::ZERO,
        };
        self.settle(request, decision.verdict, queued, now);
        Some(now + queued)
    }

    pub(super) fn settle(
        &mut self,
        request: usize,
        verdict: Verdict,
        queued: Duration,
        now: Duration,
    ) {
        let Caller { line, number, arrived, calls, settled, .. } = self.callers[request];
        let (outcome, after) = (Outcome::of(verdict), now + queued - arrived);
        self.callers[request].settled = Settled { outcome, after, queued, calls, ..settled };
        self.places.remove(&(line.0, line.1, number));
        if self.lines.get(&line).is_some_and(Line::is_empty) {
            self.lines.remove(&line);
        }
    }
}
