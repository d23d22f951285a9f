//! A limiter as it must be: what it decides (D1, D2, D4, D13), what it remembers (D11), and how much it may
//! admit (E1 to E6).

use lockage_core::{Decision, Limit, REMEMBERED_REQUESTS, RequestId, Verdict};

use super::envelope::{envelope, spaced};
use super::reference::Reference;
use super::{Carried, Property, Violation};
use crate::world::message::PermitAsk;
use crate::world::rare::{Counts, Rare};

#[derive(Clone, Debug)]
pub(in crate::world) struct LimiterTruth {
    limit: Limit,
    remember_us: u64,
    reference: Reference,
    charges: Charges,
    /// The last requests that were admitted under an id, the oldest first.
    remembered: Vec<Remembered>,
    admitted: u64,
    /// When the latest denied request fits, unless something has changed since.
    fits_us: Option<u64>,
}

#[derive(Clone, Debug)]
struct Remembered {
    id: RequestId,
    decision: Decision,
    /// Until then, by the store's clock, it must be remembered.
    until_us: u64,
}

impl LimiterTruth {
    /// A fresh key.
    pub(super) fn new(limit: Limit, remember_us: u64) -> Self {
        LimiterTruth {
            limit,
            remember_us,
            reference: Reference::new(&limit),
            charges: Charges::default(),
            remembered: Vec::new(),
            admitted: 0,
            fits_us: None,
        }
    }

    pub(super) fn admitted(&self) -> u64 {
        self.admitted
    }

    pub(super) fn observe(
        &mut self,
        ask: &PermitAsk,
        decision: &Decision,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let now_us = carried.now.as_micros();
        self.forget_where_gone(carried)?;
        let known = self.remembered.iter().find(|known| Some(known.id) == ask.id);
        if let Some(known) = known.filter(|known| now_us < known.until_us) {
            rare.saw(Rare::RepeatedRequest);
            if *decision == known.decision {
                return Ok(());
            }
            return Err(Property::D11.broken(format!(
                "a request of cost {} came again and was answered {decision:?}, and {:?} before",
                ask.cost, known.decision
            )));
        }
        if known.is_some() && decision.is_allowed() {
            rare.saw(Rare::ChargedAgain);
        }
        if self.fits_us == Some(now_us) {
            rare.saw(Rare::WindowEndsNow);
        }
        if decision.is_allowed() {
            let turn_us = now_us + decision.turn_after.as_micros() as u64; // below 2^53
            self.charges.charge(&self.limit, now_us, turn_us, ask.cost)?;
        }
        self.reference.judge(ask.cost, ask.patience.as_micros(), now_us, decision)?;
        match decision.verdict {
            Verdict::Allowed => {}
            Verdict::Denied { retry_after } => {
                self.fits_us = Some(now_us + retry_after.as_micros() as u64); // below 2^53
                return Ok(());
            }
            Verdict::Never => return Ok(()),
        }
        self.fits_us = None;
        self.admitted += 1;
        self.remembered.retain(|known| now_us < known.until_us);
        let Some(id) = ask.id else { return Ok(()) };
        if self.remembered.len() == REMEMBERED_REQUESTS {
            self.remembered.remove(0);
        }
        let until_us = now_us + self.remember_us;
        self.remembered.push(Remembered { id, decision: decision.clone(), until_us });
        Ok(())
    }

    /// A key that is not there remembers nothing, and is not to be dropped while it matters (D9).
    fn forget_where_gone(&mut self, carried: &Carried) -> Result<(), Violation> {
        if carried.was_held {
            return Ok(());
        }
        let now_us = carried.now.as_micros();
        if let Some(known) = self.remembered.iter().find(|known| now_us < known.until_us) {
            return Err(Property::D9.broken(format!("{known:?} was forgotten")));
        }
        if !self.reference.is_fresh(now_us) {
            return Err(Property::D9.broken(format!(
                "the key was dropped before {now_us} us, and is not as if never used then"
            )));
        }
        self.reference = Reference::new(&self.limit);
        self.remembered.clear();
        self.fits_us = None;
        self.charges.forget_after(now_us);
        Ok(())
    }
}

/// What was charged, for the envelopes. A failover goes back to what the replica knew of.
#[derive(Clone, Debug, Default)]
struct Charges {
    all: Vec<Charge>,
    /// The latest time at which the key was seen to be gone.
    gone_us: u64,
}

#[derive(Clone, Copy, Debug)]
struct Charge {
    /// The latest time at which anything was admitted until then, by the store's clock (D10).
    at_us: u64,
    /// When its turn is.
    turn_us: u64,
    cost: u64,
}

impl Charges {
    /// Looks at all spans that end with this charge, and has those before.
    fn charge(
        &mut self,
        limit: &Limit,
        now_us: u64,
        turn_us: u64,
        cost: u64,
    ) -> Result<(), Violation> {
        let at_us = self.all.last().map_or(now_us, |last| last.at_us.max(now_us));
        self.all.push(Charge { at_us, turn_us, cost });
        for part in limit.parts() {
            let mut total = 0;
            for first in self.all.iter().rev() {
                total += u128::from(first.cost);
                let span_us = at_us - first.at_us + 1;
                let most = envelope(&part, span_us);
                if total > most {
                    return Err(property(&part).broken(over(total, span_us, most)));
                }
            }
        }
        // Of several queues the latest one's turn counts, so that they are spaced by none of them.
        let mut before = 0;
        for first in self.all.iter().rev().skip(1) {
            before += u128::from(first.cost);
            let span_us = turn_us.saturating_sub(first.turn_us) + 1;
            let most = spaced(limit, span_us);
            if before >= most {
                return Err(Property::E6.broken(over(before, span_us, most)));
            }
        }
        Ok(())
    }

    /// The key is gone at this time: where that is before one that it has seen, the clock was set back past the
    /// time at which it was forgotten, and all of its allowance is there once more.
    fn forget_after(&mut self, now_us: u64) {
        let latest_us = self.all.last().map_or(0, |last| last.at_us).max(self.gone_us);
        if now_us < latest_us {
            self.all.clear();
        }
        self.gone_us = latest_us.max(now_us);
    }
}

fn over(total: u128, span_us: u64, most: u128) -> String {
    format!("{total} were admitted within {span_us} us, and {most} is the bound")
}

fn property(limit: &Limit) -> Property {
    match limit {
        Limit::FixedWindow(_) => Property::E1,
        Limit::SlidingLog(_) => Property::E2,
        Limit::SlidingWindow(_) => Property::E3,
        Limit::IntervalBucket(_) => Property::E5,
        _ => Property::E4,
    }
}
