//! Adjustments: amounts that are taken, given back, charged beyond the limit, or blocked, and their side effects.

use super::decisions::{agrees_with, end, within_time};
use super::{Check, require};
use crate::config::Kind;
use crate::key::MAX_TIME_US;
use crate::strategies::{MAX_REMEMBER_US, Step, Trace};
use crate::subject::{Adjustment, Answer, Op, Subject, Verdict};

/// An id that no trace uses.
const ID: u128 = 0xc0de;

/// Checks that taking up to `most` grants exactly the smaller of that and the remaining capacity, and that the key
/// then acts as after an acquire of the granted amount.
///
/// # Errors
/// The wrong grant, or the first operation that is decided differently.
pub fn taking_up_to_is_an_acquire_of_what_fits<S: Subject>(
    taker: &mut S,
    mut twin: S,
    trace: &Trace,
    most: u64,
    then: &[Step],
) -> Check {
    let now_us = end(taker, trace);
    end(&mut twin, trace);
    let remaining = twin.peek(1, now_us).remaining;
    let (granted, after) = taker.adjust(Adjustment::TakeUpTo(most), now_us);
    require(granted == most.min(remaining), || {
        format!("up to {most} of {remaining} at {now_us} is {granted}")
    })?;
    require(after.remaining == remaining - granted, || {
        format!("{granted} of {remaining} taken at {now_us} leave {after:?}")
    })?;
    if granted > 0 {
        let acquired = twin.acquire(granted, now_us);
        require(acquired.is_allowed(), || {
            format!("{granted} at {now_us} do not fit: {acquired:?}")
        })?;
    }
    agrees_with(&mut twin, taker, &trace.continued(now_us, then))
}

/// Checks refunds. A refund of a cost that was just acquired restores the key; it gives back as much as it reports,
/// never more than was used, and nothing above the capacity; and a key that gave everything back has its whole
/// capacity.
///
/// # Errors
/// The wrong remainder.
pub fn a_refund_gives_back_what_was_used(
    subject: &mut impl Subject,
    trace: &Trace,
    cost: u64,
) -> Check {
    let now_us = end(subject, trace);
    let before = subject.peek(1, now_us);
    if subject.acquire(cost, now_us).is_allowed() {
        let (amount, after) = subject.adjust(Adjustment::Refund(cost.into()), now_us);
        require((amount, after.each()) == (cost, before.each()), || {
            format!(
                "{cost} acquired at {now_us} and given back: {before:?}, then {amount}, {after:?}"
            )
        })?;
    }
    let (amount, after) = subject.adjust(Adjustment::Refund(cost.into()), now_us);
    require(amount <= cost, || format!("{amount} of {cost} given back at {now_us}"))?;
    gave_back(&before, &after, amount)?;
    let mut empty = after;
    // A sliding window counts two limits at most.
    for _ in 0..2 {
        (_, empty) = subject.adjust(Adjustment::Refund(MOST.into()), now_us);
    }
    let full = empty.each().iter().all(|(limit, remaining)| limit == remaining);
    require(full, || format!("all given back at {now_us}: {empty:?}"))
}

/// More than any limiter counts.
const MOST: u64 = (1 << 53) - 1;

/// Checks that no part has more than its capacity, none has less than before, and none gained more than `amount`.
fn gave_back(before: &Answer, after: &Answer, amount: u64) -> Check {
    let held = before.each().into_iter().zip(after.each()).all(|((_, before), (limit, after))| {
        after <= limit && before <= after && after <= before.saturating_add(amount)
    });
    require(held, || format!("{amount} given back: {before:?}, then {after:?}"))
}

/// Checks D11: an adjustment that is repeated under its id is done once. The repetition gets the same answer, and the
/// key acts as after one adjustment.
///
/// # Errors
/// The first answer that differs.
pub fn d11_an_adjustment_is_done_once<S: Subject>(
    again: &mut S,
    mut once: S,
    trace: &Trace,
    (adjustment, wait_us): (Adjustment, u64),
    then: &[Step],
) -> Check {
    let now_us = end(again, trace);
    end(&mut once, trace);
    let op = Op::Adjust { adjustment, request: Some((ID, MAX_REMEMBER_US)) };
    let told = once.run(&op, now_us);
    let first = again.run(&op, now_us);
    require(first == told, || format!("{op:?} at {now_us}: {first:?}, elsewhere {told:?}"))?;
    if !told.has_effect() {
        return Ok(()); // nothing was done: it is not remembered
    }
    let wait_us = wait_us.min(MAX_REMEMBER_US - 1);
    let again_us = within_time(now_us, wait_us).unwrap_or(now_us);
    let second = again.run(&op, again_us);
    require(second == told, || format!("{op:?} again at {again_us}: {second:?}, not {told:?}"))?;
    agrees_with(&mut once, again, &trace.continued(again_us, then))
}

/// Checks that a penalty is charged in full, as far as each limit's debt stays within one capacity, and admits nothing
/// earlier: a key without the penalty would admit whatever the key admits later.
///
/// # Errors
/// The wrong charge, or the wrong admission.
pub fn a_penalty_is_charged_in_full_and_admits_nothing<S: Subject>(
    punished: &mut S,
    spared: &mut S,
    trace: &Trace,
    (penalty, cost, later_us): (u64, u64, u64),
) -> Check {
    let now_us = end(punished, trace);
    end(spared, trace);
    let before = spared.peek(1, now_us);
    let (amount, after) = punished.adjust(Adjustment::Penalty(penalty.into()), now_us);
    let seen =
        || format!("a penalty of {penalty} at {now_us} is {amount}: {before:?}, then {after:?}");
    require((owed_at_least(trace, &before, penalty)..=penalty).contains(&amount), seen)?;
    let each = before.each().into_iter().zip(after.each()).zip(&trace.limits.parts);
    for (((_, before), (_, after)), part) in each {
        let left = before.saturating_sub(penalty);
        // Several logs share one entry, which may be smaller.
        let shared = part.kind == Kind::SlidingLog && trace.limits.parts.len() > 1;
        require(after == left || shared && (left..=before).contains(&after), seen)?;
    }
    let then_us = within_time(now_us, later_us).unwrap_or(MAX_TIME_US);
    let (through, would_be) = (punished.peek(cost, then_us), spared.peek(cost, then_us));
    require(!through.is_allowed() || would_be.is_allowed(), || {
        format!("{cost} at {then_us}, after a penalty: {through:?}, without: {would_be:?}")
    })?;
    let owed = punished.peek(cost, now_us);
    require(wait_us(&owed) >= wait_us(&spared.peek(cost, now_us)), || {
        format!("{cost} at {now_us}: after a penalty {owed:?}, sooner than without")
    })
}

/// Returns the least charge of a penalty: all that fits into some part's room and one capacity of debt. A part with
/// nothing left may be in debt already, a log may share its entry with a smaller one, and limits near the bounds hold
/// less than two capacities.
fn owed_at_least(trace: &Trace, before: &Answer, penalty: u64) -> u64 {
    let several = trace.limits.parts.len() > 1;
    let owed = before.each().into_iter().zip(&trace.limits.parts).map(|((limit, left), part)| {
        // A bucket with a warm-up counts in tenths, and fills within half of the time.
        let smaller = if part.kind == Kind::WarmupBucket { 20 } else { 1 };
        let far_from_bounds = limit < (1 << 20) / smaller && part.span_us < 1 << 30;
        match part.kind {
            Kind::SlidingLog if several => 0,
            _ if left > 0 && far_from_bounds => penalty.min(limit + left),
            _ => penalty.min(left),
        }
    });
    owed.max().unwrap_or(0)
}

fn wait_us(answer: &Answer) -> u64 {
    match answer.verdict {
        Verdict::Allowed => 0,
        Verdict::Denied { retry_after_us } => retry_after_us,
        Verdict::Never => u64::MAX,
    }
}

/// Checks that a blocked key admits nothing until exactly the end of the block, whatever the operation, and then acts
/// as one that was never blocked. A later, shorter block does not shorten it.
///
/// # Errors
/// The wrong admission, or the first operation that differs.
pub fn a_blocked_key_admits_nothing_until_the_end<S: Subject>(
    blocked: &mut S,
    mut never: S,
    trace: &Trace,
    (span_us, shorter_us): (u64, u64),
    then: &[Step],
) -> Check {
    let now_us = end(blocked, trace);
    end(&mut never, trace);
    let (left_us, after) = blocked.adjust(Adjustment::Block(span_us), now_us);
    require(left_us >= span_us && after.blocked && after.remaining == 0, || {
        format!("blocked at {now_us} for {span_us}, that is for {left_us}: {after:?}")
    })?;
    let (again_us, _) = blocked.adjust(Adjustment::Block(shorter_us.clamp(1, span_us)), now_us);
    require(again_us == left_us, || {
        format!("a block of {left_us} became one of {again_us} by another of {shorter_us}")
    })?;
    let Some(end_us) = within_time(now_us, left_us) else { return Ok(()) };
    for time_us in [now_us, now_us + left_us / 2, end_us - 1] {
        let denied = [blocked.acquire(1, time_us), blocked.peek(1, time_us)];
        let until_end =
            |answer: &Answer| answer.blocked && answer.retry_after_us() >= Some(end_us - time_us);
        require(denied.iter().all(until_end), || {
            format!("blocked until {end_us}, at {time_us}: {denied:?}")
        })?;
        let (taken, _) = blocked.adjust(Adjustment::TakeUpTo(1), time_us);
        require(taken == 0, || format!("blocked until {end_us}, {taken} taken at {time_us}"))?;
    }
    agrees_with(&mut never, blocked, &trace.continued(end_us, then))
}

/// Checks that unblocking ends a block at once: the key then acts as one that was never blocked.
///
/// # Errors
/// The first operation that differs.
pub fn unblocking_ends_a_block_at_once<S: Subject>(
    unblocked: &mut S,
    mut never: S,
    trace: &Trace,
    (span_us, wait_us): (u64, u64),
    then: &[Step],
) -> Check {
    let now_us = end(unblocked, trace);
    end(&mut never, trace);
    never.adjust(Adjustment::Unblock, now_us); // where the trace blocked it
    let (left_us, _) = unblocked.adjust(Adjustment::Block(span_us), now_us);
    let then_us = within_time(now_us, wait_us.min(left_us - 1)).unwrap_or(now_us);
    let (was_blocked, after) = unblocked.adjust(Adjustment::Unblock, then_us);
    require(was_blocked == 1 && !after.blocked, || {
        format!("unblocked at {then_us}: {was_blocked}, {after:?}")
    })?;
    let (still, _) = unblocked.adjust(Adjustment::Unblock, then_us);
    require(still == 0, || format!("still blocked at {then_us}, after it was unblocked"))?;
    agrees_with(&mut never, unblocked, &trace.continued(then_us, then))
}
