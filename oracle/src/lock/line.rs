//! L9, stated over what clients of a lock see.

use super::transcript::Seen;
use super::{Action, Outcome};
use crate::properties::Check;

/// L9: a waiter in line that polls within its span is never passed over; a dead one costs at most one and a
/// half of its span after its last poll; and the live holder's re-entry is granted whoever waits.
///
/// A client does not know for how long beyond its span a place is kept, so each has two stories: that it was kept
/// for no longer, and that it was kept for as long as may be. Nobody is passed over by both of them.
pub(super) fn l9_in_line(transcript: &[Seen]) -> Check {
    let mut line: Vec<Waiter> = Vec::new();
    for (index, seen) in transcript.iter().enumerate() {
        let now_us = seen.now_us;
        for waiter in &mut line {
            waiter.is_sure &= now_us < waiter.sure_us;
        }
        match seen.op.action {
            // A place that has ended is not given up: it is back where the clock steps back.
            Action::Withdraw { owner } => {
                line.retain(|waiter| waiter.owner != owner || !waiter.is_sure);
            }
            Action::Acquire { owner, waits_us, in_line, .. } => {
                let asker = line.iter().find(|waiter| waiter.owner == owner).copied();
                acquire(seen, owner, asker, &line)?;
                let span_us = if in_line { waits_us } else { 0 };
                match seen.outcome {
                    Outcome::Held(_) if seen.changed => line.retain(|waiter| waiter.owner != owner),
                    Outcome::Refused(_) | Outcome::Queued { .. } if span_us > 0 => {
                        line.retain(|waiter| waiter.owner != owner);
                        line.push(Waiter::asked(asker, owner, index, now_us, span_us));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        let counted =
            |is_there: &dyn Fn(&&Waiter) -> bool| line.iter().filter(is_there).count() as u64;
        let (least, most) = (counted(&|one| one.is_sure), counted(&|one| now_us < one.most_us));
        if !(least..=most).contains(&seen.queued) {
            return seen.wrong(&format!("{least} to {most} wait in line"));
        }
    }
    Ok(())
}

/// Checks one acquire of an owner, who may be in line.
fn acquire(seen: &Seen, owner: u128, asker: Option<Waiter>, line: &[Waiter]) -> Check {
    let now_us = seen.now_us;
    let others = || line.iter().filter(|waiter| waiter.owner != owner);
    // Since when the asker is in line at the earliest and at the latest.
    let asker = asker.filter(|asker| now_us < asker.most_us);
    let earliest = asker.map_or(usize::MAX, |asker| asker.earliest);
    let latest = asker.filter(|asker| asker.is_sure).map_or(usize::MAX, |asker| asker.latest);
    let surely_before = others().filter(|one| one.is_sure && one.latest < earliest);
    let maybe_before = others().filter(|one| now_us < one.most_us && one.earliest < latest);
    match (seen.before, &seen.outcome) {
        _ if seen.remembered.is_some() || seen.repeats => Ok(()),
        (None, Outcome::Held(_)) => match surely_before.clone().next() {
            Some(passed) => seen.wrong(&format!("{passed:?} was passed over")),
            None => Ok(()),
        },
        (None, Outcome::Queued { ahead, until_us }) => {
            let latest_us = maybe_before.clone().map(|one| one.most_us).max();
            let range = surely_before.count() as u64..=maybe_before.count() as u64;
            match latest_us.is_some_and(|latest_us| (now_us + 1..=latest_us).contains(until_us)) {
                true if *ahead > 0 && range.contains(ahead) => Ok(()),
                _ => seen.wrong(&format!("it is free, and {range:?} are before it")),
            }
        }
        (None, Outcome::Refused(_)) => seen.wrong("it is free, and nobody is said to be next"),
        (Some((holder, _)), Outcome::Refused(_) | Outcome::Queued { .. }) if holder == owner => {
            seen.wrong("the holder was refused")
        }
        (Some(_), Outcome::Queued { .. }) => {
            seen.wrong("it is held, and somebody is said to be next")
        }
        _ => Ok(()),
    }
}

/// Who waits in line.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    owner: u128,
    /// Which operation began the wait, if places were kept for no longer than is promised.
    latest: usize,
    /// The same, if they were kept for as long as may be.
    earliest: usize,
    /// Until when the place is sure to be kept.
    sure_us: u64,
    /// Until when it can be kept.
    most_us: u64,
    /// Whether no time after the sure one was seen.
    is_sure: bool,
}

impl Waiter {
    fn asked(before: Option<Waiter>, owner: u128, index: usize, now_us: u64, span_us: u64) -> Self {
        let (sure_us, most_us) = (now_us + span_us, now_us + span_us + span_us / 2);
        let known = before.filter(|before| now_us < before.most_us);
        let sure = before.filter(|before| before.is_sure);
        Waiter {
            owner,
            latest: sure.map_or(index, |sure| sure.latest),
            earliest: known.map_or(index, |known| known.earliest),
            sure_us: sure.map_or(sure_us, |sure| sure.sure_us.max(sure_us)),
            most_us: known.map_or(most_us, |known| known.most_us.max(most_us)),
            is_sure: true,
        }
    }
}
