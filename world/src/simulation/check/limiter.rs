//! A limiter as it must be: what it decides (D1, D2, D4, D13), what adjustments and settlements do (D15), what it
//! remembers (D9, D11), and how much it may admit (E1 to E6).

mod adjusted;
mod reserved;
mod stored;
mod turns;

use lockage_core::{Decision, Limit, REMEMBERED_REQUESTS, RequestId, StoredLimit, Verdict};
use lockage_oracle::ledger::{Asked, Ledger};

use super::charges::Charges;
use super::reservations::Reservations;
use super::{Carried, Property, Violation};
use crate::simulation::coverage::{Counts, Coverage};
use crate::simulation::job::Adjustment;
use crate::simulation::limiter::{LimiterAsk, What, each};
use crate::simulation::scenario::{Limiter, Place};
use crate::simulation::server::Outcome;
use turns::Taken;

#[derive(Clone, Debug)]
pub(in crate::simulation) struct LimiterTruth {
    limiter: Limiter,
    /// What the key is under.
    limit: Limit,
    /// Whether anything was written to it.
    is_there: bool,
    /// The limit that is stored with it.
    stored: Option<StoredLimit>,
    /// When it was written last.
    written_us: u64,
    reference: Ledger,
    charges: Charges,
    /// The last requests and adjustments that were done under an id, the oldest first.
    remembered: Vec<Remembered>,
    reservations: Reservations,
    /// What the key's record is: another one is not given back what was charged before.
    generation: u64,
    /// Whether any reservation was made in this generation.
    has_reserved: bool,
    /// All turns that were told with what gives them back, the oldest first.
    turns: Vec<Taken>,
    admitted: u64,
    /// When the latest denied request fits, unless something has changed since.
    fits_us: Option<u64>,
    /// When nothing counts any more, as the latest decision told it.
    resets_us: Option<u64>,
}

#[derive(Clone, Debug)]
struct Remembered {
    id: RequestId,
    outcome: Outcome,
    /// Until then, by the store's clock, it must be remembered.
    until_us: u64,
}

/// An operation, when it was done, and what it came to.
struct Seen<'a> {
    ask: &'a LimiterAsk,
    outcome: &'a Outcome,
    now_us: u64,
}

impl LimiterTruth {
    /// A fresh key.
    pub(super) fn new(limiter: Limiter) -> Self {
        let limit = limiter.limit;
        LimiterTruth {
            limiter,
            limit,
            is_there: false,
            stored: None,
            written_us: 0,
            reference: Ledger::new(&limit),
            charges: Charges::new(&limit),
            remembered: Vec::new(),
            reservations: Reservations::default(),
            generation: 0,
            has_reserved: false,
            turns: Vec::new(),
            admitted: 0,
            fits_us: None,
            resets_us: None,
        }
    }

    pub(super) fn admitted(&self) -> u64 {
        self.admitted
    }

    /// When a denied request fits, when nothing counts any more, when something is no longer remembered, and when the stored limit
    /// is no longer kept, by the store's clock.
    pub(in crate::simulation) fn ends_us(&self) -> impl Iterator<Item = u64> {
        let remembered = self.remembered.iter().map(|known| known.until_us);
        let all = self.fits_us.into_iter().chain(self.resets_us).chain(remembered);
        all.chain(self.reservations.ends_us()).chain([self.kept_us()])
    }

    pub(super) fn observe(
        &mut self,
        ask: &LimiterAsk,
        outcome: &Outcome,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let now_us = carried.now.as_micros();
        self.forget_where_gone(ask, carried, rare)?;
        let seen = Seen { ask, outcome: outcome.inner(), now_us };
        if !self.is_over(ask, outcome, now_us) {
            return self.done(outcome, &seen, rare);
        }
        // What there is stays, unless something is written.
        let mut over = self.clone();
        over.forget(now_us, rare);
        over.done(outcome, &seen, rare)?;
        if over.is_there {
            *self = over;
        }
        Ok(())
    }

    fn done(
        &mut self,
        outcome: &Outcome,
        seen: &Seen<'_>,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let ask = seen.ask;
        if let What::Set(setting) = ask.what {
            return self.set(setting, seen, rare);
        }
        if let What::Cancel(cancel) = &ask.what {
            return self.cancel(cancel, seen, rare);
        }
        let stored = self.stored.unwrap_or(self.limiter.stored(ask.is_other));
        let Some(limit) = self.limit_for(ask, outcome, rare)? else { return Ok(()) };
        match outcome {
            Outcome::PerClient(_) => self.keep_per_client(limit, seen, rare),
            _ => self.act(limit, seen, rare)?,
        }
        let is_stored = self.is_there && self.limiter.place != Place::WithCallers;
        self.stored = is_stored.then_some(stored);
        Ok(())
    }

    fn act(&mut self, limit: Limit, seen: &Seen<'_>, rare: &mut Counts) -> Result<(), Violation> {
        if !self.is_there && limit != self.limit {
            self.begin_under(limit);
        }
        let is_changed = limit != self.limit && !self.reference.is_of(&limit);
        match &seen.ask.what {
            &What::Peek { cost } => {
                let asked = Asked::patient(cost, seen.now_us);
                return match (seen.outcome, is_changed) {
                    (Outcome::Decision(decision), false) => self.reference.judge(asked, decision),
                    (Outcome::Decision(decision), true) => {
                        rare.saw(Coverage::PeekedUnderOther);
                        self.reference.converted(&limit, seen.now_us).judge(asked, decision)
                    }
                    _ => no_answer(seen),
                };
            }
            What::Settle { reservation, actual } => {
                return self.settle((limit, is_changed), (reservation, *actual), seen, rare);
            }
            What::Reserve { id, .. } if self.is_reserved_again((limit, *id), seen, rare)? => {
                return Ok(());
            }
            _ => {}
        }
        if is_changed {
            self.change(limit, seen.now_us, rare);
        }
        match &seen.ask.what {
            &What::Acquire { cost, id, patience } => {
                if self.is_answered_again(id, seen, Coverage::RepeatedRequest, rare)? {
                    return Ok(());
                }
                let Some(decision) = seen.outcome.decision() else { return no_answer(seen) };
                let asked = Asked { cost, patience_us: patience.as_micros(), now_us: seen.now_us };
                if self.decide(asked, decision, None, rare)? {
                    self.remember(id, seen);
                }
                Ok(())
            }
            What::AcquireEach { costs } => {
                let costs = each(costs).collect::<Vec<_>>();
                self.decide_each(&costs, seen, rare)
            }
            &What::TakeTurn { cost, id } => {
                if self.is_answered_again(id, seen, Coverage::RepeatedRequest, rare)? {
                    return Ok(());
                }
                if self.take_turn(cost, seen, rare)? {
                    self.remember(id, seen);
                }
                Ok(())
            }
            &What::Reserve { cost, id, hold_us } => self.reserve((cost, id, hold_us), seen, rare),
            &What::Adjust { adjustment, amount, id } => {
                if self.is_answered_again(id, seen, Coverage::RepeatedAdjustment, rare)? {
                    return Ok(());
                }
                let Outcome::Adjusted(adjusted) = seen.outcome else { return no_answer(seen) };
                self.adjust((adjustment, amount), adjusted, seen, rare)?;
                if adjusted.amount > 0 {
                    let is_window = |part: Limit| {
                        matches!(part, Limit::FixedWindow(_) | Limit::SlidingWindow(_))
                    };
                    if adjustment == Adjustment::Refund && self.limit.parts().any(is_window) {
                        self.forget_reservations();
                    }
                    self.wrote(seen.now_us);
                    self.remember(id, seen);
                }
                Ok(())
            }
            What::Peek { .. } | What::Settle { .. } | What::Set(_) | What::Cancel(_) => Ok(()),
        }
    }

    /// Whether it was done before under its id, and is remembered: then it gets the same answer.
    fn is_answered_again(
        &self,
        id: Option<RequestId>,
        seen: &Seen<'_>,
        again: Coverage,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        let Some(known) = self.remembered.iter().find(|known| Some(known.id) == id) else {
            return Ok(false);
        };
        if seen.now_us >= known.until_us {
            rare.saw(Coverage::ChargedAgain);
            return Ok(false);
        }
        rare.saw(again);
        if *seen.outcome == known.outcome {
            return Ok(true);
        }
        let before = format!("it came again, and was answered {:?} before", known.outcome);
        broken(Property::D11, seen.ask, seen.outcome, &before)
    }

    /// Several in one call, each as if it came by itself.
    fn decide_each(
        &mut self,
        costs: &[u64],
        seen: &Seen<'_>,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let Outcome::Decisions(decisions) = seen.outcome else { return no_answer(seen) };
        if decisions.len() != costs.len() {
            return no_answer(seen);
        }
        let mut admitted = 0;
        for (cost, decision) in costs.iter().zip(decisions) {
            let asked = Asked::patient(*cost, seen.now_us);
            admitted += usize::from(self.decide(asked, decision, None, rare)?);
        }
        if (1..costs.len()).contains(&admitted) {
            rare.saw(Coverage::PartOfList);
        }
        Ok(())
    }

    /// Judges what is decided, and tells whether it was admitted.
    fn decide(
        &mut self,
        asked: Asked,
        decision: &Decision,
        reservation: Option<u128>,
        rare: &mut Counts,
    ) -> Result<bool, Violation> {
        let now_us = asked.now_us;
        if self.fits_us == Some(now_us) {
            rare.saw(Coverage::WindowEndsNow);
        }
        if self.resets_us == Some(now_us) {
            rare.saw(Coverage::AllEndsNow);
        }
        if decision.is_allowed() {
            let turn_us = now_us + decision.turn_after.as_micros() as u64; // below 2^53
            self.charges.charge(&self.limit, (now_us, Some(turn_us)), asked.cost, reservation)?;
        }
        self.reference.judge_charge(asked, decision, reservation)?;
        match decision.verdict {
            Verdict::Allowed => {
                self.admitted += 1;
                self.wrote(now_us);
            }
            Verdict::Denied { retry_after, .. } => {
                if decision.is_blocked() {
                    rare.saw(Coverage::Blocked);
                }
                self.fits_us = Some(now_us + retry_after.as_micros() as u64); // below 2^53
            }
            Verdict::Never => {}
        }
        let resets_us = now_us + decision.reset_after.as_micros() as u64; // below 2^53
        self.resets_us = Some(resets_us).filter(|resets_us| now_us < *resets_us);
        Ok(decision.is_allowed())
    }

    /// Nothing counts, under another limit.
    fn begin_under(&mut self, limit: Limit) {
        self.limit = limit;
        self.reference = Ledger::new(&limit);
        self.remembered.clear();
        self.forget_reservations();
        self.charges.begin(&limit);
        (self.fits_us, self.resets_us) = (None, None);
    }

    /// What counts is converted; what is remembered is not.
    fn change(&mut self, limit: Limit, now_us: u64, rare: &mut Counts) {
        if !self.reference.is_fresh(now_us) {
            rare.saw(Coverage::LimitChanged);
        }
        let reference = self.reference.converted(&limit, now_us);
        self.begin_under(limit);
        self.reference = reference;
        self.charges.touch(now_us);
    }

    /// Something was written: what is over by now is forgotten for good.
    fn wrote(&mut self, now_us: u64) {
        (self.is_there, self.written_us) = (true, now_us);
        (self.fits_us, self.resets_us) = (None, None);
        self.remembered.retain(|known| now_us < known.until_us);
    }

    fn remember(&mut self, id: Option<RequestId>, seen: &Seen<'_>) {
        let Some(id) = id else { return };
        if self.remembered.len() == REMEMBERED_REQUESTS {
            self.remembered.remove(0);
        }
        let until_us = seen.now_us + self.limiter.remember_us;
        self.remembered.push(Remembered { id, outcome: seen.outcome.clone(), until_us });
    }

    /// A key that is not there remembers nothing, and is not to be dropped while it matters (D9).
    fn forget_where_gone(
        &mut self,
        ask: &LimiterAsk,
        carried: &Carried,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let now_us = carried.now.as_micros();
        if let Some(id) = ask.beside().filter(|_| !carried.was_beside)
            && self.reservations.forget(id, now_us)
        {
            return Err(Property::D9.broken(format!("the reservation {id} was forgotten")));
        }
        if carried.was_held {
            return Ok(());
        }
        if let Some(known) = self.remembered.iter().find(|known| now_us < known.until_us) {
            return Err(Property::D9.broken(format!("{known:?} was forgotten")));
        }
        if now_us < self.kept_us() || !self.reference.is_fresh(now_us) {
            return Err(Property::D9.broken(format!(
                "the key was dropped before {now_us} us, and is not as if never used then"
            )));
        }
        self.forget(now_us, rare);
        Ok(())
    }

    /// Nothing is given back any more for those that were made before.
    fn forget_reservations(&mut self) {
        (self.generation, self.has_reserved) = (self.generation + 1, false);
    }

    /// It is as if it had never been used.
    fn forget(&mut self, now_us: u64, rare: &mut Counts) {
        if self.stored.take().is_some() {
            rare.saw(Coverage::LimitOver);
        }
        self.is_there = false;
        self.reference = Ledger::new(&self.limit);
        self.remembered.clear();
        self.forget_reservations();
        (self.fits_us, self.resets_us) = (None, None);
        self.charges.forget_after(now_us);
    }
}

fn no_answer<T>(seen: &Seen<'_>) -> Result<T, Violation> {
    broken(Property::D12, seen.ask, seen.outcome, "that is no answer to it")
}

fn broken<T>(
    property: Property,
    ask: &LimiterAsk,
    outcome: &Outcome,
    what: &str,
) -> Result<T, Violation> {
    Err(property.broken(format!("{} was answered {outcome:?}: {what}", ask.words())))
}
