//! A reference lock, as simple as possible: everything follows from the list of its operations, and from the writes
//! about its waiters.

use lockage_core::lock::MAX_HOLDS;

use super::history::{Done, End, acquired, ended, grant, holds};
use super::{Action, Grant, Op, Outcome, Sight, Subject, bound};

/// The end of the exact range, in microseconds.
const LATEST_US: u64 = (1 << 53) - 1;

/// The most places in line (L9).
const PLACES: usize = 100;

/// One lock that behaves as its contract says.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    done: Vec<Done>,
    /// Until when copies of the acquires at these places may arrive, in microseconds.
    bounds: Vec<(usize, u64)>,
    /// The turns of all writes.
    turns: Vec<(u64, Turn)>,
    /// Until when a waiter is known. It only decides whether there is something to write.
    wake_us: u64,
    /// Until when the record is kept.
    keep_us: u64,
}

/// The effect of a write on the line; it also drops the places that have ended.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Asked { owner: u128, until_us: u64 },
    Left(u128),
    NoOnes,
}

impl Reference {
    /// Returns when nothing here matters any more: no hold must be remembered, no lease runs, and no token is ahead of
    /// the clock.
    pub fn keep_us(&self) -> u64 {
        self.keep_us
    }

    /// Keeps the record for `remember_us` after the lease; where that is longer than before, for half as long again.
    fn keep_for(&mut self, remember_us: u64, deadline_us: u64, now_us: u64) {
        let needed_us = deadline_us + remember_us;
        if self.keep_us < needed_us {
            self.keep_us = (needed_us + (needed_us - now_us) / 2).min(LATEST_US);
        }
        self.keep_us = self.keep_us.max(self.token() + 1);
    }

    /// Returns when each recorded place in the queue ends, ended ones included.
    pub fn places_us(&self) -> impl DoubleEndedIterator<Item = u64> {
        let latest_us = self.turns.last().map_or(0, |&(at_us, _)| at_us);
        self.places(latest_us).into_iter().map(|(_, until_us)| until_us)
    }

    /// Returns the places that have not ended: their owners, and until when.
    fn places(&self, now_us: u64) -> Vec<(u128, u64)> {
        let mut places: Vec<(u128, u64)> = Vec::new();
        for &(at_us, turn) in &self.turns {
            places.retain(|&(_, until_us)| at_us < until_us);
            match turn {
                Turn::Asked { owner, until_us } => {
                    match places.iter_mut().find(|(known, _)| *known == owner) {
                        Some(place) => place.1 = until_us,
                        None => places.push((owner, until_us)),
                    }
                }
                Turn::Left(owner) => places.retain(|&(known, _)| known != owner),
                Turn::NoOnes => {}
            }
        }
        places.retain(|&(_, until_us)| now_us < until_us);
        places
    }

    /// Writes for a refused acquire that waits.
    fn waits(&mut self, op: &Op, now_us: u64) {
        let Action::Acquire { owner, waits_us, in_line, .. } = op.action else { return };
        let places = self.places(now_us);
        let until_us =
            places.iter().find(|(known, _)| *known == owner).map(|&(_, until_us)| until_us);
        let is_due = match until_us {
            Some(until_us) => until_us < now_us + waits_us,
            None => places.len() < PLACES,
        };
        let lines_up = in_line && waits_us > 0 && is_due;
        if lines_up {
            let until_us = now_us + 3 * waits_us / 2;
            self.turns.push((now_us, Turn::Asked { owner, until_us }));
            self.keep_us = self.keep_us.max(until_us);
        }
        if waits_us > 0 && self.wake_us < now_us + waits_us.div_ceil(2) {
            self.wake_us = now_us + waits_us;
            self.turns.push((now_us, Turn::NoOnes));
        }
    }

    /// Returns the latest token.
    pub fn token(&self) -> u64 {
        self.done.last().map_or(0, |done| done.grant.token)
    }

    /// Returns the end of the latest grant's lease.
    pub fn deadline_us(&self) -> u64 {
        grant(&self.done, self.token()).map_or(0, |(_, grant)| grant.deadline_us)
    }

    /// Returns the latest grant's owner and holds, live or not.
    pub fn held(&self) -> Option<(u128, Vec<u128>)> {
        let (owner, _) = grant(&self.done, self.token())?;
        Some((owner, holds(&self.done, self.token())))
    }

    /// Returns the grant that is live at a time.
    fn live(&self, now_us: u64) -> Option<(u128, Grant)> {
        grant(&self.done, self.token()).filter(|(_, grant)| now_us < grant.deadline_us)
    }

    /// Returns the result of an inspection.
    fn sight(&self, now_us: u64) -> Sight {
        let queued = self.places(now_us).len() as u64;
        let Some((owner, grant)) = self.live(now_us) else {
            return Sight { queued, ..Sight::default() };
        };
        let granted = self.done.iter().find(|done| done.grant.token == grant.token);
        let granted = granted.expect("a grant was made by an operation");
        let Action::Acquire { label, .. } = granted.op.action else { panic!("by an acquire") };
        Sight { live: Some((owner, grant)), since_us: Some(granted.at_us), label, queued }
    }

    /// Learns until when a copy of an acquire may arrive.
    fn may_arrive(&mut self, op: &Op) {
        let Action::Acquire { hold, not_after_us, .. } = op.action else { return };
        let at = acquired(&self.done, hold).expect("it was acquired");
        self.bounds.push((at, bound(not_after_us)));
    }

    /// Returns the outcome of an operation that changes nothing but until when its copies may arrive.
    fn known(&self, op: &Op, now_us: u64) -> Option<Outcome> {
        let live = self.live(now_us);
        let (ended, forgotten) = ended(&self.done);
        let bounds = self.bounds.iter().filter(|(at, _)| forgotten.contains(at));
        let forgotten_us = bounds.map(|&(_, bound_us)| bound_us).max().unwrap_or(0);
        let end_of = |hold| ended.iter().find(|(known, _)| *known == hold).map(|(_, end)| *end);
        match op.action {
            Action::Acquire { owner, hold, not_after_us, .. } => {
                let is_known = holds(&self.done, self.token()).contains(&hold);
                match live {
                    Some((holder, grant)) if is_known && holder == owner => {
                        Some(Outcome::Held(grant))
                    }
                    _ if now_us > not_after_us => Some(Outcome::TooLate { forgotten_us }),
                    None if is_known => Some(Outcome::Reused),
                    _ if end_of(hold).is_some() => Some(Outcome::Reused),
                    _ => {
                        (not_after_us <= forgotten_us).then_some(Outcome::TooLate { forgotten_us })
                    }
                }
            }
            Action::Release { hold, .. } => match end_of(hold) {
                Some(End::Released(token, holds)) => Some(Outcome::Released { token, holds }),
                _ => None,
            },
            Action::ForceRelease { token } => ended
                .iter()
                .any(|(_, end)| *end == End::Broken(token))
                .then_some(Outcome::Released { token, holds: 0 }),
            Action::Renew { .. } | Action::Withdraw { .. } | Action::Inspect => None,
        }
    }

    /// Returns the next owner, if any waits in line.
    fn next(&self, now_us: u64) -> Option<u128> {
        self.places(now_us).first().map(|&(owner, _)| owner)
    }

    fn refusal(&self, op: &Op, now_us: u64) -> Outcome {
        let (places, live) = (self.places(now_us), self.live(now_us));
        match (op.action, live, places.first()) {
            (Action::Acquire { owner, .. }, None, Some(&(_, until_us))) => {
                let ahead = places.iter().take_while(|(known, _)| *known != owner).count() as u64;
                Outcome::Queued { ahead, until_us }
            }
            _ => Outcome::Refused(live),
        }
    }

    /// Returns the token of the grant that an operation is for, unless it is refused.
    fn serve(&self, op: &Op, now_us: u64) -> Option<u64> {
        let live = self.live(now_us);
        let live_of = |who: u128, which: Option<u64>| {
            let (owner, grant) = live?;
            (owner == who && which.is_none_or(|token| token == grant.token)).then_some(grant.token)
        };
        match op.action {
            Action::Acquire { owner, .. } => match live {
                Some((_, grant)) if grant.holds == MAX_HOLDS as u64 => None,
                None if self.next(now_us).is_some_and(|next| next != owner) => None,
                None => Some(now_us.max(self.token() + 1)),
                Some(_) => live_of(owner, None),
            },
            Action::Renew { owner, token } => live_of(owner, token),
            Action::Release { owner, hold } => {
                live_of(owner, None).filter(|token| holds(&self.done, *token).contains(&hold))
            }
            Action::ForceRelease { token } => {
                live.filter(|(_, grant)| grant.token == token).map(|(_, grant)| grant.token)
            }
            Action::Withdraw { .. } | Action::Inspect => None,
        }
    }
}

impl Subject for Reference {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        let absent = now_us >= self.keep_us();
        let mut seen = if absent { Reference::default() } else { self.clone() };
        match op.action {
            Action::Inspect => return Outcome::Seen(seen.sight(now_us)),
            Action::Withdraw { owner } => {
                if seen.places(now_us).iter().any(|&(known, _)| known == owner) {
                    seen.turns.push((now_us, Turn::Left(owner)));
                    *self = seen;
                }
                return Outcome::Withdrawn;
            }
            _ => {}
        }
        if let Some(outcome) = seen.known(op, now_us) {
            if matches!(outcome, Outcome::Held(_)) {
                self.may_arrive(op);
            }
            return outcome;
        }
        let Some(token) = seen.serve(op, now_us) else {
            let before = seen.turns.len();
            seen.waits(op, now_us);
            let outcome = seen.refusal(op, now_us);
            if seen.turns.len() > before {
                *self = seen;
            }
            return outcome;
        };
        let before = (seen.deadline_us(), seen.keep_us());
        let turn = match op.action {
            Action::Acquire { owner, .. } => Turn::Left(owner),
            _ => Turn::NoOnes,
        };
        seen.turns.push((now_us, turn));
        let free = Grant { token, holds: 0, deadline_us: 0 };
        seen.done.push(Done { op: *op, at_us: now_us, grant: free });
        seen.may_arrive(op);
        let left = grant(&seen.done, token).map_or(free, |(_, grant)| grant);
        seen.done.last_mut().expect("it was just put there").grant = left;
        // The deadline stays after the last release.
        let deadline_us = if left.holds > 0 { left.deadline_us } else { before.0 };
        seen.keep_for(op.remember_us, deadline_us, now_us);
        // A renewal that extends nothing is not written.
        let is_renewal = matches!(op.action, Action::Renew { .. });
        if !is_renewal || (seen.deadline_us(), seen.keep_us()) != before {
            *self = seen;
        }
        match op.action {
            Action::Acquire { .. } | Action::Renew { .. } => Outcome::Held(left),
            _ => Outcome::Released { token, holds: left.holds },
        }
    }

    fn forget(&mut self) {
        *self = Reference::default();
    }
}
