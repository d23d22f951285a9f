//! D1 to D5, D7 and D8: the fields of one decision, and its side effects.

use super::{Check, require};
use crate::config::Config;
use crate::exact::{Gcra, Reference};
use crate::key::MAX_TIME_US;
use crate::strategies::{Step, Trace};
use crate::subject::{Adjustment, Answer, Op, Outcome, Subject, Verdict};

/// Checks D1: every decision, with all its fields, equals the reference's.
///
/// # Errors
/// The first operation on which they differ.
pub fn d1_equals_the_reference(subject: &mut impl Subject, trace: &Trace) -> Check {
    agrees_with(&mut Reference::new(&trace.limits), subject, trace)
}

/// Checks D1 in its narrow sense: a request is denied exactly when the reference denies it.
///
/// # Errors
/// The first operation on which they differ.
pub fn d1_denies_as_the_reference(subject: &mut impl Subject, trace: &Trace) -> Check {
    let admitted = |outcome: &Outcome| -> Option<(Vec<bool>, u64)> {
        let decided = outcome.answers().iter().map(Answer::is_allowed).collect();
        match outcome {
            Outcome::Refused(_) => None,
            Outcome::Adjusted { amount, .. } => Some((decided, *amount)),
            _ => Some((decided, 0)),
        }
    };
    let mut step = 0;
    trace.play(&mut Reference::new(&trace.limits), |_, op, now_us, outcome| {
        step += 1;
        let seen = subject.run(op, now_us);
        require(admitted(&seen) == admitted(&outcome), || {
            format!("step {step}, {op:?} at {now_us}: {seen:?} where {outcome:?} is right")
        })
    })
}

/// Checks D7: the token bucket decides as the generic cell rate algorithm does.
///
/// # Errors
/// The first operation on which they differ.
pub fn d7_gcra_decides_alike(subject: &mut impl Subject, trace: &Trace) -> Check {
    agrees_with(&mut Gcra::reference(trace.limits.only()), subject, trace)
}

/// Checks that every outcome of `subject` equals that of `expected`, whose answers the trace follows.
///
/// # Errors
/// The first operation on which they differ.
pub fn agrees_with(
    expected: &mut impl Subject,
    subject: &mut impl Subject,
    trace: &Trace,
) -> Check {
    let mut step = 0;
    trace.play(expected, |_, op, now_us, outcome| {
        step += 1;
        let seen = subject.run(op, now_us);
        require(seen.decides_like(&outcome), || {
            format!("step {step}, {op:?} at {now_us}: {seen:?} where {outcome:?} is right")
        })
    })
}

/// Checks D2: without other consumers, a denied request is admitted at `now + retry_after`, and denied one microsecond
/// before. A cost above the capacity is never admitted.
///
/// # Errors
/// The wrong answer.
pub fn d2_retry_after_is_minimal(subject: &mut impl Subject, trace: &Trace, cost: u64) -> Check {
    let now_us = end(subject, trace);
    let answer = subject.peek(cost, now_us);
    let never = cost > trace.limits.capacity();
    require((answer.verdict == Verdict::Never) == never, || {
        format!("{cost} of at most {} is {answer:?}", trace.limits.capacity())
    })?;
    let Verdict::Denied { retry_after_us } = answer.verdict else { return Ok(()) };
    require(retry_after_us > 0, || {
        format!("{cost} is denied at {now_us} with nothing to wait for")
    })?;
    let Some(retry_us) = within_time(now_us, retry_after_us) else { return Ok(()) };
    let before = subject.peek(cost, retry_us - 1);
    require(before.verdict == Verdict::Denied { retry_after_us: 1 }, || {
        format!("{cost} at {now_us} is to wait for {retry_after_us}; one tick before: {before:?}")
    })?;
    let then = subject.acquire(cost, retry_us);
    require(then.is_allowed(), || {
        format!("{cost} at {now_us} is to wait for {retry_after_us}; then: {then:?}")
    })
}

/// Checks D3: a log's `retry_after` is the expiry of the smallest prefix of its entries that frees enough.
///
/// # Errors
/// The first denial with another one.
pub fn d3_retry_after_frees_a_prefix(subject: &mut impl Subject, trace: &Trace) -> Check {
    let Config { span_us, amount: limit, .. } = *trace.limits.only();
    let mut entries: Vec<(u64, u64)> = Vec::new();
    trace.play(subject, |_, op, raw_us, outcome| {
        if *op == Op::Reset {
            entries.clear();
        }
        for (cost, answer) in costs(op).iter().zip(outcome.answers()) {
            let now_us = entries.last().map_or(raw_us, |(last, _)| raw_us.max(*last));
            let live = entries.iter().filter(|(time, _)| now_us < time + span_us);
            let used: u64 = live.clone().map(|(_, cost)| cost).sum();
            if let Verdict::Denied { retry_after_us } = answer.verdict {
                let mut left = used;
                let freed = live.clone().find(|(_, freed)| {
                    left -= freed;
                    left + cost <= limit
                });
                let expected = freed.map(|(time, _)| time + span_us - raw_us);
                require(expected == Some(retry_after_us), || {
                    format!("{op:?} at {raw_us} is to wait for {retry_after_us}, not {expected:?}")
                })?;
            }
            if answer.is_allowed() && !matches!(op, Op::Peek(_)) {
                entries.push((now_us, *cost));
            }
        }
        Ok(())
    })
}

/// Checks D4: `remaining` fits and one more does not, `limit` is the capacity, and a peek is an acquire without the
/// charge.
///
/// # Errors
/// The wrong answer.
pub fn d4_remaining_is_exact(subject: &mut impl Subject, trace: &Trace, cost: u64) -> Check {
    let now_us = end(subject, trace);
    let peeked = subject.peek(cost, now_us);
    let (limit, remaining) = (peeked.limit, peeked.remaining);
    let capacity = trace.limits.capacity();
    require(limit == capacity, || format!("the limit is {limit}, the capacity {capacity}"))?;
    let fits = remaining == 0 || subject.peek(remaining, now_us).is_allowed();
    require(fits, || format!("{remaining} remain at {now_us} and do not fit"))?;
    let too_much = subject.peek(remaining + 1, now_us);
    require(!too_much.is_allowed(), || {
        format!("{remaining} remain at {now_us} and one more fits")
    })?;

    let acquired = subject.acquire(cost, now_us);
    let charge = if acquired.is_allowed() { cost } else { 0 };
    let same = acquired.verdict == peeked.verdict
        && Some(acquired.remaining) == remaining.checked_sub(charge);
    require(same, || format!("at {now_us} a peek of {cost} is {peeked:?}, an acquire {acquired:?}"))
}

/// Checks D4: at `now + reset_after` the key acts as a fresh one does, whatever follows, and not one microsecond
/// before. (A log that gave something back may be as if fresh before.) In a composite, all limits are as if fresh then,
/// and one is not before.
///
/// # Errors
/// The difference, or that there was none too early.
pub fn d4_reset_after_is_exact<S: Subject>(
    subject: &mut S,
    mut fresh: S,
    trace: &Trace,
    then: &[Step],
) -> Check {
    let operations = trace.resolve(subject);
    let now_us = operations.last().map_or(trace.start_us, |(_, now_us)| *now_us);
    let now = subject.peek(1, now_us);
    let Some(fresh_us) = within_time(now_us, now.reset_after_us) else { return Ok(()) };
    let is_used = |answer: &Answer| {
        answer.blocked || answer.each().iter().any(|(limit, remaining)| remaining < limit)
    };
    // With adjustments, a step back may have to wait for the stored time alone.
    let stepped_back = operations.iter().any(|(_, time_us)| *time_us > now_us);
    // A full bucket may be warm, which the references know and its numbers do not show.
    let early = trace.gives_back() && trace.limits.has_log()
        || trace.adjusts() && stepped_back
        || trace.limits.has_warmup();
    if now.reset_after_us > 0 && !early {
        let before = subject.peek(1, fresh_us - 1);
        require(is_used(&before), || format!("as fresh at {} already: {before:?}", fresh_us - 1))?;
    }
    agrees_with(&mut fresh, subject, &trace.continued(fresh_us, then))
}

/// Checks D5: peeks and denied requests, inserted before any step and at any time, change no later decision.
///
/// `probes` are the step before which each probe is made, its distance from the step's time (in microseconds), and its
/// cost.
///
/// # Errors
/// The first operation that is decided differently.
pub fn d5_probes_are_transparent<S: Subject>(
    mut plain: S,
    probed: &mut S,
    trace: &Trace,
    probes: &[(usize, i64, u64)],
) -> Check {
    let mut index = 0;
    trace.play(&mut plain, |_, op, now_us, outcome| {
        for (_, shift_us, cost) in probes.iter().filter(|(before, ..)| *before == index) {
            let probe_us = now_us.saturating_add_signed(*shift_us).min(MAX_TIME_US);
            let remaining = probed.peek(*cost, probe_us).remaining;
            let denied = probed.acquire(remaining + 1, probe_us);
            require(!denied.is_allowed(), || {
                format!("{remaining} remained at {probe_us}: {denied:?}")
            })?;
        }
        index += 1;
        let seen = probed.run(op, now_us);
        require(seen.decides_like(&outcome), || {
            format!(
                "step {index}, {op:?} at {now_us}, after probes: {seen:?}, without: {outcome:?}"
            )
        })
    })
}

/// Checks D8: in one state less cost, more tokens or more time never turns an admission into a denial.
///
/// `more` and `less` are equal keys; `spent` is charged to `less` alone.
///
/// # Errors
/// The request that only the other key admits.
pub fn d8_monotone_in_one_state<S: Subject>(
    more: &mut S,
    less: &mut S,
    trace: &Trace,
    (cost, spent, later_us): (u64, u64, u64),
) -> Check {
    let now_us = end(more, trace);
    end(less, trace);
    less.acquire(spent, now_us);
    let then_us = now_us.saturating_add(later_us).min(MAX_TIME_US);
    let cheaper = cost.div_ceil(2);
    let answers: Vec<Answer> = vec![
        less.peek(cost, now_us),
        less.peek(cost, then_us),
        more.peek(cost, then_us),
        more.peek(cheaper, then_us),
    ];
    let ordered = answers.windows(2).all(|pair| !pair[0].is_allowed() || pair[1].is_allowed());
    require(ordered, || format!("{cost} at {now_us} and {then_us}: {answers:?}"))
}

/// Plays the trace, and returns the time at its end.
pub(super) fn end(subject: &mut impl Subject, trace: &Trace) -> u64 {
    let operations = trace.resolve(subject);
    operations.last().map_or(trace.start_us, |(_, now_us)| *now_us)
}

/// Returns the costs of an operation, in the order of its answers.
pub(super) fn costs(op: &Op) -> Vec<u64> {
    match op {
        Op::Acquire(cost)
        | Op::Request { cost, .. }
        | Op::TakeTurn { cost, .. }
        | Op::Peek(cost) => vec![*cost],
        Op::AcquireEach(costs) => costs.clone(),
        Op::ByPart { .. } | Op::CancelTurn(_) | Op::Adjust { .. } | Op::Change(_) | Op::Reset => {
            Vec::new()
        }
    }
}

/// Returns `now + wait`, if the machines take that time.
pub(super) fn within_time(now_us: u64, wait_us: u64) -> Option<u64> {
    now_us.checked_add(wait_us).filter(|time_us| *time_us <= MAX_TIME_US)
}

/// Returns the times and costs that an outcome admitted to the part at this place, as [`charged`] does. A cost of zero
/// has its time: the part has seen it (D10).
pub(super) fn charged_part(
    op: &Op,
    now_us: u64,
    outcome: &Outcome,
    place: usize,
) -> Vec<(u64, i128)> {
    if let (
        Op::Adjust { adjustment: Adjustment::Refund(cost), .. },
        Outcome::Adjusted { amount, .. },
    ) = (op, outcome)
    {
        return vec![(now_us, -i128::from(cost.of_part(place).min(*amount)))];
    }
    let Op::ByPart { cost, charges, .. } = op else { return charged(op, now_us, outcome) };
    let is_charged = *charges && outcome.answers().iter().any(Answer::is_allowed);
    if is_charged { vec![(now_us, cost.of_part(place).into())] } else { Vec::new() }
}

/// Returns the times and costs that an outcome admitted; negative for refunds. A penalty admits nothing.
pub(super) fn charged(op: &Op, now_us: u64, outcome: &Outcome) -> Vec<(u64, i128)> {
    match (op, outcome) {
        (Op::Peek(_), _) => Vec::new(),
        (Op::Adjust { adjustment, .. }, Outcome::Adjusted { amount, .. }) => match adjustment {
            _ if *amount == 0 => Vec::new(),
            Adjustment::TakeUpTo(_) => vec![(now_us, i128::from(*amount))],
            Adjustment::Refund(_) => vec![(now_us, -i128::from(*amount))],
            Adjustment::Penalty(_) | Adjustment::Block(_) | Adjustment::Unblock => Vec::new(),
        },
        _ => {
            let decided = costs(op).into_iter().zip(outcome.answers());
            let admitted = decided.filter(|(_, answer)| answer.is_allowed());
            admitted.map(|(cost, _)| (now_us, i128::from(cost))).collect()
        }
    }
}
