//! Judges programs that call real servers, by their reports alone.

use std::collections::BTreeMap;

use lockage_core::{Reservation, Settlement, Verdict};
use lockage_oracle::envelope::bound_of_all;
use serde::{Deserialize, Serialize};

use super::by_part::ByPart;
use super::judge::{Fault, Judge, Kind, Oracle, Seen, Times, fault};
use super::plan::{Plan, What};

/// One report of a program, in a form that can be serialized.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // each is named after its content
pub enum Told {
    Seen(Seen),
    Decided {
        id: usize,
        cost: u64,
        since_us: u64,
        is_admitted: bool,
    },
    /// A reservation of this cost is settled with the actual one, or stays charged as it is.
    Settled {
        cost: u64,
        actual: u64,
        is_settled: bool,
    },
    /// The future of the job is dropped right after.
    Cancels {
        job: usize,
    },
}

impl From<Seen> for Told {
    fn from(seen: Seen) -> Self {
        match seen {
            Seen::Decided { id, cost: [cost, _], since_us, decision, .. } => {
                let is_admitted = decision.verdict == Verdict::Allowed;
                Told::Decided { id, cost, since_us, is_admitted }
            }
            Seen::Lost { job, what, .. } => Told::Seen(Seen::Left { job, what }),
            Seen::Settled { reservation, actual: [actual, _], settlement, .. } => {
                match settlement {
                    Settlement::Settled { .. } | Settlement::Expired => Told::Settled {
                        cost: reservation.cost,
                        actual,
                        is_settled: settlement != Settlement::Expired,
                    },
                    // The store knows nothing of it.
                    _ => Told::Seen(Seen::Quiet),
                }
            }
            Seen::Answered { .. } | Seen::CallEnds { .. } => Told::Seen(Seen::Quiet),
            seen => Told::Seen(seen),
        }
    }
}

/// An oracle without a store.
struct Unasked;

impl Oracle for Unasked {
    fn would_deny(&self, _key: &str, _cost: ByPart) -> bool {
        true
    }

    fn settle(&self, _id: usize, _reservation: &Reservation, _actual: ByPart) -> Settlement {
        Settlement::Unknown
    }

    fn reservations(&self, _id: usize) -> usize {
        0
    }

    fn granted_until_us(&self, _what: What, _token: u64) -> Option<u64> {
        Some(u64::MAX)
    }

    fn granted_by(&self, _until_us: u64) -> usize {
        usize::MAX
    }

    fn kept_for_us(&self, _key: &str) -> Option<u64> {
        None
    }

    fn tokens(&self, _key: &str) -> Vec<u64> {
        Vec::new()
    }

    fn held_since_us(&self, _key: &str) -> Option<u64> {
        None
    }
}

/// The cost admitted in some span, and the most that the limit allows in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// The cost that was surely admitted in it.
    pub cost: u128,
    /// The most that is allowed.
    pub most: u128,
}

/// The judge's state. Reports come in the order of their times.
pub struct Outside {
    judge: Judge,
    plan: Plan,
    keeps: bool,
    /// The cost that was requested, the part of it that was surely admitted, and the part that was
    /// surely not charged.
    asked: u64,
    told: u64,
    free: u64,
    /// The admissions of each id: when each was requested and answered, and its cost.
    admitted: BTreeMap<usize, Vec<(u64, u64, u64)>>,
}

impl Outside {
    /// Starts without knowledge. A store that `keeps` forgets no answered request; with another
    /// one, two may hold one thing, and work may be done twice.
    pub fn new(plan: &Plan, keeps: bool) -> Self {
        Outside {
            judge: Judge::new(plan),
            plan: plan.clone(),
            keeps,
            asked: 0,
            told: 0,
            free: 0,
            admitted: BTreeMap::new(),
        }
    }

    /// Takes note of a report at this time, in microseconds.
    ///
    /// # Errors
    /// Returns a fault if the report breaks a property.
    pub fn told(&mut self, at_us: u64, told: Told) -> Result<(), Fault> {
        let verdict = match told {
            Told::Decided { id, cost, since_us, is_admitted: true } => {
                self.told += cost;
                self.admitted.entry(id).or_default().push((since_us, at_us, cost));
                Ok(())
            }
            Told::Decided { cost, .. }
            | Told::Seen(Seen::Failed { cost: [cost, _], is_unknown: false }) => {
                self.free += cost;
                Ok(())
            }
            Told::Seen(Seen::Asked { cost: [cost, _], .. }) => {
                self.asked += cost;
                Ok(())
            }
            // Until the answer to the settlement, the lower cost may be charged.
            Told::Seen(Seen::Settles { cost: [cost, _], actual: [actual, _] }) => {
                self.told -= cost.saturating_sub(actual);
                Ok(())
            }
            // A store that forgets may forget the settlement.
            Told::Settled { cost, actual, is_settled } if self.keeps => {
                let charged = if is_settled { actual } else { cost };
                self.told += charged - cost.min(actual);
                self.free += cost.max(actual) - charged;
                Ok(())
            }
            Told::Settled { .. } => Ok(()),
            Told::Cancels { job } => {
                self.judge.cancelled(job, at_us);
                Ok(())
            }
            // The pauses of real processes are unknown.
            Told::Seen(
                Seen::Waited { .. }
                | Seen::Works { .. }
                | Seen::Begins { .. }
                | Seen::GoesOn { .. }
                | Seen::Finishes { .. },
            ) => Ok(()),
            Told::Seen(seen) => self.judge.saw((0, 0), seen, Times::at(at_us), &Unasked),
        };
        verdict.or_else(|fault| match fault.kind {
            Kind::Exclusion | Kind::RanTwice | Kind::Fencing | Kind::Stale if !self.keeps => Ok(()),
            // The store's own answers are unknown.
            Kind::Unanswered => Ok(()),
            _ => Err(fault),
        })
    }

    /// Checks the store's total charges, under a limit that refills nothing meanwhile: each request
    /// is charged once at most, and each admitted one is charged.
    ///
    /// # Errors
    /// Returns a fault if the total is too low or too high.
    pub fn charges(&self, charged: u64) -> Result<(), Fault> {
        let Outside { asked, told, free, .. } = *self;
        let account = format!("{charged} charged; {asked} asked for, {told} admitted, {free} not");
        if self.keeps && charged < told {
            return fault(Kind::Uncharged, account);
        }
        if charged > asked - free {
            return fault(Kind::ChargedTwice, account);
        }
        Ok(())
    }

    /// Returns the span in which the admissions come closest to their bound. The request and the
    /// answer of each charge are within the span, so the charge is too. The store may have
    /// forgotten all charges `forgot` times.
    ///
    /// # Errors
    /// Returns a fault if a span has more in it than the envelope of the limit (E1 to E5).
    pub fn envelope(&self, forgot: u64) -> Result<Admitted, Fault> {
        let mut worst = Admitted::default();
        for calls in self.admitted.values() {
            let mut by_answer = calls.clone();
            by_answer.sort_by_key(|(_, answered_us, _)| *answered_us);
            for (start_us, ..) in calls {
                let mut cost = 0;
                for (asked_us, answered_us, one) in &by_answer {
                    if asked_us < start_us {
                        continue;
                    }
                    cost += u128::from(*one);
                    // The clocks of one machine differ by less.
                    let most = bound_of_all(&self.plan.limit, answered_us - start_us + 1000);
                    let most = most * u128::from(forgot + 1);
                    if cost > most {
                        let what =
                            format!("{cost} admitted in {} us, of {most}", answered_us - start_us);
                        return fault(Kind::Envelope, what).map(|()| worst);
                    }
                    let (share, before) = (cost * worst.most.max(1), worst.cost * most);
                    if share > before || share == before && cost > worst.cost {
                        worst = Admitted { cost, most };
                    }
                }
            }
        }
        Ok(worst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::plan::{Theme, What};

    fn outside(limit: &str, keeps: bool) -> Outside {
        let plan =
            Plan { limit: limit.parse().expect("a limit"), ..Plan::on_servers(Theme::Limiters, 0) };
        Outside::new(&plan, keeps)
    }

    fn kind<T>(verdict: Result<T, Fault>) -> Option<Kind> {
        verdict.err().map(|fault| fault.kind)
    }

    /// E1, by the reports of callers: two in one window exceed it, unless the calls may lie further
    /// apart.
    #[test]
    fn more_than_the_envelope_is_found_where_all_of_it_was_surely_in_a_span() {
        for (since_us, expected) in [(800_000, Some(Kind::Envelope)), (0, None)] {
            let mut outside = outside("sliding-log 1/500ms", true);
            for (since_us, at_us) in [(400_000, 500_000), (since_us, 850_000)] {
                let told = Told::Decided { id: 0, cost: 1, since_us, is_admitted: true };
                assert_eq!(outside.told(at_us, told), Ok(()));
            }
            assert_eq!(kind(outside.envelope(0)), expected, "{since_us}");
            assert_eq!(kind(outside.envelope(1)), None, "a store that forgot may admit it again");
        }
    }

    #[test]
    fn charges_are_the_admitted_cost_and_any_of_the_unanswered() {
        let mut outside = outside("fixed-window 1000/day", true);
        for is_admitted in [true, true, false] {
            outside.told(0, Told::Seen(Seen::Asked { id: 0, cost: [2; 2] })).unwrap();
            outside.told(1, Told::Decided { id: 0, cost: 2, since_us: 0, is_admitted }).unwrap();
        }
        // A request without an answer.
        outside.told(2, Told::Seen(Seen::Asked { id: 0, cost: [3; 2] })).unwrap();
        outside.told(3, Told::Seen(Seen::Failed { cost: [3; 2], is_unknown: true })).unwrap();
        let right = |charged| kind(outside.charges(charged));
        assert_eq!(
            [3, 4, 7, 8].map(right),
            [Some(Kind::Uncharged), None, None, Some(Kind::ChargedTwice)]
        );
    }

    /// D15: after a settlement, exactly the actual cost is charged.
    #[test]
    fn a_reservation_is_charged_as_it_was_settled() {
        let charged = |keeps, told: &[Told], charged| {
            let mut outside = outside("fixed-window 1000/day", keeps);
            outside.told(0, Told::Seen(Seen::Asked { id: 0, cost: [3; 2] })).unwrap();
            let admitted = Told::Decided { id: 0, cost: 3, since_us: 0, is_admitted: true };
            outside.told(1, admitted).unwrap();
            told.iter().for_each(|told| outside.told(2, told.clone()).unwrap());
            kind(outside.charges(charged))
        };
        let (cost, actual) = (3, 1);
        let settles = Told::Seen(Seen::Settles { cost: [cost; 2], actual: [actual; 2] });
        let settled = |is_settled| Told::Settled { cost, actual, is_settled };
        let (more, less) = (Some(Kind::ChargedTwice), Some(Kind::Uncharged));
        for (told, expected) in [
            (&[][..], [less, less, None, more]),
            (std::slice::from_ref(&settles), [None, None, None, more]),
            (&[settles.clone(), settled(true)], [None, more, more, more]),
            (&[settles.clone(), settled(false)], [less, less, None, more]),
        ] {
            assert_eq!([1, 2, 3, 4].map(|it| charged(true, told, it)), expected, "{told:?}");
        }
        let told = [settles.clone(), settled(true)];
        assert_eq!([1, 3, 4].map(|it| charged(false, &told, it)), [None, None, more]);
    }

    /// L1 and L6, unless the store has forgotten a grant.
    #[test]
    fn two_holders_are_found_until_one_is_gone() {
        let holds = |job| {
            let (what, until_us) = (What::Lock { is_fair: false }, 100);
            Told::Seen(Seen::Holds { job, what, token: job as u64, until_us })
        };
        let told = |keeps, between: Option<Told>, at_us| {
            let mut outside = outside("fixed-window 1/s", keeps);
            outside.told(0, holds(1)).unwrap();
            between.into_iter().for_each(|told| outside.told(1, told).unwrap());
            kind(outside.told(at_us, holds(2)))
        };
        assert_eq!(told(true, None, 99), Some(Kind::Exclusion));
        assert_eq!(told(true, None, 100), None);
        assert_eq!(told(true, Some(Told::Cancels { job: 1 }), 2), None);
        assert_eq!(told(false, None, 99), None);
    }
}
