//! The decisions that a process may make by itself, from denials that it knows and permits taken
//! ahead.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use lockage_core::{Decision, DenialReason, Verdict};

use super::accounts::Ran;
use super::answers::{Taken, Told};
use super::{Fault, Kind, fault};
use crate::simulation::by_part::{ByPart, is_within, most};

/// The knowledge of one life of a node about an id.
#[derive(Default)]
pub(super) struct Local {
    denials: Vec<Denial>,
    /// How many denials of a cost at a time no caller has got yet: equal ones cannot be distinguished.
    unread: BTreeMap<(ByPart, u64), usize>,
    /// When it last changed the id by itself: earlier answers are out of date.
    changed_us: u64,
    /// When it last changed all of the id, and dropped permits.
    dropped_us: u64,
    ahead: Vec<Ahead>,
}

/// A denial of the store.
#[derive(Clone, Debug)]
pub(super) struct Denial {
    pub(super) key: String,
    pub(super) is_other: bool,
    pub(super) at_us: u64,
    sent_us: u64,
    cost: ByPart,
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
    left: u64,
    is_other: bool,
    /// When its caller took the grant, and served those that waited for it.
    granted_us: u64,
    ends_us: u64,
    dropped_us: Option<u64>,
    /// What was spent of them, and when its callers reported that.
    spent: Vec<(u64, u64)>,
}

/// When a request was admitted by permits ahead.
#[derive(Clone, Copy)]
enum Admitted {
    /// In the poll of its report, which began then and may have stood still.
    Here { polled_us: u64, now_us: u64 },
    /// When another one's grant came, for which it had waited.
    Served(u64),
}

impl Ahead {
    fn drops(&mut self, now_us: u64) {
        self.dropped_us.get_or_insert(now_us);
    }

    /// Returns whether these permits were held then.
    fn is_held(&self, admitted: Admitted) -> bool {
        match admitted {
            Admitted::Here { polled_us, .. } => {
                self.dropped_us.is_none() && polled_us < self.ends_us
            }
            Admitted::Served(at_us) => {
                (self.granted_us..self.ends_us).contains(&at_us)
                    && self.dropped_us.is_none_or(|dropped_us| at_us <= dropped_us)
            }
        }
    }

    /// Returns how many were left before that, at most: callers report in any order what was decided at one moment.
    fn left(&self, admitted: Admitted) -> u64 {
        let is_later = |(at_us, _): &&(u64, u64)| match admitted {
            Admitted::Here { now_us, .. } => *at_us == now_us,
            Admitted::Served(served_us) => *at_us >= served_us,
        };
        self.left + self.spent.iter().filter(is_later).map(|(_, cost)| cost).sum::<u64>()
    }
}

/// Returns how long the clocks of a process may take for a span by the store's.
fn at_most(span_us: u64) -> u64 {
    span_us.saturating_add(span_us / 1000 + 1)
}

impl Denial {
    pub(super) fn of(
        decision: &Decision,
        cost: ByPart,
        is_other: bool,
        ran: &Ran<'_>,
    ) -> Option<Self> {
        let Verdict::Denied { retry_after, reason } = decision.verdict else { return None };
        let spans = [retry_after, decision.turn_after, decision.reset_after];
        Some(Denial {
            key: ran.key.to_owned(),
            is_other,
            at_us: ran.now_us,
            sent_us: ran.sent_us,
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
            && is_within(self.cost, told.cost)
            && self.limit == decision.limit
            && decision.remaining == most(self.cost).saturating_sub(1)
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
            self.ahead.iter_mut().for_each(|ahead| ahead.drops(now_us));
        }
    }

    /// A request under one limit drops the permits of the other one.
    pub(super) fn asks_under(&mut self, is_other: bool, now_us: u64) {
        let dropped = self.ahead.iter_mut().filter(|ahead| ahead.is_other != is_other);
        dropped.for_each(|ahead| ahead.drops(now_us));
    }

    /// A caller got a denial of the store. The limiter knows it once no equal one is on its way.
    pub(super) fn learned(&mut self, cost: ByPart, at_us: u64) {
        if let Entry::Occupied(mut unread) = self.unread.entry((cost, at_us)) {
            *unread.get_mut() -= 1;
            if *unread.get() == 0 {
                unread.remove();
            }
        }
    }

    /// The store has room for each of `fits` under a limit: earlier denials no longer explain the denial of a cost that
    /// fits.
    pub(super) fn contradicted(
        &mut self,
        fits: [ByPart; 2],
        at_us: u64,
        is_of: impl Fn(bool) -> bool,
    ) {
        let unread = &self.unread;
        self.denials.retain(|known| {
            let is_unread = unread.contains_key(&(known.cost, known.at_us));
            let is_room = fits.iter().any(|fits| is_within(known.cost, *fits));
            !is_room || known.at_us >= at_us || is_unread || !is_of(known.is_other)
        });
    }

    pub(super) fn denied(&mut self, denial: Denial) {
        *self.unread.entry((denial.cost, denial.at_us)).or_default() += 1;
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
                let what = format!("the store has told nothing by which {cost:?} has {decision:?}");
                fault(Kind::FalseDenial, what)
            }
        }
    }

    /// The store has granted more than the request. If the request was under way at a change of the
    /// key, the limiter keeps none of it.
    pub(super) fn takes_ahead(&mut self, told: &Told, taken: Taken, lease_us: u64) {
        if taken.more > 0 && taken.sent_us >= self.dropped_us {
            self.ahead.push(Ahead {
                left: taken.more,
                is_other: told.is_other,
                granted_us: told.polled_us,
                ends_us: taken.latest_us.saturating_add(at_most(lease_us)),
                dropped_us: None,
                spent: Vec::new(),
            });
        }
    }

    /// A request is admitted by permits that were taken ahead, and its decision reports how many of these were left. It
    /// was decided up to `unread_us` ago, as the answer came that it had waited for; others have spent permits, or
    /// dropped them, since then.
    pub(super) fn spends(
        &mut self,
        told: &Told,
        remaining: u64,
        unread_us: u64,
    ) -> Result<(), Fault> {
        let Told { since_us, polled_us, now_us, .. } = *told;
        let oldest_us = polled_us.saturating_sub(unread_us);
        self.ahead.retain(|ahead| ahead.ends_us > oldest_us);
        let of_limit = |ahead: &&mut Ahead| ahead.is_other == told.is_other;
        let mut ahead: Vec<&mut Ahead> = self.ahead.iter_mut().filter(of_limit).collect();
        let served = ahead.iter().map(|ahead| ahead.granted_us);
        let served = served.filter(|at_us| *at_us >= since_us.max(oldest_us));
        let mut times: Vec<Admitted> = served.map(Admitted::Served).collect();
        times.push(Admitted::Here { polled_us, now_us });
        let left = |time: &Admitted| -> u64 {
            ahead.iter().filter(|ahead| ahead.is_held(*time)).map(|ahead| ahead.left(*time)).sum()
        };
        let left = times.iter().map(left).max().unwrap_or_default();
        // No permits ahead are of a cost by part.
        let [asked, _] = told.cost;
        let mut cost = asked;
        let is_held = |ahead: &&mut Ahead| times.iter().any(|time| ahead.is_held(*time));
        for ahead in ahead.iter_mut().map(|ahead| &mut **ahead).filter(is_held) {
            let spent = cost.min(ahead.left);
            (cost, ahead.left) = (cost - spent, ahead.left - spent);
            ahead.spent.push((now_us, spent));
        }
        if cost > 0 || remaining + asked > left {
            let what =
                format!("{asked} of {left} permits ahead, {cost} too many; {remaining} remain");
            return fault(Kind::SpentLate, what);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::judge::asked::Op;

    const LEASE_US: u64 = 100;
    const COST: u64 = 3;

    fn told(since_us: u64, now_us: u64) -> Told {
        Told {
            life: (0, 0),
            id: 0,
            op: Op::Acquire,
            cost: [COST; 2],
            is_other: false,
            waits: false,
            since_us,
            polled_us: now_us,
            now_us,
        }
    }

    /// Returns the knowledge of a process that got nine permits ahead at 20 us.
    fn local() -> Local {
        let mut local = Local::default();
        let taken = Taken { at_us: 10, latest_us: 10, sent_us: 5, more: 9 };
        local.takes_ahead(&told(5, 20), taken, LEASE_US);
        local
    }

    /// E7: a request that waited for the permits of another one is admitted as these come, and its caller may get that
    /// late: when others have spent permits, and these have ended or were dropped.
    #[test]
    fn a_caller_gets_late_that_it_was_admitted() {
        let unread_us = 1000;
        let meanwhile: [fn(&mut Local); 4] = [
            |_| {},
            |local| {
                assert_eq!(
                    local.spends(&told(500, 500), 0, 1000).map_err(|it| it.kind),
                    Err(Kind::SpentLate)
                )
            },
            |local| local.forgets(true, 30),
            |local| local.asks_under(true, 30),
        ];
        for meanwhile in meanwhile {
            let later = || {
                let mut local = local();
                local.spends(&told(20, 20), 3, unread_us).unwrap();
                meanwhile(&mut local);
                local
            };
            assert!(later().spends(&told(15, 600), 7, unread_us).is_err(), "more than there was");
            assert!(later().spends(&told(15, 600), 6, 579).is_err(), "no caller gets it so late");
            assert!(later().spends(&told(21, 600), 6, unread_us).is_err(), "it has not waited");
            let mut later = later();
            later.spends(&told(15, 600), 6, unread_us).unwrap();
            later.spends(&told(15, 700), 0, unread_us).unwrap();
            assert!(later.spends(&told(15, 700), 0, unread_us).is_err(), "nothing is left");
        }
    }

    /// E7: permits that are held are spent within their lease, and until they are dropped.
    #[test]
    fn permits_are_spent_while_they_are_held() {
        let end_us = 10 + at_most(LEASE_US);
        assert_eq!(local().spends(&told(end_us - 1, end_us - 1), 6, 1000), Ok(()));
        assert!(local().spends(&told(end_us - 1, end_us - 1), 7, 1000).is_err());
        assert!(local().spends(&told(end_us, end_us), 6, 1000).is_err());
        assert!(local().spends(&Told { is_other: true, ..told(30, 30) }, 6, 1000).is_err());
        let mut dropped = local();
        dropped.forgets(true, 30);
        assert!(dropped.spends(&told(30, 30), 6, 1000).is_err());
    }
}
