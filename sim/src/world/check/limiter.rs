//! A limiter as it must be: what it remembers (D11), when a denied request fits (D2), and how much it may
//! admit (E1 to E5).

use lockage_core::{Decision, Limit, REMEMBERED_REQUESTS, RequestId, Verdict};

use super::envelope::envelope;
use super::{Carried, Property, Violation};
use crate::world::message::PermitAsk;
use crate::world::rare::{Counts, Rare};

#[derive(Clone, Debug, Default)]
pub(super) struct LimiterTruth {
    /// The last requests that were admitted under an id, the oldest first.
    remembered: Vec<Remembered>,
    admitted: u64,
    /// The latest denial, unless something has changed since.
    denial: Option<Denial>,
}

#[derive(Clone, Debug)]
struct Remembered {
    id: RequestId,
    decision: Decision,
    at_us: u64,
    /// Until then, by the store's clock, it must be remembered.
    until_us: u64,
}

#[derive(Clone, Copy, Debug)]
struct Denial {
    cost: u64,
    /// By the store's clock.
    fits_us: u64,
    at_us: u64,
}

impl LimiterTruth {
    pub(super) fn admitted(&self) -> u64 {
        self.admitted
    }

    /// Whether it was charged.
    #[allow(clippy::too_many_arguments)] // each is one thing that the store or the world knows
    pub(super) fn observe(
        &mut self,
        limit: &Limit,
        remember_us: u64,
        ask: &PermitAsk,
        decision: &Decision,
        carried: &Carried,
        back_us: u64,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        let now_us = carried.now.as_micros();
        self.forget_where_gone(carried, back_us)?;
        let known = self.remembered.iter().find(|known| Some(known.id) == ask.id).cloned();
        if let Some(known) = &known {
            if *decision == known.decision {
                rare.saw(Rare::RepeatedRequest);
                return Ok(false);
            }
            if now_us < known.until_us {
                return Err(Property::D11.broken(format!(
                    "a request of cost {} came again and was answered {decision:?}, and {:?} before",
                    ask.cost, known.decision
                )));
            }
        }
        self.check_denial(limit, ask, decision, now_us, back_us, rare)?;
        match decision.verdict {
            Verdict::Allowed => {}
            Verdict::Denied { retry_after } => {
                let fits_us = now_us + retry_after.as_micros() as u64; // below 2^53
                self.denial = Some(Denial { cost: ask.cost, fits_us, at_us: carried.at_us });
                return Ok(false);
            }
            Verdict::Never => return Ok(false),
        }
        self.denial = None;
        self.admitted += 1;
        if known.is_some() {
            rare.saw(Rare::ChargedAgain);
        }
        let Some(id) = ask.id else { return Ok(true) };
        if self.remembered.len() == REMEMBERED_REQUESTS {
            self.remembered.remove(0);
        }
        let (decision, at_us, until_us) = (decision.clone(), carried.at_us, now_us + remember_us);
        self.remembered.push(Remembered { id, decision, at_us, until_us });
        Ok(true)
    }

    /// D2, of which D8 makes more: a smaller cost fits then, and a larger one does not fit before.
    fn check_denial(
        &self,
        limit: &Limit,
        ask: &PermitAsk,
        decision: &Decision,
        now_us: u64,
        back_us: u64,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let Some(Denial { cost, fits_us, at_us }) = self.denial else { return Ok(()) };
        // In a queue it is also a question of patience.
        if matches!(limit, Limit::LeakyBucket(_)) || at_us <= back_us {
            return Ok(());
        }
        if now_us == fits_us {
            rare.saw(Rare::WindowEndsNow);
        }
        let fits = now_us >= fits_us;
        let wrong = match decision.is_allowed() {
            true => !fits && ask.cost >= cost,
            false => fits && ask.cost <= cost,
        };
        match wrong {
            false => Ok(()),
            true => Err(Property::D2.broken(format!(
                "a cost of {} at {now_us} us was answered {:?}, after a cost of {cost} was to fit at {fits_us} us",
                ask.cost, decision.verdict
            ))),
        }
    }

    fn forget_where_gone(&mut self, carried: &Carried, back_us: u64) -> Result<(), Violation> {
        if carried.was_held {
            return Ok(());
        }
        let now_us = carried.now.as_micros();
        let matters = |known: &&Remembered| known.at_us > back_us && now_us < known.until_us;
        if let Some(known) = self.remembered.iter().find(matters) {
            return Err(Property::D9.broken(format!("{known:?} was forgotten")));
        }
        self.remembered.clear();
        Ok(())
    }
}

/// What was charged, in stretches between which the clock was set or something was lost: whatever state a
/// stretch begins with, the envelopes hold in it.
#[derive(Debug, Default)]
pub(super) struct Charges {
    before: Vec<Vec<(u64, u64)>>,
    /// Times by the store's clock, and costs.
    latest: Vec<(u64, u64)>,
}

impl Charges {
    pub(super) fn charge(&mut self, now_us: u64, cost: u64) {
        self.latest.push((now_us, cost));
    }

    pub(super) fn cut(&mut self) {
        if !self.latest.is_empty() {
            self.before.push(std::mem::take(&mut self.latest));
        }
    }

    /// Looks at all spans: what is admitted in one only grows where it comes to hold one more request.
    pub(super) fn check(&self, limit: &Limit) -> Result<(), Violation> {
        for stretch in self.before.iter().chain([&self.latest]) {
            for (index, &(start_us, _)) in stretch.iter().enumerate() {
                let mut total = 0;
                for &(end_us, cost) in &stretch[index..] {
                    total += u128::from(cost);
                    let span_us = end_us - start_us + 1;
                    let most = envelope(limit, span_us);
                    if total > most {
                        return Err(property(limit).broken(format!(
                            "{total} were admitted in the {span_us} us from {start_us} us on, and at most {most} may be"
                        )));
                    }
                }
            }
        }
        Ok(())
    }
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
