//! What an observer of a lock sees: every operation with what an inspection shows right before and
//! right after it, whether the record changed, and what the lock must still remember.

use lockage_core::Stored;

use super::history::{self, Done, End};
use super::{Action, Grant, OnKey, Op, Outcome, Sight, Subject, Trace};
use crate::key::{Held, Holds};
use crate::properties::Check;
use crate::subject::Failure;

/// The live grant and its owner, if anybody holds the lock.
pub type Live = Option<(u128, Grant)>;

/// What the failure of an operation that has no outcome begins with: no law was broken, the store
/// or its script was.
pub const FAILED: &str = "no outcome";

/// One operation, and all that can be seen of it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What was sent.
    pub op: Op,
    /// The store's time, in microseconds.
    pub now_us: u64,
    /// What it came to.
    pub outcome: Outcome,
    /// What an inspection showed at the same time, just before.
    pub before: Live,
    /// What an inspection showed at the same time, just after.
    pub after: Live,
    /// How many places the queue had then.
    pub queued: u64,
    /// Whether the operation changed what is stored, its expiry included; of one that was not done, whether it
    /// changed more than who waits.
    pub changed: bool,
    /// Whether the record is certainly there: since it was last written, the clock was seen only
    /// before the moment at which it may be dropped. A clock that passed that moment and was set
    /// back leaves no certainty.
    pub sure: bool,
    /// The answer that the lock must give from its memory.
    pub remembered: Option<Outcome>,
    /// Whether it repeats an operation that was done, and is told so.
    pub repeats: bool,
    /// Whether the hold that it names is one of the live grant, where that is known.
    pub names_live: Option<bool>,
}

impl Seen {
    /// The grant of an operation that was done now, not before.
    pub fn news(&self) -> Option<Grant> {
        match self.outcome {
            Outcome::Held(grant) if self.changed => Some(grant),
            Outcome::Released { token, holds } if self.changed => {
                let deadline_us = self.after.map_or(0, |(_, grant)| grant.deadline_us);
                Some(Grant { token, holds, deadline_us })
            }
            _ => None,
        }
    }

    /// A failure that shows this operation.
    ///
    /// # Errors
    /// Always.
    pub fn wrong(&self, why: &str) -> Check {
        Err(Failure::new(format!("{why}: {self:#?}")))
    }
}

/// Plays a trace and writes down what can be seen.
///
/// # Errors
/// An operation that failed, or an inspection that changed something.
pub fn watch<K: Holds>(lock: &mut OnKey<K>, trace: &Trace) -> Result<Vec<Seen>, Failure> {
    let mut memory = Memory::default();
    let mut transcript: Vec<Seen> = Vec::new();
    let mut watched = Watched { lock, glance: Ok(Glance::default()) };
    trace.play(&mut watched, |watched, op, now_us, outcome, _| {
        let Glance { before, after, queued, changed } = watched.glance.clone()?;
        if let Outcome::Failed(error) = &outcome {
            return Err(Failure::new(format!("{FAILED}: {op:?} at {now_us}: {error}")));
        }
        let (sure, remembered) = (memory.is_sure(now_us), memory.answer(op, now_us, before));
        let repeats = !changed && memory.was_told(op, &outcome);
        let names_live = op.hold().and_then(|hold| memory.is_live(hold, before));
        memory.pass(now_us);
        let op = *op;
        let seen = Seen {
            op,
            now_us,
            outcome,
            before,
            after,
            queued,
            changed,
            sure,
            remembered,
            repeats,
            names_live,
        };
        if let Some(grant) = seen.news() {
            memory.learn(&op, now_us, grant);
        }
        transcript.push(seen);
        Ok(())
    })?;
    Ok(transcript)
}

/// A lock that is inspected around every operation.
struct Watched<'l, K> {
    lock: &'l mut OnKey<K>,
    glance: Result<Glance, Failure>,
}

#[derive(Clone, Debug, Default)]
struct Glance {
    before: Live,
    after: Live,
    queued: u64,
    changed: bool,
}

impl<K: Holds> Subject for Watched<'_, K> {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        // The first inspection comes first, so that a store has dropped what is over before
        // anything is compared.
        let before = self.inspect(now_us);
        let held = self.lock.0.held();
        let outcome = self.lock.run(op, now_us);
        let then = self.lock.0.held();
        let after = self.inspect(now_us);
        let changed = match outcome {
            Outcome::Refused(_) | Outcome::Queued { .. } | Outcome::Withdrawn => {
                but_for_who_waits(&held) != but_for_who_waits(&then)
            }
            _ => held != then,
        };
        self.glance = self.glance(before, after, then).map(|glance| Glance { changed, ..glance });
        outcome
    }

    fn forget(&mut self) {
        self.lock.forget();
    }
}

impl<K: Holds> Watched<'_, K> {
    fn inspect(&mut self, now_us: u64) -> Outcome {
        let op = Op { action: Action::Inspect, lease_us: 1, remember_us: 1 };
        self.lock.run(&op, now_us)
    }

    fn glance(&mut self, before: Outcome, after: Outcome, then: Held) -> Result<Glance, Failure> {
        if self.lock.0.held() != then {
            return Err(Failure::new(format!("an inspection changed {then:?}")));
        }
        match (before, after) {
            (Outcome::Seen(before), Outcome::Seen(Sight { live: after, queued, .. })) => {
                Ok(Glance { before: before.live, after, queued, changed: false })
            }
            other => Err(Failure::new(format!("inspections saw {other:?}"))),
        }
    }
}

/// The record without who waits: without the fifth and the sixth word of its head (until when it is kept, and
/// until when somebody waits), its queue, and its expiry, which is set anew with those.
fn but_for_who_waits(held: &Held) -> Option<String> {
    let Some((Stored::Text(text), _)) = held else { return None };
    let (head, rest) = text.split_once('|')?;
    let words = head.split(' ').enumerate().filter(|(at, _)| ![4, 5].contains(at));
    let words: Vec<&str> = words.map(|(_, word)| word).collect();
    let done = rest.split('>').next()?;
    Some(format!("{}|{done}", words.join(" ")))
}

/// What a lock owes to its clients, as far as they can know: the least that it remembers, and until
/// when.
#[derive(Debug, Default)]
struct Memory {
    /// The operations of the present record, the latest last.
    done: Vec<Done>,
    /// All that were ever done.
    ever: Vec<Done>,
    keep_us: u64,
    /// The latest time since the record began.
    latest_us: u64,
}

impl Memory {
    fn is_sure(&self, now_us: u64) -> bool {
        !self.done.is_empty() && self.latest_us.max(now_us) < self.keep_us
    }

    /// What is told to who asks for what was done before.
    fn answer(&self, op: &Op, now_us: u64, live: Live) -> Option<Outcome> {
        if !self.is_sure(now_us) {
            return None;
        }
        let ended = history::ended(&self.done);
        let end_of = |hold| ended.iter().find(|(known, _)| *known == hold).map(|(_, end)| *end);
        match op.action {
            Action::Acquire { owner, hold, not_after_us, .. } => {
                let latest = self.done.last().map_or(0, |done| done.grant.token);
                let is_latest = history::holds(&self.done, latest).contains(&hold);
                match live {
                    Some((holder, grant)) if is_latest && holder == owner => {
                        Some(Outcome::Held(grant))
                    }
                    Some(_) if is_latest => None,
                    _ if !is_latest && end_of(hold).is_none() => None,
                    _ if now_us > not_after_us => Some(Outcome::TooLate),
                    _ => Some(Outcome::Reused),
                }
            }
            Action::Release { hold, .. } => match end_of(hold)? {
                End::Released(token, holds) => Some(Outcome::Released { token, holds }),
                End::Broken(_) | End::Expired => None,
            },
            Action::ForceRelease { token } => {
                let is_broken = ended.iter().any(|(_, end)| *end == End::Broken(token));
                is_broken.then_some(Outcome::Released { token, holds: 0 })
            }
            Action::Renew { .. } | Action::Withdraw { .. } | Action::Inspect => None,
        }
    }

    /// Whether the same was done before, and this tells so.
    fn was_told(&self, op: &Op, outcome: &Outcome) -> bool {
        let told = match outcome {
            Outcome::Held(grant) => grant.token,
            Outcome::Released { token, .. } => *token,
            _ => return false,
        };
        self.ever.iter().filter(|done| done.grant.token == told).any(|done| {
            match (op.action, done.op.action) {
                (
                    Action::Acquire { owner, hold, .. },
                    Action::Acquire { owner: before, hold: known, .. },
                ) => (owner, hold) == (before, known),
                (Action::Release { hold, .. }, Action::Release { hold: known, .. }) => {
                    hold == known
                }
                (Action::ForceRelease { .. }, Action::ForceRelease { .. }) => true,
                _ => false,
            }
        })
    }

    /// Whether this hold is one of the live grant; nothing where not all of its holds are known.
    fn is_live(&self, hold: u128, live: Live) -> Option<bool> {
        let Some((_, grant)) = live else { return Some(false) };
        let holds = history::holds(&self.done, grant.token);
        (holds.len() as u64 == grant.holds).then(|| holds.contains(&hold))
    }

    fn pass(&mut self, now_us: u64) {
        self.latest_us = self.latest_us.max(now_us);
    }

    fn learn(&mut self, op: &Op, now_us: u64, grant: Grant) {
        if !self.is_sure(now_us) {
            (self.done, self.keep_us, self.latest_us) = (Vec::new(), 0, now_us);
        }
        let done = Done { op: *op, at_us: now_us, grant };
        self.done.push(done);
        self.ever.push(done);
        let remembered_us = now_us.max(grant.deadline_us) + op.remember_us;
        self.keep_us = self.keep_us.max(remembered_us).max(grant.token + 1);
    }
}
