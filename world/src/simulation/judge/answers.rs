//! The store's answers: each answer that callers get is one of these.

use std::any::Any;
use std::time::Duration;

use lockage_core::{
    Adjusted, AnyOutcome, Cancellation, Decision, Renewal, Reserved, Settlement, StoredLimit,
    StoredLimitOutcome, Turn,
};

use super::asked::Op;
use super::{Fault, Kind, Life, fault};
use crate::simulation::by_part::{ByPart, each};

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is named after its content
pub enum Answer {
    Decision(Decision),
    Adjusted(Adjusted),
    Settlement(Settlement),
    Cancellation(Cancellation),
    Done(bool),
    Limit(Option<Box<StoredLimit>>),
}

impl Answer {
    /// Returns whether something was changed, for answers other than decisions.
    pub(super) fn is_written(&self) -> bool {
        match self {
            Answer::Adjusted(adjusted) => adjusted.amount > 0,
            Answer::Settlement(settlement) => matches!(settlement, Settlement::Settled { .. }),
            Answer::Cancellation(cancellation) => *cancellation == Cancellation::GivenBack,
            Answer::Done(is_done) => *is_done,
            Answer::Decision(_) | Answer::Limit(_) => false,
        }
    }
}

/// Returns the answers in an outcome, one for each cost, and the stored limit that applied.
pub(in crate::simulation) fn answers(outcome: &AnyOutcome) -> (Vec<Answer>, Option<StoredLimit>) {
    fn own(outcome: &dyn Any) -> Option<Vec<Answer>> {
        fn of<T: 'static>(outcome: &dyn Any, answer: fn(&T) -> Answer) -> Option<Vec<Answer>> {
            outcome.downcast_ref::<T>().map(|outcome| vec![answer(outcome)])
        }
        let decision = |decision: &Decision| Answer::Decision(decision.clone());
        of::<Decision>(outcome, decision)
            .or_else(|| {
                let all = outcome.downcast_ref::<Vec<Decision>>()?;
                Some(all.iter().map(decision).collect())
            })
            .or_else(|| of::<Turn>(outcome, |turn| Answer::Decision(turn.decision.clone())))
            .or_else(|| of::<Reserved>(outcome, |it| Answer::Decision(it.decision.clone())))
            .or_else(|| of::<Adjusted>(outcome, |it| Answer::Adjusted(it.clone())))
            .or_else(|| of::<Settlement>(outcome, |it| Answer::Settlement(it.clone())))
            .or_else(|| of::<Cancellation>(outcome, |it| Answer::Cancellation(*it)))
            .or_else(|| of::<bool>(outcome, |it| Answer::Done(*it)))
    }
    fn under<T: 'static>(outcome: &dyn Any) -> Option<(Vec<Answer>, Option<StoredLimit>)> {
        Some(match outcome.downcast_ref::<StoredLimitOutcome<T>>()? {
            StoredLimitOutcome::Done { outcome, limit } => {
                (own(outcome).unwrap_or_default(), Some(*limit))
            }
            StoredLimitOutcome::PerClient(limit) | StoredLimitOutcome::ClockOff(limit) => {
                (Vec::new(), Some(*limit))
            }
            StoredLimitOutcome::NoLimit => (Vec::new(), None),
        })
    }
    let outcome: &dyn Any = &**outcome;
    under::<Decision>(outcome)
        .or_else(|| under::<Vec<Decision>>(outcome))
        .or_else(|| under::<Reserved>(outcome))
        .or_else(|| under::<Adjusted>(outcome))
        .or_else(|| under::<Settlement>(outcome))
        .unwrap_or_else(|| (own(outcome).unwrap_or_default(), None))
}

/// Returns whether a reservation was renewed.
pub(super) fn is_renewed(outcome: &AnyOutcome) -> bool {
    let outcome: &dyn Any = &**outcome;
    let renewal = match outcome.downcast_ref() {
        Some(StoredLimitOutcome::Done { outcome, .. }) => Some(outcome),
        _ => outcome.downcast_ref(),
    };
    matches!(renewal, Some(Renewal::Renewed(_)))
}

/// An answer that the store has given, and that no caller got yet.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) at_us: u64,
    sent_us: u64,
    /// The process that asked.
    pub(super) life: Life,
    pub(super) op: Op,
    pub(super) cost: ByPart,
    is_other: bool,
    /// The answer without the parts that are the caller's own.
    answer: Answer,
    turn_us: u64,
}

impl Given {
    pub(super) fn new(
        (at_us, sent_us, life): (u64, u64, Life),
        (op, cost): (Op, ByPart),
        is_other: bool,
        mut answer: Answer,
    ) -> Self {
        let turn_us = match &mut answer {
            Answer::Decision(decision) => bare(decision),
            _ => 0,
        };
        Given { at_us, sent_us, life, op, cost, is_other, answer, turn_us }
    }
}

/// Removes the parts that are the caller's own, and returns the turn, in microseconds.
fn bare(decision: &mut Decision) -> u64 {
    decision.verdict = decision.shadow.take().unwrap_or(decision.verdict);
    std::mem::take(&mut decision.turn_after).as_micros() as u64 // far below 2^63
}

/// An answer as its caller got it: in which life of a node, for which id, to a call that began at
/// `since_us`, in a poll that began at `polled_us`.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(super) life: Life,
    pub(super) id: usize,
    pub(super) op: Op,
    pub(super) cost: ByPart,
    /// Whether it is under the other limit, not the plan's.
    pub(super) is_other: bool,
    /// Whether the caller has waited for its turn.
    pub(super) waits: bool,
    pub(super) since_us: u64,
    pub(super) polled_us: u64,
    pub(super) now_us: u64,
}

/// An answer that a caller got.
#[derive(Clone, Copy, Default)]
pub(super) struct Taken {
    /// When it was given: between these two times, if it may be one of several equal ones.
    pub(super) at_us: u64,
    pub(super) latest_us: u64,
    /// When it was requested, or later.
    pub(super) sent_us: u64,
    /// How much more was admitted, at most.
    pub(super) more: u64,
}

/// A caller that got an answer, and the answer.
#[derive(Clone)]
struct Claim {
    told: Told,
    /// The answer without the parts that are the caller's own.
    answer: Answer,
    turn_us: u64,
    /// How many permits an admission may have taken ahead, in addition to its own.
    ahead: u64,
    is_shadow: bool,
}

impl Claim {
    fn is(&self, given: &Given) -> bool {
        let Claim { told, ref answer, turn_us, ahead, is_shadow } = *self;
        // It has waited for its turn, by a clock that may be fast.
        let span_us = given.turn_us - given.turn_us / 1000;
        let has_waited = told.waits && turn_us == 0 && told.now_us >= given.at_us + span_us;
        let more = more_than(told.cost, given.cost);
        (told.since_us..=told.now_us).contains(&given.at_us)
            && given.life == told.life
            && told.op.is(given.op)
            && given.is_other == told.is_other
            && more.is_some_and(|more| is_same(&given.answer, answer, more, ahead))
            && (given.turn_us == turn_us || is_shadow || has_waited)
    }
}

/// The answers of one id.
#[derive(Default)]
pub(super) struct Answers {
    given: Vec<Given>,
    /// The answers that callers got: each may have been another equal one.
    taken: Vec<(Given, Claim)>,
}

impl Answers {
    pub(super) fn give(&mut self, given: Given) {
        self.given.push(given);
    }

    /// A caller got this answer: the store has given it to the caller's process since the request,
    /// and to no other caller. An admission may be one of up to `ahead` more.
    pub(super) fn take(
        &mut self,
        told: &Told,
        mut answer: Answer,
        ahead: u64,
        is_shadow: bool,
    ) -> Result<Taken, Fault> {
        let turn_us = match &mut answer {
            Answer::Decision(decision) => bare(decision),
            _ => 0,
        };
        let claim = Claim { told: *told, answer, turn_us, ahead, is_shadow };
        let Some(given) = self.find(&claim, &mut Vec::new()) else {
            let Told { op, cost, .. } = told;
            let (answer, turn) = (&claim.answer, Duration::from_micros(turn_us));
            return fault(Kind::Untold, format!("{answer:?} in {turn:?} to {op:?} of {cost:?}"));
        };
        let alike = self.instead_of(&given).filter(|other| claim.is(other));
        let alike: Vec<&Given> = alike.collect();
        let most =
            |of: &dyn Fn(&Given) -> u64| alike.iter().map(|it| of(it)).fold(of(&given), u64::max);
        let taken = Taken {
            at_us: given.at_us,
            latest_us: most(&|it| it.at_us),
            sent_us: most(&|it| it.sent_us),
            more: most(&|it| more_than(told.cost, it.cost).unwrap_or_default()),
        };
        self.taken.push((given, claim));
        Ok(taken)
    }

    /// Checks that the store has answered a process since then that a reservation was given back.
    pub(super) fn gave_back(&self, life: Life, since_us: u64) -> Result<(), Fault> {
        let is_back = self.given.iter().any(|given| {
            (given.life, given.op, given.cost) == (life, Op::Settle, [0; 2])
                && given.at_us >= since_us
                && given.answer.is_written()
        });
        match is_back {
            true => Ok(()),
            false => fault(Kind::Partly, "one of several ids stays charged after a denial".into()),
        }
    }

    /// Returns the answers that this one may have been in the place of: those that nobody got yet, and those of callers
    /// that may have got one of these instead.
    fn instead_of<'a>(&'a self, own: &'a Given) -> impl Iterator<Item = &'a Given> {
        let mut free: Vec<&Given> = self.given.iter().chain([own]).collect();
        let mut held: Vec<&(Given, Claim)> = self.taken.iter().collect();
        loop {
            let may_swap = |theirs: &Claim| free.iter().any(|given| theirs.is(given));
            let (freed, others): (Vec<_>, Vec<_>) =
                held.into_iter().partition(|(_, theirs)| may_swap(theirs));
            if freed.is_empty() {
                return free.into_iter();
            }
            free.extend(freed.iter().map(|(given, _)| given));
            held = others;
        }
    }

    /// Finds an answer for a caller; one of several equal ones may go to another caller than
    /// assumed.
    fn find(&mut self, claim: &Claim, tried: &mut Vec<usize>) -> Option<Given> {
        if let Some(index) = self.given.iter().position(|given| claim.is(given)) {
            return Some(self.given.remove(index));
        }
        for index in 0..self.taken.len() {
            if tried.contains(&index) || !claim.is(&self.taken[index].0) {
                continue;
            }
            tried.push(index);
            let other = self.taken[index].1.clone();
            if let Some(given) = self.find(&other, tried) {
                return Some(std::mem::replace(&mut self.taken[index].0, given));
            }
        }
        None
    }
}

/// Returns how much more is given, if that is the same for all parts.
fn more_than(told: ByPart, given: ByPart) -> Option<u64> {
    let [more, other] = each(given, told, u64::checked_sub);
    more.filter(|_| more == other)
}

/// Returns whether both answers are the same. The `remaining` of an admission that took permits
/// ahead may also count those.
fn is_same(given: &Answer, told: &Answer, more: u64, ahead: u64) -> bool {
    match (given, told) {
        (Answer::Decision(given), Answer::Decision(told)) if ahead > 0 && told.is_allowed() => {
            let remaining = told.remaining;
            let is_held = remaining == given.remaining || remaining <= ahead;
            let is_more = remaining >= given.remaining;
            let mut given = given.clone();
            given.remaining = remaining;
            more <= ahead && is_held && is_more && given == *told
        }
        _ => more == 0 && given == told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E7: of two answers that are alike, each of two callers may have got either.
    #[test]
    fn an_answer_may_be_the_one_that_another_caller_was_taken_to_have_got() {
        let mut answers = Answers::default();
        for (at_us, sent_us) in [(20, 19), (30, 5), (35, 4)] {
            answers.give(Given::new(
                (at_us, sent_us, (0, 0)),
                (Op::Reset, [0; 2]),
                false,
                Answer::Done(true),
            ));
        }
        let mut take = |(since_us, now_us)| {
            let told = Told {
                life: (0, 0),
                id: 0,
                op: Op::Reset,
                cost: [0; 2],
                is_other: false,
                waits: false,
                since_us,
                polled_us: now_us,
                now_us,
            };
            answers.take(&told, Answer::Done(true), 0, false).map(|it| it.sent_us)
        };
        // The last caller has the first answer if the first one has the second, and the second one the last.
        let callers = [(5, 32), (30, 40), (19, 40)];
        assert_eq!(callers.map(|caller| take(caller).ok()), [Some(19), Some(5), Some(19)]);
        assert!(take((5, 40)).is_err(), "no fourth one was given");
    }
}
