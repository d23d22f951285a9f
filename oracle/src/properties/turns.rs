//! D13, D14 and E6: turns in the queue of a leaky bucket.

use lockage_core::Cancellation;

use super::decisions::{charged, costs};
use super::{Check, require};
use crate::config::Config;
use crate::envelope;
use crate::key::MAX_TIME_US;
use crate::strategies::Trace;
use crate::subject::{Machine, Op, Outcome, Subject};

/// The turns of those who were admitted and did not give them back, in the order of admission: times in
/// microseconds, and costs. For traffic with neither ids nor resets.
#[derive(Debug, Default)]
struct Turns(Vec<(u64, u64)>);

impl Turns {
    fn learn(&mut self, op: &Op, now_us: u64, outcome: &Outcome) {
        if *outcome == Outcome::Cancelled(Some(Cancellation::GivenBack)) {
            self.0.pop();
        }
        if charged(op, now_us, outcome).is_empty() {
            return;
        }
        let decided = costs(op).into_iter().zip(outcome.answers());
        let admitted = decided.filter(|(_, answer)| answer.is_allowed());
        self.0.extend(admitted.map(|(cost, answer)| (now_us + answer.turn_after_us, cost)));
    }
}

/// D13: whoever is admitted later has no earlier turn, and none waits longer than it takes to drain the
/// queue that it has room in. The clock goes on.
///
/// # Errors
/// The turns that are not so.
pub fn d13_turns_are_in_order_and_bounded(subject: &mut impl Subject, trace: &Trace) -> Check {
    let Config { amount, span_us, burst: queue, .. } = *trace.limits.only();
    let mut turns = Turns::default();
    trace.play(subject, |_, op, now_us, outcome| {
        turns.learn(op, now_us, &outcome);
        require(turns.0.is_sorted_by_key(|(turn_us, _)| *turn_us), || {
            format!("{op:?} at {now_us}: {turns:?}")
        })?;
        let mut decided = costs(op).into_iter().zip(outcome.answers());
        let in_time = decided.all(|(cost, answer)| {
            let before = u128::from(queue.saturating_sub(cost)) * u128::from(span_us);
            !answer.is_allowed()
                || u128::from(answer.turn_after_us) <= before.div_ceil(amount.into())
        });
        require(in_time, || format!("{op:?} at {now_us}: {outcome:?}"))
    })
}

/// E6: turns are spaced by the rate.
///
/// # Errors
/// The interval with too much in it.
pub fn e6_turns_are_spaced_by_the_rate(subject: &mut impl Subject, trace: &Trace) -> Check {
    let mut turns = Turns::default();
    trace.play(subject, |_, op, now_us, outcome| {
        turns.learn(op, now_us, &outcome);
        let checked = envelope::check_turns(trace.limits.only(), &turns.0);
        require(checked.is_ok(), || format!("{checked:?} of {turns:?}"))
    })
}

/// D14: turns that are given back, the latest first and each before it comes, change no later decision.
///
/// `others` says before which step, at which cost (two of them), and how much later it is given back (in
/// microseconds). The trace itself takes no turns by ticket.
///
/// # Errors
/// The first operation that is decided differently.
pub fn d14_a_cancelled_turn_was_never_asked_for(
    plain: &mut impl Subject,
    cancelling: &mut impl Subject,
    trace: &Trace,
    others: &[(usize, [u64; 2], u64)],
) -> Check {
    let (mut index, mut taken) = (0, 0);
    let mut latest_us = trace.start_us;
    trace.play(plain, |_, op, now_us, outcome| {
        for (_, costs, later_us) in others.iter().filter(|(before, ..)| *before == index) {
            let mut turns = Vec::new();
            for &cost in costs {
                let answer = cancelling.peek(cost, latest_us);
                // One that has its turn at once cannot be given back.
                if answer.is_allowed() && answer.turn_after_us > 0 {
                    cancelling.run(&Op::TakeTurn { cost, patience_us: u64::MAX }, latest_us);
                    turns.push((taken, latest_us + answer.turn_after_us));
                    taken += 1;
                }
            }
            for (number, turn_us) in turns.into_iter().rev() {
                let back_us = latest_us.saturating_add(*later_us).min(turn_us - 1);
                let back_us = back_us.min(MAX_TIME_US);
                let cancelled = cancelling.run(&Op::CancelTurn(number), back_us);
                let given_back = Outcome::Cancelled(Some(Cancellation::GivenBack));
                require(cancelled == given_back, || {
                    format!("turn {number} at {back_us}, before {turn_us}: {cancelled:?}")
                })?;
            }
        }
        index += 1;
        latest_us = now_us;
        let seen = cancelling.run(op, now_us);
        require(seen.decides_like(&outcome), || {
            format!("step {index}, {op:?} at {now_us}: {seen:?}, without others: {outcome:?}")
        })
    })
}

/// D14: to cancel a turn that has come, or that others were admitted after, changes nothing.
///
/// `cancels` says before which step, and which of the turns that were taken by then. The trace cancels
/// nothing itself.
///
/// # Errors
/// A turn that is given back, or the first operation that is decided differently.
pub fn d14_what_is_not_exact_changes_nothing(
    plain: &mut impl Subject,
    cancelling: &mut impl Subject,
    trace: &Trace,
    cancels: &[(usize, usize)],
) -> Check {
    // Of each operation that takes a turn: how many were admitted until then, and the turn.
    let (mut taken, mut admitted): (Vec<(usize, u64)>, usize) = (Vec::new(), 0);
    let mut index = 0;
    trace.play(plain, |_, op, now_us, outcome| {
        for (_, which) in cancels.iter().filter(|(before, _)| *before == index && !taken.is_empty())
        {
            let number = which % taken.len();
            let (until, turn_us) = taken[number];
            let (overtaken, late) = (until < admitted, now_us >= turn_us);
            if !overtaken && !late {
                continue;
            }
            let expected = if late { Cancellation::TooLate } else { Cancellation::NotLast };
            let cancelled = cancelling.run(&Op::CancelTurn(number), now_us);
            let right = [None, Some(expected)].map(Outcome::Cancelled).contains(&cancelled);
            require(right, || {
                format!("turn {number} at {now_us}: {cancelled:?}, not {expected:?}")
            })?;
        }
        index += 1;
        let seen = cancelling.run(op, now_us);
        require(seen.decides_like(&outcome), || {
            format!("step {index}, {op:?} at {now_us}: {seen:?}, without cancels: {outcome:?}")
        })?;
        admitted += charged(op, now_us, &outcome).len();
        if let (Op::TakeTurn { .. }, [answer]) = (op, outcome.answers()) {
            taken.push((admitted, now_us + answer.turn_after_us));
        }
        Ok(())
    })
}

/// D9: what becomes of a turn that is given back does not depend on whether a record that may be
/// forgotten is still there. The clock goes on.
///
/// # Errors
/// The first operation that the machine decides differently whose record goes as early as it may.
pub fn d9_cancels_do_not_see_expiry(trace: &Trace) -> Check {
    let [mut keeps, mut drops] = [(); 2].map(|()| Machine::new(trace.limits.limit()));
    trace.play(&mut keeps, |_, op, now_us, outcome| {
        if drops.key.forget_at_us().is_some_and(|forget_at_us| forget_at_us <= now_us) {
            drops.forget();
        }
        let seen = drops.run(op, now_us);
        require(seen.decides_like(&outcome), || {
            format!("{op:?} at {now_us}: {seen:?}, with the record {outcome:?}")
        })
    })
}
