//! D6, D9 and D10: the effects of time.

use lockage_core::{Record, Stored};

use super::decisions::{agrees_with, costs, end, within_time};
use super::{Check, require};
use crate::config::Kind;
use crate::key::MAX_TIME_US;
use crate::strategies::{Step, Trace};
use crate::subject::{Answer, Machine, Op, Subject, Verdict};

/// Checks D6: a bucket that is drained and then polled holds, at any later time, as much as one that was drained and
/// left alone, less the permits that the polls took. The number of steps of its refill does not matter.
///
/// `polls` are waits (in microseconds) and costs; they end when the other bucket is full.
///
/// # Errors
/// The two answers.
pub fn d6_refill_composes<S: Subject>(
    polled: &mut S,
    alone: &mut S,
    (capacity, start_us): (u64, u64),
    polls: &[(u64, u64)],
    later_us: u64,
) -> Check {
    let drained = [polled.acquire(capacity, start_us), alone.acquire(capacity, start_us)];
    require(drained.iter().all(Answer::is_allowed), || {
        format!("a fresh bucket is full: {drained:?}")
    })?;
    let (mut now_us, mut last_us, mut taken) = (start_us, start_us, 0);
    for &(wait_us, cost) in polls {
        let Some(poll_us) = within_time(now_us, wait_us) else { break };
        if alone.peek(capacity, poll_us).is_allowed() {
            break;
        }
        now_us = poll_us;
        if polled.acquire(cost, now_us).is_allowed() {
            (last_us, taken) = (now_us, taken + cost);
        }
    }
    if taken > 0 {
        let at_once = alone.acquire(taken, last_us);
        require(at_once.is_allowed(), || {
            format!("polls took {taken} until {last_us}; at once it is {at_once:?}")
        })?;
    }
    let then_us = within_time(now_us, later_us).unwrap_or(now_us);
    let answers = [polled.peek(capacity, then_us), alone.peek(capacity, then_us)];
    require(answers[0] == answers[1], || {
        format!("after polls that took {taken} until {last_us}, at {then_us}: {answers:?}")
    })
}

/// Checks D9: from its forget time on a record changes nothing. Every continuation equals a fresh key's.
///
/// # Errors
/// The first operation that a fresh key decides differently.
pub fn d9_a_forgettable_key_is_fresh(mut machine: Machine, trace: &Trace, then: &[Step]) -> Check {
    end(&mut machine, trace);
    let Some(forget_at_us) = machine.key.forget_at_us() else { return Ok(()) };
    if forget_at_us > MAX_TIME_US {
        return Ok(()); // no accepted time comes after it
    }
    let mut forgotten = machine.clone();
    forgotten.forget();
    agrees_with(&mut forgotten, &mut machine, &trace.continued(forget_at_us, then))
}

/// Checks D9: a key's memory is bounded by its configuration: a short text, eight requests, and for logs an entry for
/// each unit that the log with the longest window holds with its debt.
///
/// # Errors
/// The record that is too large.
pub fn d9_memory_is_bounded(machine: &mut Machine, trace: &Trace) -> Check {
    let parts = &trace.limits.parts;
    // For each part a tag and at most six numbers of up to 16 digits, and a tag before several; a block; a request is
    // an id, a letter, the reply for all parts, and five numbers more.
    let text_bytes_max = 3 + parts.len() * (3 + 6 * 17);
    let extras_bytes_max = 8 + 17 + 8 * (1 + 32 + 1 + (5 + 4 * parts.len()) * 17);
    let logs = parts.iter().filter(|part| part.kind == Kind::SlidingLog);
    let longest_us = logs.clone().map(|part| part.span_us).max();
    let longest = logs.filter(|part| Some(part.span_us) == longest_us);
    let units = longest.map(|part| part.amount).max().unwrap_or(0);
    let entries_max = if trace.adjusts() { units.saturating_mul(2) } else { units };
    trace.play(machine, |machine, op, now_us, _| {
        let texts = match machine.key.0.as_ref().map(Record::stored) {
            None => return Ok(()),
            Some(Stored::Text(text)) => vec![text],
            Some(Stored::List(texts)) => texts,
        };
        let entries = u64::try_from(texts.len() - 1).expect("few");
        let small = |text: &str| {
            let (state, extras) = text.split_at(text.find('|').unwrap_or(text.len()));
            state.len() <= text_bytes_max && extras.len() <= extras_bytes_max
        };
        // Entries are short, and in chunks if there are many.
        let small = small(&texts[0]);
        require(small && entries <= entries_max, || format!("{op:?} at {now_us} leaves {texts:?}"))
    })
}

/// Checks D10: after a forward jump that is taken back, a request waits at most for the jump longer than without the
/// step back.
///
/// # Errors
/// The two answers.
pub fn d10_a_step_back_stalls_no_longer_than_itself(
    subject: &mut impl Subject,
    trace: &Trace,
    (cost, back_us): (u64, u64),
) -> Check {
    let jumped_us = end(subject, trace);
    let back_us = back_us.min(jumped_us);
    let (ahead, behind) = (subject.peek(cost, jumped_us), subject.peek(cost, jumped_us - back_us));
    let held = match (wait_us(&ahead), wait_us(&behind)) {
        (Some(ahead_us), Some(behind_us)) => behind_us <= ahead_us + back_us,
        (ahead, behind) => ahead == behind,
    };
    require(held, || format!("at {jumped_us}: {ahead:?}; {back_us} before it: {behind:?}"))
}

/// Checks D10: the stored time never decreases. Seen from outside, the moment at which the key is fresh again never
/// comes closer, whatever the clock does.
///
/// # Errors
/// The operation that brought it closer.
pub fn d10_stored_time_never_decreases(subject: &mut impl Subject, trace: &Trace) -> Check {
    let mut fresh_us = 0;
    trace.play(subject, |subject, op, now_us, outcome| {
        if *op == Op::Reset {
            fresh_us = 0;
        }
        // At the epoch, before every stored time, the answer depends on the record alone.
        let after_us = subject.peek(1, 0).reset_after_us;
        let charged = !matches!(op, Op::Peek(_) | Op::ByPart { charges: false, .. })
            && outcome.answers().iter().any(Answer::is_allowed);
        let held = if charged { after_us >= fresh_us } else { after_us == fresh_us };
        require(held, || {
            format!("{op:?} ({:?}) at {now_us} moved it from {fresh_us} to {after_us}", costs(op))
        })?;
        fresh_us = after_us;
        Ok(())
    })
}

fn wait_us(answer: &Answer) -> Option<u64> {
    match answer.verdict {
        Verdict::Allowed => Some(0),
        Verdict::Denied { retry_after_us } => Some(retry_after_us),
        Verdict::Never => None,
    }
}
