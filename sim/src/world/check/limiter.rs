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
        let reference = Reference::new(&limit);
        let (remembered, admitted, fits_us) = (Vec::new(), 0, None);
        LimiterTruth { limit, remember_us, reference, remembered, admitted, fits_us }
    }

    pub(super) fn admitted(&self) -> u64 {
        self.admitted
    }

    /// Whether it was charged.
    pub(super) fn observe(
        &mut self,
        ask: &PermitAsk,
        decision: &Decision,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        let now_us = carried.now.as_micros();
        self.forget_where_gone(carried)?;
        let known = self.remembered.iter().find(|known| Some(known.id) == ask.id);
        if let Some(known) = known.filter(|known| now_us < known.until_us) {
            rare.saw(Rare::RepeatedRequest);
            if *decision == known.decision {
                return Ok(false);
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
        self.reference.judge(ask.cost, ask.patience.as_micros(), now_us, decision)?;
        match decision.verdict {
            Verdict::Allowed => {}
            Verdict::Denied { retry_after } => {
                self.fits_us = Some(now_us + retry_after.as_micros() as u64); // below 2^53
                return Ok(false);
            }
            Verdict::Never => return Ok(false),
        }
        self.fits_us = None;
        self.admitted += 1;
        self.remembered.retain(|known| now_us < known.until_us);
        let Some(id) = ask.id else { return Ok(true) };
        if self.remembered.len() == REMEMBERED_REQUESTS {
            self.remembered.remove(0);
        }
        let until_us = now_us + self.remember_us;
        self.remembered.push(Remembered { id, decision: decision.clone(), until_us });
        Ok(true)
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
        *self = LimiterTruth {
            admitted: self.admitted,
            ..LimiterTruth::new(self.limit, self.remember_us)
        };
        Ok(())
    }
}

/// What was charged, in stretches between which something was lost: whatever state a stretch begins with, the
/// envelopes hold in it.
#[derive(Debug, Default)]
pub(super) struct Charges {
    before: Vec<Vec<Charge>>,
    latest: Vec<Charge>,
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
    pub(super) fn charge(&mut self, carried: &Carried, cost: u64, decision: &Decision) {
        let now_us = carried.now.as_micros();
        let latest_us = |latest: &[Charge]| latest.last().map_or(0, |charge| charge.at_us);
        if !carried.was_held && now_us < latest_us(&self.latest) {
            // A step back past the time at which it was forgotten.
            self.cut();
        }
        let at_us = now_us.max(latest_us(&self.latest));
        let turn_us = now_us + decision.turn_after.as_micros() as u64; // below 2^53
        self.latest.push(Charge { at_us, turn_us, cost });
    }

    pub(super) fn cut(&mut self) {
        if !self.latest.is_empty() {
            self.before.push(std::mem::take(&mut self.latest));
        }
    }

    /// Looks at all spans: what is admitted in one only grows where it comes to hold one more request.
    pub(super) fn check(&self, limit: &Limit) -> Result<(), Violation> {
        self.before.iter().chain([&self.latest]).try_for_each(|stretch| {
            limit.parts().try_for_each(|part| {
                let by_time = |charge: &Charge| charge.at_us;
                spans(stretch, by_time, |total, span_us, _| {
                    let most = envelope(&part, span_us);
                    (total > most).then(|| property(&part).broken(over(total, span_us, most)))
                })?;
                let Limit::LeakyBucket(_) = part else { return Ok(()) };
                let by_turn = |charge: &Charge| charge.turn_us;
                spans(stretch, by_turn, |total, span_us, last| {
                    let most = spaced(&part, span_us);
                    let total = total - last;
                    (total >= most).then(|| Property::E6.broken(over(total, span_us, most)))
                })
            })
        })
    }
}

/// Looks at each span from one request to another one: what they cost, how long it is, and the cost of the last.
fn spans(
    stretch: &[Charge],
    time: impl Fn(&Charge) -> u64,
    wrong: impl Fn(u128, u64, u128) -> Option<Violation>,
) -> Result<(), Violation> {
    for (index, first) in stretch.iter().enumerate() {
        let mut total = 0;
        for last in &stretch[index..] {
            total += u128::from(last.cost);
            let span_us = time(last).saturating_sub(time(first)) + 1;
            if let Some(violation) = wrong(total, span_us, last.cost.into()) {
                return Err(violation);
            }
        }
    }
    Ok(())
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
