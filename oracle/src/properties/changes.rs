//! Changes of a key's limits, and the usage that they carry over.

use super::decisions::{d2_retry_after_is_minimal, d4_remaining_is_exact, end};
use super::{Check, require};
use crate::config::{Config, Kind, Limits};
use crate::strategies::{Step, Trace};
use crate::subject::{Adjustment, Op, Outcome, Subject};

/// Checks that right after any change of the limits no part has more left than its capacity less the used cost under
/// the old limits: of the same limit, otherwise of the limit of its kind in its place, otherwise the most that any of
/// them had used. (A log that was a log before counts its own window instead: see
/// [`a_log_with_a_shorter_window_counts_its_own_entries`].) No operation is refused.
///
/// # Errors
/// The change that gave something away, or the refused operation.
pub fn a_change_gives_nothing_away<S: Subject>(subject: &mut S, trace: &Trace) -> Check {
    // The limits under which the record was written, as far as that is certain.
    let mut written = Some(trace.limits.clone());
    let mut limits = trace.limits.clone();
    trace.play(subject, |subject, op, now_us, outcome| {
        let with_id = matches!(op, Op::Request { .. } | Op::Adjust { request: Some(_), .. });
        if let Outcome::Refused(error) = &outcome {
            // An id that is used for another operation is refused.
            require(with_id, || format!("{op:?} at {now_us}: {error}"))?;
        }
        match op {
            Op::Change(new) => {
                if let Some(old) = &written {
                    gives_nothing_away(subject, now_us, old, new)?;
                }
                limits = new.clone();
            }
            Op::Peek(_) => {}
            // A repeated operation under this id writes nothing.
            _ if with_id => written = written.take().filter(|written| *written == limits),
            _ => written = Some(limits.clone()),
        }
        Ok(())
    })
}

/// Checks one change, of a record that was written under `old`.
fn gives_nothing_away(
    subject: &mut impl Subject,
    now_us: u64,
    old: &Limits,
    new: &Limits,
) -> Check {
    subject.run(&Op::Change(old.clone()), now_us);
    let seen = subject.peek(1, now_us);
    subject.run(&Op::Change(new.clone()), now_us);
    let after = subject.peek(1, now_us).each();
    let before = seen.each();
    // A block hides the usage of a single limit.
    let hidden = seen.blocked && seen.parts.is_empty();
    let used = before.iter().map(|(limit, left)| if hidden { 0 } else { limit - left });
    let kept = kept(old, new, &used.collect::<Vec<u64>>());
    for (part, (kept, (limit, remaining))) in kept.iter().zip(&after).enumerate() {
        require(*remaining <= limit.saturating_sub(*kept), || {
            format!(
                "at {now_us}: {before:?} under {old:?} became {after:?} under {new:?}; part {part} \
                 must keep {kept}"
            )
        })?;
    }
    Ok(())
}

/// Returns, for each new part, the least count that it takes over from the old ones, of which `used` was used.
fn kept(old: &Limits, new: &Limits, used: &[u64]) -> Vec<u64> {
    let mut taken = vec![false; old.parts.len()];
    let mut sources: Vec<Option<usize>> = vec![None; new.parts.len()];
    for (source, part) in sources.iter_mut().zip(&new.parts) {
        let same = |at: &usize| !taken[*at] && acts_like(&old.parts[*at], part);
        *source = (0..old.parts.len()).find(same);
        source.iter().for_each(|at| taken[*at] = true);
    }
    let stays: Vec<bool> = sources.iter().map(Option::is_some).collect();
    for (at, (source, part)) in sources.iter_mut().zip(&new.parts).enumerate() {
        let in_place = old.parts.get(at).is_some_and(|old| old.kind == part.kind);
        if source.is_none() && in_place && !taken[at] {
            taken[at] = true;
            *source = Some(at);
        }
    }
    let most = used.iter().max().copied().unwrap_or(0);
    let each = sources.into_iter().zip(stays).zip(&new.parts);
    each.map(|((source, stays), part)| {
        // One of two equal logs can have forgotten more than the other, if the clock stepped back.
        if part.kind == Kind::SlidingLog && old.has_log() && !stays {
            return of_logs(old, part, used);
        }
        source.map_or(most, |at| used[at])
    })
    .collect()
}

/// Returns the least count that a log takes over from logs: that of those whose windows are no longer than its own.
fn of_logs(old: &Limits, log: &Config, used: &[u64]) -> u64 {
    let logs = old.parts.iter().zip(used);
    let within = |old: &Config| old.kind == Kind::SlidingLog && old.span_us <= log.span_us;
    logs.filter(|(old, _)| within(old)).map(|(_, used)| *used).max().unwrap_or(0)
}

/// Returns whether two limits are one to the machines, which reduce rates.
fn acts_like(one: &Config, other: &Config) -> bool {
    let rate = |config: &Config| u128::from(config.amount) * u128::from(other.span_us);
    let other_rate = u128::from(other.amount) * u128::from(one.span_us);
    let same_rate = match one.kind {
        Kind::TokenBucket | Kind::LeakyBucket => rate(one) == other_rate,
        _ => (one.amount, one.span_us) == (other.amount, other.span_us),
    };
    one.kind == other.kind && one.burst == other.burst && same_rate
}

/// Checks that a log whose window becomes shorter counts exactly its admissions in that window (E2).
///
/// # Errors
/// The wrong remainder.
pub fn a_log_with_a_shorter_window_counts_its_own_entries(
    subject: &mut impl Subject,
    trace: &Trace,
    log: &Config,
) -> Check {
    let mut entries: Vec<(u64, u64)> = Vec::new();
    let mut now_us = trace.start_us;
    trace.play(subject, |_, op, raw_us, outcome| {
        now_us = raw_us;
        if *op == Op::Reset {
            entries.clear();
        }
        let at_us = entries.last().map_or(raw_us, |(last, _)| raw_us.max(*last));
        for (cost, answer) in super::decisions::costs(op).iter().zip(outcome.answers()) {
            if answer.is_allowed() && !matches!(op, Op::Peek(_)) {
                entries.push((at_us, *cost));
            }
        }
        Ok(())
    })?;
    subject.run(&Op::Change((*log).into()), now_us);
    let at_us = entries.last().map_or(now_us, |(last, _)| now_us.max(*last));
    let live = entries.iter().filter(|(time, _)| at_us < time + log.span_us);
    let used: u64 = live.map(|(_, cost)| cost).sum();
    let remaining = subject.peek(1, now_us).remaining;
    require(remaining == log.amount.saturating_sub(used), || {
        format!("under {log:?} at {now_us} {remaining} remain where {used} count, of {entries:?}")
    })
}

/// Checks that D4 holds right after a change, and D2 after the first acquire under the new limits, which writes the
/// conversion that each call makes anew until then.
///
/// # Errors
/// The wrong answer.
pub fn d2_and_d4_hold_after_a_change<S: Subject + Clone>(
    subject: &mut S,
    trace: &Trace,
    (new, cost): (&Limits, u64),
) -> Check {
    let now_us = end(subject, trace);
    subject.run(&Op::Change(new.clone()), now_us);
    let after = Trace { limits: new.clone(), ..trace.continued(now_us, &[]) };
    d4_remaining_is_exact(&mut subject.clone(), &after, cost)?;
    subject.acquire(1, now_us);
    d2_retry_after_is_minimal(&mut subject.clone(), &after, cost)?;
    d4_remaining_is_exact(subject, &after, cost)
}

/// Checks that a block outlasts a change of the limits, and ends when it would have ended.
///
/// # Errors
/// The wrong answer.
pub fn a_block_outlasts_a_change(
    subject: &mut impl Subject,
    trace: &Trace,
    (new, span_us): (&Limits, u64),
    write: &[Step],
) -> Check {
    let now_us = end(subject, trace);
    let (left_us, _) = subject.adjust(Adjustment::Block(span_us), now_us);
    let Some(end_us) = super::decisions::within_time(now_us, left_us) else { return Ok(()) };
    subject.run(&Op::Change(new.clone()), now_us);
    // Some of it writes the record under the new limits.
    let writes = Trace { limits: new.clone(), ..trace.continued(now_us, write) };
    for (op, time_us) in writes.resolve(subject) {
        let lifts = matches!(op, Op::Reset | Op::Adjust { .. } | Op::Change(_));
        if lifts || time_us >= end_us {
            return Ok(());
        }
    }
    subject.adjust(Adjustment::Penalty(1.into()), now_us);
    let (before, then) = (subject.peek(1, end_us - 1), subject.peek(1, end_us));
    require(before.blocked && !then.blocked, || {
        format!("blocked until {end_us}: one before {before:?}, then {then:?}")
    })
}
