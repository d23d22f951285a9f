//! D13, D14 and E6: turns in the queue of a leaky bucket.

use lockage_core::Cancellation;

use super::decisions::{charged, costs};
use super::{Check, require};
use crate::config::Config;
use crate::envelope;
use crate::key::MAX_TIME_US;
use crate::strategies::Trace;
use crate::subject::{Machine, Op, Outcome, Subject};

/// The turns of admitted requests that were not cancelled, in the order of admission: times in microseconds, and costs.
/// For traffic without ids and resets.
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

/// Checks D13: a request that is admitted later has no earlier turn, and none waits longer than the drain of the queue
/// in which it has room takes. The clock never steps back.
///
/// # Errors
/// The wrong turns.
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

/// Checks E6: turns are spaced by the rate.
///
/// # Errors
/// The interval with an excess.
pub fn e6_turns_are_spaced_by_the_rate(subject: &mut impl Subject, trace: &Trace) -> Check {
    let mut turns = Turns::default();
    trace.play(subject, |_, op, now_us, outcome| {
        turns.learn(op, now_us, &outcome);
        let checked = envelope::check_turns(trace.limits.only(), &turns.0);
        require(checked.is_ok(), || format!("{checked:?} of {turns:?}"))
    })
}

/// Checks D14: turns that are cancelled, the latest first and each before it comes, change no later decision.
///
/// `others` are the step before which each turn is taken, its cost (two of them), and the time until it is cancelled
/// (in microseconds). The trace itself takes no turns by ticket.
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
                // A turn that has come cannot be cancelled.
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

/// Checks D14: cancelling a turn that has come, or after which others were admitted, changes nothing.
///
/// `cancels` are the step before which each turn is cancelled, and its index among the turns that were taken by then.
/// The trace cancels nothing itself.
///
/// # Errors
/// A cancelled turn, or the first operation that is decided differently.
pub fn d14_what_is_not_exact_changes_nothing(
    plain: &mut impl Subject,
    cancelling: &mut impl Subject,
    trace: &Trace,
    cancels: &[(usize, usize)],
) -> Check {
    // For each operation that takes a turn: how many were admitted until then, and the turn.
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

/// Checks D9: the outcome of a cancellation does not depend on whether a record that may be forgotten is still there.
/// The clock never steps back.
///
/// # Errors
/// The first operation with a different outcome on the machine that drops its record as early as allowed.
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
