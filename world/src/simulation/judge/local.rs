//! The decisions that a process may make by itself, from denials that it knows and permits taken
//! ahead.

use lockage_core::{Decision, DenialReason, Verdict};

use super::accounts::Ran;
use super::answers::{Taken, Told};
use super::{Fault, Kind, fault};

/// The knowledge of one life of a node about an id.
#[derive(Default)]
pub(super) struct Local {
    denials: Vec<Denial>,
    /// When it last changed the id by itself: earlier answers are out of date.
    changed_us: u64,
    /// When it last changed all of the id, and dropped permits.
    dropped_us: u64,
    ahead: Vec<Ahead>,
    /// How much of these was spent at one moment, in which callers get their answers in any order.
    spent: (u64, u64),
}

/// A denial of the store.
#[derive(Clone, Debug)]
pub(super) struct Denial {
    pub(super) key: String,
    pub(super) is_other: bool,
    /// Whether the key was still charged under another limit.
    pub(super) is_foreign: bool,
    pub(super) at_us: u64,
    sent_us: u64,
    is_learned: bool,
    cost: u64,
    limit: u64,
    reason: DenialReason,
    /// How long it lasts, and the times to the turn and the reset.
    spans_us: [u64; 3],
}

/// How old a denial may be, and how much older than its actual age it may be reported.
#[derive(Clone, Copy)]
pub(super) struct Ages {
    pub(super) longest_us: u64,
    pub(super) slack_us: u64,
}

/// Permits that the store has granted in addition to those of a request.
struct Ahead {
    at_us: u64,
    left: u64,
    is_other: bool,
    /// When its caller took the grant, and served those that waited for it.
    granted_us: u64,
}

/// Returns how long the clocks of a process may take for a span by the store's.
fn at_most(span_us: u64) -> u64 {
    span_us.saturating_add(span_us / 1000 + 1)
}

impl Denial {
    pub(super) fn of(
        decision: &Decision,
        cost: u64,
        (is_other, is_foreign): (bool, bool),
        ran: &Ran<'_>,
    ) -> Option<Self> {
        let Verdict::Denied { retry_after, reason } = decision.verdict else { return None };
        let spans = [retry_after, decision.turn_after, decision.reset_after];
        Some(Denial {
            key: ran.key.to_owned(),
            is_other,
            is_foreign,
            at_us: ran.now_us,
            sent_us: ran.sent_us,
            is_learned: false,
            cost,
            limit: decision.limit,
            reason,
            spans_us: spans.map(|span| u64::try_from(span.as_micros()).unwrap_or(u64::MAX)),
        })
    }

    /// Returns whether this denial explains a local one: it has not ended, and no reported span
    /// exceeds the rest of its own.
    fn explains(&self, told: &Told, decision: &Decision, ages: Ages) -> bool {
        let spans = match decision.shadow.unwrap_or(decision.verdict) {
            Verdict::Denied { retry_after, reason } if reason == self.reason => {
                [retry_after, decision.turn_after, decision.reset_after]
            }
            Verdict::Never => [Default::default(), Default::default(), decision.reset_after],
            _ => return false,
        };
        let passed_us = told.polled_us.saturating_sub(self.at_us);
        let left_us = self.spans_us.map(|span_us| span_us.saturating_sub(passed_us));
        let is_aged = |(span, left_us): (&std::time::Duration, &u64)| {
            span.as_micros() <= u128::from(*left_us)
        };
        // It is no older than allowed, and no younger than it says: its request was a few calls ago
        // at most.
        let retry_us = u64::try_from(spans[0].as_micros()).unwrap_or(u64::MAX);
        let least_us =
            left_us[0].saturating_sub(self.spans_us[0] / 500).saturating_sub(ages.slack_us);
        let is_denied = decision.shadow.unwrap_or(decision.verdict) != Verdict::Never;
        passed_us <= at_most(ages.longest_us)
            && (retry_us >= least_us || !is_denied)
            && self.cost <= told.cost
            && self.limit == decision.limit
            && decision.remaining == self.cost.saturating_sub(1)
            && left_us[0] > 0
            && spans.iter().zip(&left_us).all(is_aged)
    }
}

impl Local {
    /// It begins or ends a change of the id, and forgets its knowledge. A change that grants
    /// permits does not count.
    pub(super) fn forgets(&mut self, is_key: bool, now_us: u64) {
        self.changed_us = now_us;
        self.denials.retain(|denial| denial.sent_us >= now_us);
        if is_key {
            self.dropped_us = now_us;
            self.ahead.clear();
        }
    }

    /// A request under one limit drops the permits of the other one.
    pub(super) fn asks_under(&mut self, is_other: bool) {
        self.ahead.retain(|ahead| ahead.is_other == is_other);
    }

    /// A caller got a denial of the store, so the limiter knows it. Others that are alike may be on
    /// their way.
    pub(super) fn learned(&mut self, cost: u64, at_us: u64) {
        let is_it = |denial: &&mut Denial| {
            !denial.is_learned && (denial.cost, denial.at_us) == (cost, at_us)
        };
        self.denials.iter_mut().find(is_it).into_iter().for_each(|denial| denial.is_learned = true);
    }

    /// The store has room for `fits` under a limit: earlier denials no longer explain the denial of
    /// a cost that fits.
    pub(super) fn contradicted(&mut self, fits: u64, at_us: u64, is_of: impl Fn(bool) -> bool) {
        self.denials.retain(|known| {
            known.cost > fits || known.at_us >= at_us || !known.is_learned || !is_of(known.is_other)
        });
    }

    pub(super) fn denied(&mut self, denial: Denial) {
        // Ended denials explain nothing.
        if self.denials.len() >= 32 {
            let now_us = denial.at_us;
            self.denials.retain(|known| {
                known.at_us.saturating_add(known.spans_us[0]) + 60_000_000 > now_us
            });
        }
        if denial.sent_us >= self.changed_us {
            self.denials.push(denial);
        }
    }

    /// Returns the denial that explains this local one.
    pub(super) fn known(
        &self,
        told: &Told,
        decision: &Decision,
        is_stored: bool,
        ages: Ages,
    ) -> Result<&Denial, Fault> {
        let of_limit = |denial: &&Denial| is_stored || denial.is_other == told.is_other;
        let mut denials = self.denials.iter().rev().filter(of_limit);
        match denials.find(|denial| denial.explains(told, decision, ages)) {
            Some(denial) => Ok(denial),
            None => {
                let cost = told.cost;
                let what = format!("the store has told nothing by which {cost} has {decision:?}");
                fault(Kind::FalseDenial, what)
            }
        }
    }

    /// The store has granted more than the request. If the request was under way at a change of the
    /// key, the limiter keeps none of it.
    pub(super) fn takes_ahead(&mut self, told: &Told, taken: Taken) {
        if taken.more > 0 && taken.sent_us >= self.dropped_us {
            let (at_us, left) = (taken.latest_us, taken.more);
            let (is_other, granted_us) = (told.is_other, told.polled_us);
            self.ahead.push(Ahead { at_us, left, is_other, granted_us });
        }
    }

    /// A request is admitted by permits that were taken ahead; the decision reports how many of
    /// these are left.
    pub(super) fn spends(
        &mut self,
        told: &Told,
        decision: &Decision,
        lease_us: u64,
    ) -> Result<(), Fault> {
        self.ahead.retain(|ahead| {
            let waited = told.since_us <= ahead.granted_us;
            let spent_us = if waited { ahead.granted_us } else { u64::MAX }.min(told.polled_us);
            ahead.left > 0 && ahead.at_us.saturating_add(at_most(lease_us)) > spent_us
        });
        let of_limit = |ahead: &&mut Ahead| ahead.is_other == told.is_other;
        let mut cost = told.cost;
        for ahead in self.ahead.iter_mut().filter(of_limit) {
            let spent = cost.min(ahead.left);
            (cost, ahead.left) = (cost - spent, ahead.left - spent);
        }
        let left: u64 = self.ahead.iter().map(|ahead| ahead.left).sum();
        let (at_us, spent) = self.spent;
        let before = if at_us == told.now_us { spent } else { 0 };
        self.spent = (told.now_us, before + told.cost);
        if cost > 0 || decision.remaining > left + before {
            let what = format!(
                "{cost} of {} more than it holds, with {left} left of {decision:?}",
                told.cost
            );
            return fault(Kind::SpentLate, what);
        }
        Ok(())
    }
}
