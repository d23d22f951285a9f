//! D11: a lost reply and a retry.

use super::decisions::{charged, end, within_time};
use super::{Check, require};
use crate::key::MAX_TIME_US;
use crate::strategies::{MAX_REMEMBER_US, Trace};
use crate::subject::{Op, Outcome, Subject};

/// How many admitted requests are remembered (K).
const REMEMBERED: usize = 8;

/// Two ids that no trace uses.
const IDS: [u128; 2] = [0xc0de, 0xc0de << 96];

/// Checks D11: while a request is remembered, its repetition gets the same answer, and no later decision differs.
///
/// `repeats` are the step before which each repetition is sent, the index among the requests that are then remembered,
/// and the distance from the step's time (in microseconds). The trace repeats nothing itself.
///
/// # Errors
/// The first operation that is answered differently.
pub fn d11_repeats_change_nothing(
    plain: &mut impl Subject,
    repeated: &mut impl Subject,
    trace: &Trace,
    repeats: &[(usize, usize, i64)],
) -> Check {
    let mut index = 0;
    let mut owed = Owed::default();
    trace.play(plain, |_, op, now_us, outcome| {
        owed.pass(now_us);
        for (_, which, shift_us) in repeats.iter().filter(|(before, ..)| *before == index) {
            let Some((request, told, until_us)) = owed.get(*which) else { break };
            let then_us = now_us.saturating_add_signed(*shift_us).min(until_us - 1);
            let then_us = then_us.min(MAX_TIME_US);
            let again = repeated.run(request, then_us);
            require(again == *told, || {
                format!("step {index}, {request:?} again at {then_us}: {again:?}, not {told:?}")
            })?;
        }
        index += 1;
        let seen = repeated.run(op, now_us);
        require(seen.decides_like(&outcome), || {
            format!("step {index}, {op:?} at {now_us}: {seen:?}, without repeats: {outcome:?}")
        })?;
        owed.learn(op, now_us, &outcome);
        Ok(())
    })
}

/// The latest admitted requests, each with its answer and until when it must be remembered, which ends for good once
/// the clock was past it.
#[derive(Debug, Default)]
struct Owed(Vec<(Op, Outcome, Option<u64>)>);

impl Owed {
    fn get(&self, which: usize) -> Option<(&Op, &Outcome, u64)> {
        let mut owed =
            self.0.iter().filter_map(|(op, told, until_us)| Some((op, told, (*until_us)?)));
        let count = owed.clone().count().max(1);
        owed.nth(which % count)
    }

    fn pass(&mut self, now_us: u64) {
        for (.., until_us) in &mut self.0 {
            *until_us = until_us.filter(|until_us| now_us < *until_us);
        }
    }

    fn learn(&mut self, op: &Op, now_us: u64, outcome: &Outcome) {
        match op {
            Op::Reset => self.0.clear(),
            Op::Request { remember_us, .. }
            | Op::ByPart { request: Some((_, remember_us)), .. }
            | Op::Adjust { request: Some((_, remember_us)), .. }
                if outcome.has_effect() =>
            {
                self.0.push((op.clone(), outcome.clone(), Some(now_us + remember_us)));
                let dropped = self.0.len().saturating_sub(REMEMBERED);
                self.0.drain(..dropped);
            }
            _ => {}
        }
    }
}

/// Checks D11: a denied request is not remembered. Its id counts as a new one, and is charged once when it is
/// admitted.
///
/// # Errors
/// The wrong answer.
pub fn d11_a_denied_id_is_a_new_attempt(
    denied: &mut impl Subject,
    fresh: &mut impl Subject,
    trace: &Trace,
) -> Check {
    let now_us = end(denied, trace);
    end(fresh, trace);
    let cost = denied.peek(1, now_us).remaining + 1;
    if cost > trace.limits.capacity() {
        return Ok(()); // all of it is left: nothing can be denied
    }
    let [request, other] = IDS.map(|id| Op::Request { cost, id, remember_us: MAX_REMEMBER_US });
    let first = denied.run(&request, now_us);
    require(charged(&request, now_us, &first).is_empty(), || {
        format!("{cost}, one more than remains at {now_us}, is {first:?}")
    })?;
    let retry_after_us = first.answers().first().and_then(|answer| answer.retry_after_us());
    let Some(retry_us) = within_time(now_us, retry_after_us.unwrap_or(u64::MAX)) else {
        return Ok(());
    };
    let expected = fresh.run(&other, retry_us);
    for attempt in ["second", "third"] {
        let seen = denied.run(&request, retry_us);
        require(seen == expected, || {
            format!("the {attempt} attempt, at {retry_us}: {seen:?}, not {expected:?}")
        })?;
    }
    peeks_agree(denied, fresh, retry_us)
}

/// Checks D11: a request is remembered for R, and its id is a new one afterwards.
///
/// # Errors
/// The wrong answer.
pub fn d11_after_r_an_id_is_new(
    again: &mut impl Subject,
    fresh: &mut impl Subject,
    trace: &Trace,
    (cost, remember_us): (u64, u64),
) -> Check {
    let now_us = end(again, trace);
    end(fresh, trace);
    let [request, other] = IDS.map(|id| Op::Request { cost, id, remember_us });
    let first = again.run(&request, now_us);
    fresh.run(&request, now_us);
    let Some(until_us) = within_time(now_us, remember_us) else { return Ok(()) };
    if charged(&request, now_us, &first).is_empty() {
        return Ok(());
    }
    let repeated = again.run(&request, until_us - 1);
    require(repeated == first, || {
        format!("remembered at {}: {repeated:?}, not {first:?}", until_us - 1)
    })?;
    peeks_agree(again, fresh, until_us - 1)?;
    let (seen, expected) = (again.run(&request, until_us), fresh.run(&other, until_us));
    require(seen == expected, || format!("new at {until_us}: {seen:?}, not {expected:?}"))?;
    peeks_agree(again, fresh, until_us)
}

/// Checks D11: a request is remembered until K others were admitted after it.
///
/// # Errors
/// The wrong answer.
pub fn d11_after_k_others_an_id_is_new(
    again: &mut impl Subject,
    fresh: &mut impl Subject,
    now_us: u64,
) -> Check {
    let request = |id| Op::Request { cost: 1, id, remember_us: 1_000_000 };
    let first = again.run(&request(0), now_us);
    fresh.run(&request(0), now_us);
    for id in 1..=REMEMBERED as u128 {
        let repeated = again.run(&request(0), now_us);
        require(repeated == first, || format!("before {id}: {repeated:?}, not {first:?}"))?;
        let admitted = again.run(&request(id), now_us);
        fresh.run(&request(id), now_us);
        if charged(&request(id), now_us, &admitted).is_empty() {
            return Ok(()); // the limit is too small for this many
        }
    }
    let (seen, expected) = (again.run(&request(0), now_us), fresh.run(&request(IDS[0]), now_us));
    require(seen == expected, || format!("after {REMEMBERED}: {seen:?}, not {expected:?}"))?;
    peeks_agree(again, fresh, now_us)
}

/// Checks D11: without an id, a retry admits less by at most its cost, and never more.
///
/// # Errors
/// The wrong remainder.
pub fn d11_without_an_id_a_retry_costs_itself(
    once: &mut impl Subject,
    twice: &mut impl Subject,
    trace: &Trace,
    (cost, wait_us, later_us): (u64, u64, u64),
) -> Check {
    let now_us = end(once, trace);
    end(twice, trace);
    let retry_us = within_time(now_us, wait_us).unwrap_or(now_us);
    let then_us = within_time(retry_us, later_us).unwrap_or(retry_us);
    once.acquire(cost, now_us);
    twice.acquire(cost, now_us);
    let retry = twice.acquire(cost, retry_us);
    let charge = if retry.is_allowed() { cost } else { 0 };
    let (most, least) = (once.peek(1, then_us).remaining, twice.peek(1, then_us).remaining);
    require(least <= most && most - least <= charge, || {
        format!(
            "{cost} at {now_us}, again at {retry_us} ({retry:?}): at {then_us} {least} remain of {most}"
        )
    })
}

fn peeks_agree(one: &mut impl Subject, other: &mut impl Subject, now_us: u64) -> Check {
    let (seen, expected) = (one.peek(1, now_us), other.peek(1, now_us));
    require(seen == expected, || format!("a peek at {now_us} is {seen:?}, not {expected:?}"))
}
