//! Whether what a lock did breaks a law, and how.

use lockage_oracle::lock::laws::{Laws, Seen as Observed, Verdict};
use lockage_oracle::lock::{Action, Grant, Op, Outcome};

use super::Property;
use super::stage::Judge;
use super::step::{Deed, Event, Seen, Step, seconds};

/// For how long holds are remembered, and places in line last, in microseconds.
const SPAN_US: u64 = 60_000_000;

/// L1 to L5, and L9: what a lock has told breaks no law of the lock.
pub(super) fn obeys(law: Property) -> Judge {
    Box::new(move |_, events| {
        let (mut laws, mut acquires) = (Laws::default(), 0);
        events.iter().find_map(|event| {
            let verdict = observe(&mut laws, &mut acquires, event)?;
            let mut broken = verdict.broken.into_iter().filter(|broken| broken.property == law);
            broken.next().map(|broken| broken.what)
        })
    })
}

/// What a step comes to. What was not told was as it should be.
fn observe(laws: &mut Laws, acquires: &mut u128, event: &Event) -> Option<Verdict> {
    let Step::By(who, deed) = event.step else { return None };
    let (owner, now_us) = (u128::from(u32::from(who)), event.at_us);
    let mine = laws.live(now_us).filter(|(holder, _)| *holder == owner).map(|(_, grant)| grant);
    *acquires += 1;
    let (action, lease_us) = match deed {
        Deed::Lock(lease_us) | Deed::LineUp(lease_us) => {
            let waits_us = if matches!(deed, Deed::LineUp(_)) { SPAN_US } else { 0 };
            let (hold, not_after_us, in_line, label) = (*acquires, u64::MAX, true, None);
            (Action::Acquire { owner, hold, not_after_us, waits_us, in_line, label }, lease_us)
        }
        Deed::Renew(lease_us) => (Action::Renew { owner, token: None }, lease_us),
        Deed::Unlock => {
            let hold = mine.and_then(|_| laws.holds().last().copied()).unwrap_or(*acquires);
            (Action::Release { owner, hold }, 0)
        }
        Deed::Delete => {
            laws.deleted();
            return None;
        }
        _ => return None,
    };
    let outcome = match &event.seen {
        Seen::Held(told) => {
            let more = u64::from(matches!(action, Action::Acquire { .. }));
            let newest = laws.latest().map_or(0, |grant| grant.token);
            let deadline_us = mine.map_or(0, |grant| grant.deadline_us).max(now_us + lease_us);
            Outcome::Held(Grant {
                token: told.token.unwrap_or(mine.map_or(newest + 1, |grant| grant.token)),
                holds: told.holds.unwrap_or(mine.map_or(0, |grant| grant.holds) + more),
                deadline_us: told.until_us.unwrap_or(deadline_us),
            })
        }
        Seen::Released(holds) => {
            Outcome::Released { token: mine.map_or(0, |grant| grant.token), holds: *holds }
        }
        Seen::Refused => laws.refusal(owner, now_us),
        _ => return None,
    };
    let op = Op { action, lease_us, remember_us: SPAN_US };
    Some(laws.observe(&Observed { op, now_us, outcome, was_there: true, changed: None }))
}

/// L6: an owner that hears of its grant has the lock.
pub(super) fn l6(lease_us: u64) -> Judge {
    Box::new(move |_, events| {
        events.iter().enumerate().find_map(|(at, event)| {
            let (Step::By(who, Deed::Hear), Seen::Held(_)) = (event.step, &event.seen) else {
                return None;
            };
            let served = |event: &&Event| event.step == Step::By(who, Deed::Arrive);
            let until = events[..at].iter().rfind(served)?.at_us + lease_us;
            (until <= event.at_us)
                .then(|| format!("{who} counts on a lease that ended at {}", seconds(until)))
        })
    })
}

/// L8: a caller that asks when no other one has counted on the lock for a lease has it.
pub(super) fn l8(lease_us: u64) -> Judge {
    Box::new(move |_, events| {
        let (mut counting, mut quiet_from) = (Vec::new(), 0);
        for event in events {
            let Step::By(who, deed) = event.step else { continue };
            match deed {
                Deed::Lock(_) => {
                    let waited = event.at_us.saturating_sub(quiet_from);
                    let is_due = counting.is_empty() && waited >= lease_us;
                    if is_due && event.seen == Seen::Refused {
                        let waited = seconds(waited);
                        return Some(format!(
                            "nobody has counted on it for {waited}, and {who} is refused"
                        ));
                    }
                    // Whoever it is, it is somebody else's story from here on.
                    if event.seen != Seen::Refused {
                        return None;
                    }
                    continue;
                }
                Deed::GiveUp => counting.retain(|one| *one != who),
                Deed::Send => counting.push(who),
                _ => {}
            }
            quiet_from = event.at_us;
        }
        None
    })
}
