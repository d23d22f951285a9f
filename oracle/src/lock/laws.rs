//! L1 to L5, L9 and L10, each stated over what clients of a lock see, and D9 for its record. The same
//! checks are put to the Rust machine, to the scripts in a store that drops expired keys, and to
//! broken scripts.

use std::collections::BTreeMap;

use lockage_core::Record;

use super::line::l9_in_line;
use super::transcript::{Live, Seen, watch};
use super::{Action, OnKey, Outcome, Subject, Trace};
use crate::key::{Holds, MAX_TIME_US};
use crate::properties::{Check, require};
use crate::subject::Failure;

/// A law of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// At most one live lease.
    L1,
    /// Holds are counted.
    L2,
    /// Only the owner renews and releases.
    L3,
    /// Leases only grow.
    L4,
    /// Tokens increase.
    L5,
    /// Nobody who waits in line is passed over.
    L9,
    /// Repetitions are idle.
    L10,
}

impl Law {
    /// Checks the law on what a trace does to a fresh lock.
    ///
    /// # Errors
    /// The first operation that breaks it, and what could be seen of it.
    pub fn check(self, lock: &mut OnKey<impl Holds>, trace: &Trace) -> Check {
        let transcript = watch(lock, trace)?;
        match self {
            Law::L1 => l1_one_live_lease(&transcript),
            Law::L2 => l2_holds_are_counted(&transcript),
            Law::L3 => l3_only_the_owner(&transcript),
            Law::L4 => l4_leases_only_grow(&transcript),
            Law::L5 => l5_tokens_increase(&transcript),
            Law::L9 => l9_in_line(&transcript),
            Law::L10 => l10_repetitions_are_idle(&transcript),
        }
    }
}

/// L1: at most one live lease at any time of the store. A lease runs from its grant to the latest
/// deadline that its owner was told, unless it was given back or broken; it is over when another
/// one was granted after its deadline, also if the clock then steps back.
fn l1_one_live_lease(transcript: &[Seen]) -> Check {
    // By token: the owner, and the deadline.
    let mut leases: BTreeMap<u64, (u128, u64)> = BTreeMap::new();
    for seen in transcript {
        if !seen.sure {
            leases = lease(seen.before).into_iter().collect();
        }
        if let Some(grant) = seen.news() {
            match seen.op.action {
                Action::Acquire { owner, .. } | Action::Renew { owner, .. } => {
                    let fresh = !leases.contains_key(&grant.token);
                    let beside = |&(&token, &(_, deadline_us)): &(&u64, &(u128, u64))| {
                        token != grant.token && seen.now_us < deadline_us
                    };
                    if leases.iter().any(|lease| beside(&lease)) {
                        return seen.wrong("a second lease lives");
                    }
                    if leases.get(&grant.token).is_some_and(|(holder, _)| *holder != owner) {
                        return seen.wrong("two owners have one grant");
                    }
                    if fresh {
                        leases.clear();
                    }
                    leases.insert(grant.token, (owner, grant.deadline_us));
                }
                Action::Release { .. } if grant.holds > 0 => {}
                Action::Release { .. } | Action::ForceRelease { .. } => {
                    leases.remove(&grant.token);
                }
                Action::Withdraw { .. } | Action::Inspect => {
                    return seen.wrong("who asks for nothing got something");
                }
            }
        }
        let mut live = leases.iter().filter(|(_, (_, deadline_us))| seen.now_us < *deadline_us);
        let live = live.next().map(|(&token, &(owner, _))| (token, owner));
        if live != seen.after.map(|(owner, grant)| (grant.token, owner)) {
            return seen.wrong("the lock shows another lease than its clients have");
        }
    }
    Ok(())
}

/// L2: holds are the acquires less the releases of that owner, and the lock is free exactly at 0,
/// after its lease, or after a forced release. A renewal changes the deadline only.
fn l2_holds_are_counted(transcript: &[Seen]) -> Check {
    let mut counted: Live = None;
    for seen in transcript {
        let now_us = seen.now_us;
        if !seen.sure {
            counted = seen.before;
        }
        let live = counted.filter(|(_, grant)| grant.holds > 0 && now_us < grant.deadline_us);
        if live != seen.before {
            return seen.wrong(&format!("before it, {live:?} is counted"));
        }
        if let Some(told) = seen.news() {
            let lease_end_us = now_us + seen.op.lease_us;
            let mut next = live.map_or(told, |(_, grant)| grant);
            let owner = match seen.op.action {
                Action::Acquire { owner, .. } => {
                    next.holds = live.map_or(1, |(_, grant)| grant.holds + 1);
                    next.deadline_us =
                        live.map_or(lease_end_us, |(_, grant)| grant.deadline_us.max(lease_end_us));
                    owner
                }
                Action::Renew { owner, .. } => {
                    next.deadline_us = next.deadline_us.max(lease_end_us);
                    owner
                }
                Action::Release { owner, .. } => {
                    next.holds = next.holds.saturating_sub(1);
                    owner
                }
                Action::ForceRelease { .. } | Action::Withdraw { .. } | Action::Inspect => {
                    next.holds = 0;
                    0
                }
            };
            next.deadline_us = if next.holds == 0 { 0 } else { next.deadline_us };
            if (told.holds, told.deadline_us) != (next.holds, next.deadline_us) {
                return seen.wrong(&format!("{next:?} is counted"));
            }
            counted = Some((owner, told));
        }
        if seen.after != counted.filter(|(_, grant)| grant.holds > 0 && now_us < grant.deadline_us)
        {
            return seen.wrong(&format!("after it, {counted:?} is counted"));
        }
    }
    Ok(())
}

/// L3: a renewal, a release or a forced release is done exactly where the owner, the hold and the grant that
/// it names are the live ones; else it changes nothing and says who holds the lock.
fn l3_only_the_owner(transcript: &[Seen]) -> Check {
    for seen in transcript {
        let of = |owner, token: Option<u64>| {
            seen.before.is_some_and(|(holder, grant)| {
                holder == owner && token.is_none_or(|token| token == grant.token)
            })
        };
        let right = match seen.op.action {
            Action::Renew { owner, token } => of(owner, token),
            Action::Release { owner, .. } => match (of(owner, None), seen.names_live) {
                (false, _) => false,
                (true, Some(is_live)) => is_live,
                // Its client does not know either.
                (true, None) => matches!(seen.outcome, Outcome::Released { .. }),
            },
            Action::ForceRelease { token } => {
                seen.before.is_some_and(|(_, grant)| grant.token == token)
            }
            Action::Acquire { .. } | Action::Withdraw { .. } | Action::Inspect => continue,
        };
        let held = match seen.outcome {
            _ if seen.repeats => true,
            // A renewal at the time of the one before has nothing to change.
            Outcome::Held(grant) => {
                right && (seen.changed || Some(grant) == seen.before.map(|(_, grant)| grant))
            }
            Outcome::Released { .. } => right && seen.changed,
            Outcome::Refused(holder) => !right && !seen.changed && holder == seen.before,
            _ => false,
        };
        if !held {
            return seen.wrong(if right {
                "the owner was refused"
            } else {
                "somebody else was served"
            });
        }
    }
    Ok(())
}

/// L4: no operation but the last release or a forced one ends or shortens a live lease, and no
/// renewal brings an expired one back.
fn l4_leases_only_grow(transcript: &[Seen]) -> Check {
    // By token: the latest deadline that was told.
    let mut told: BTreeMap<u64, u64> = BTreeMap::new();
    for seen in transcript {
        if !seen.sure {
            told = lease(seen.before)
                .into_iter()
                .map(|(token, (_, deadline_us))| (token, deadline_us))
                .collect();
        }
        let mut freed = false;
        if let Some(grant) = seen.news() {
            freed = grant.holds == 0;
            let before_us = told.get(&grant.token).copied();
            if let (Action::Renew { .. }, true) =
                (seen.op.action, before_us.is_none_or(|end_us| end_us <= seen.now_us))
            {
                return seen.wrong("a lease that is over was renewed");
            }
            if !freed && before_us.is_some_and(|before_us| grant.deadline_us < before_us) {
                return seen.wrong("a lease was shortened");
            }
            told.insert(grant.token, grant.deadline_us);
        }
        let end_us = |live: Live| live.map_or(0, |(_, grant)| grant.deadline_us);
        if !freed && end_us(seen.after) < end_us(seen.before) {
            return seen.wrong("a live lease was shortened or ended");
        }
    }
    Ok(())
}

/// L5: the token strictly increases with every fresh grant, while the record is there or the clock
/// has not gone back past the last token, also after the key expired; nothing else changes it.
fn l5_tokens_increase(transcript: &[Seen]) -> Check {
    let mut last = 0;
    for seen in transcript {
        let Some(told) = seen.news() else { continue };
        match (seen.op.action, seen.before) {
            (Action::Acquire { .. }, None) => {
                if (seen.sure || seen.now_us > last) && told.token <= last {
                    return seen.wrong(&format!("a fresh grant has no token above {last}"));
                }
                last = told.token;
            }
            (_, Some((_, live))) if told.token != live.token => {
                return seen.wrong("the token of a live grant changed");
            }
            _ => {}
        }
    }
    Ok(())
}

/// L10: an acquire that is sent again while its hold is live changes nothing and is told the grant as it stands, and
/// is refused once it has ended; a release that is sent again ends no other hold (that is L3), and gets the same
/// answer; both while the hold is one of the last four that ended, and before the record may be dropped. Nothing is
/// granted after `not_after`, so that what is no longer remembered grants no more than that.
fn l10_repetitions_are_idle(transcript: &[Seen]) -> Check {
    for seen in transcript {
        if let Some(right) = &seen.remembered
            && (seen.changed || seen.outcome != *right)
        {
            return seen.wrong("it is remembered, and was done again or answered otherwise");
        }
        let is_done = matches!(seen.outcome, Outcome::Held(_) | Outcome::Released { .. });
        let is_renewal = matches!(seen.op.action, Action::Renew { .. });
        if is_done && !seen.changed && !seen.repeats && !is_renewal {
            return seen.wrong("it is said to be done, and nothing was");
        }
        if !is_done && seen.changed {
            return seen.wrong("it was not done, and something was");
        }
        if let Action::Acquire { not_after_us, .. } = seen.op.action {
            let late = seen.now_us > not_after_us;
            let answered = seen.remembered.is_some() || seen.repeats;
            if seen.changed && late || !answered && late != (seen.outcome == Outcome::TooLate) {
                return seen.wrong("an acquire is granted until its `not_after`, and not after it");
            }
        }
    }
    Ok(())
}

/// D9: from the moment at which the record may be forgotten, one that was dropped and one that was
/// kept act alike, also for operations that were sent before. `kept` and `dropped` are two fresh
/// locks.
///
/// # Errors
/// The first operation on which they differ.
pub fn d9_a_forgettable_lock_is_fresh<K: Holds>(
    (kept, dropped): (&mut OnKey<K>, &mut OnKey<K>),
    trace: &Trace,
    then: &Trace,
) -> Check {
    trace.play(kept, |_, op, now_us, expected, _| {
        let seen = dropped.run(op, now_us);
        require(seen == expected, || format!("{op:?} at {now_us} is {seen:?} and {expected:?}"))
    })?;
    let Some((stored, _)) = kept.0.held() else { return Ok(()) };
    let record =
        Record::read(&stored).map_err(|error| Failure::new(format!("{stored:?}: {error}")))?;
    let forget_us = record.forget_at().as_micros();
    if forget_us > MAX_TIME_US {
        return Ok(()); // no accepted time comes after it
    }
    dropped.forget();
    let then = Trace { start_us: forget_us, backwards: false, steps: then.steps.clone() };
    then.play(dropped, |_, op, now_us, expected, _| {
        let seen = kept.run(op, now_us);
        require(seen == expected, || {
            format!("{op:?} at {now_us}: {seen:?}, when dropped {expected:?}")
        })
    })
}

fn lease(live: Live) -> Option<(u64, (u128, u64))> {
    live.map(|(owner, grant)| (grant.token, (owner, grant.deadline_us)))
}
