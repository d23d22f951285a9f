//! Judges of limiters: each one reports whether a trace breaks a property, or one of a few alike,
//! and how.

use std::collections::BTreeMap;

use lockage_core::Limit;
use lockage_oracle::envelope::{bound_of_all, excess};
use lockage_oracle::ledger::Ledger;

use super::stage::Judge;
use super::step::{Deed, Event, Seen, Step, Timed, seconds};
use super::subject::Clocks;

/// E1 to E5: no interval holds more than the envelope of `spec`.
pub(super) fn envelopes(spec: &'static str) -> Judge {
    within_envelope(spec, &[])
}

/// D10: no interval holds more than the envelope of `spec`, where the clocks of clients are ahead
/// by these microseconds. Time is the latest time that the key has seen.
pub(super) fn d10(spec: &'static str, clocks: Clocks) -> Judge {
    within_envelope(spec, clocks)
}

fn within_envelope(spec: &'static str, clocks: Clocks) -> Judge {
    let limit = limit(spec);
    Box::new(move |_, events| {
        let mut latest = 0;
        let mut charged: Vec<(u64, i128)> = Vec::new();
        for event in events {
            let cost = match (&event.seen, event.cost()) {
                (Seen::Admitted { .. }, Some(cost)) => i128::from(cost),
                (Seen::AdmittedOf(times), _) => i128::from(*times),
                (Seen::GivenBack(cost), _) => -i128::from(*cost),
                _ => continue,
            };
            latest = clock_of(event, clocks).max(latest);
            charged.push((latest, cost));
            let most = |length_us| bound_of_all(&limit, length_us);
            if let Some(over) = excess(charged.iter().rev().copied(), most) {
                let span = match over.length_us - 1 {
                    0 => "at once".to_owned(),
                    span => format!("within {}", seconds(span)),
                };
                let (admitted, most) = (over.admitted, over.most);
                return Some(format!("{admitted} are admitted {span}, and {most} may be"));
            }
        }
        None
    })
}

fn clock_of(event: &Event, clocks: &[(char, i64)]) -> u64 {
    let Step::By(who, _) = event.step else { return event.at_us };
    let ahead = clocks.iter().find(|(client, _)| *client == who).map_or(0, |(_, ahead)| *ahead);
    event.at_us.saturating_add_signed(ahead)
}

/// D1, and for a bucket D7: the store decides each request as the reference does.
pub(super) fn as_reference(spec: &'static str) -> Judge {
    let limit = limit(spec);
    Box::new(move |_, events| {
        let mut ledger = Ledger::new(&limit);
        events.iter().find_map(|event| {
            match (event.is_admitted(), ledger.decide(event.cost()?, event.at_us)) {
                (false, true) => Some("it is denied, and the reference admits it".to_owned()),
                (true, false) => Some("it is admitted, and the reference denies it".to_owned()),
                _ => None,
            }
        })
    })
}

/// D2: a denied request is admitted at `retry_after`, and not a microsecond sooner.
pub(super) fn d2() -> Judge {
    Box::new(|stage, events| {
        events.iter().enumerate().find_map(|(at, event)| {
            let Seen::Denied { retry_after_us: Some(after) } = event.seen else { return None };
            let again_after = |us: u64| {
                let before = events[..at].iter().map(Event::timed);
                let trace: Vec<Timed> = before.chain([(event.at_us + us, event.step)]).collect();
                stage.last_of(&trace)
            };
            if !matches!(again_after(after)?, Seen::Admitted { .. }) {
                return Some(format!("{} later it is still denied", seconds(after)));
            }
            let is_late = matches!(again_after(after.checked_sub(1)?)?, Seen::Admitted { .. });
            is_late.then(|| "a microsecond sooner it is admitted too".to_owned())
        })
    })
}

/// D3: the reported wait of a log ends when the smallest prefix of its entries that frees enough
/// expires.
pub(super) fn d3(limit: u64, window_us: u64) -> Judge {
    Box::new(move |_, events| {
        events.iter().enumerate().find_map(|(at, event)| {
            let (cost, Seen::Denied { retry_after_us: Some(told) }) = (event.cost()?, &event.seen)
            else {
                return None;
            };
            let counts =
                |entry: &&Event| entry.is_admitted() && event.at_us < entry.at_us + window_us;
            let entries: Vec<(u64, u64)> = (events[..at].iter().filter(counts))
                .filter_map(|entry| Some((entry.at_us, entry.cost()?)))
                .collect();
            let mut used: u64 = entries.iter().map(|(_, cost)| cost).sum();
            let freeing = entries.iter().find(|(_, freed)| {
                used -= freed;
                used + cost <= limit
            })?;
            let right = freeing.0 + window_us - event.at_us;
            (right != *told).then(|| format!("what frees enough expires in {}", seconds(right)))
        })
    })
}

/// D4: the store admits a request for all of `remaining`, and denies one for one more.
pub(super) fn d4() -> Judge {
    Box::new(|stage, events| {
        events.iter().enumerate().find_map(|(at, event)| {
            let Seen::Admitted { remaining: Some(left) } = event.seen else { return None };
            let Step::By(who, _) = event.step else { return None };
            let is_admitted = |cost| {
                let ask = (event.at_us, Step::By(who, Deed::Acquire(cost)));
                let trace: Vec<Timed> =
                    events[..=at].iter().map(Event::timed).chain([ask]).collect();
                matches!(stage.last_of(&trace), Some(Seen::Admitted { .. }))
            };
            if is_admitted(left + 1) {
                return Some(format!("{left} are left, and {} are admitted", left + 1));
            }
            (left > 0 && !is_admitted(left)).then(|| format!("{left} are left, and denied"))
        })
    })
}

/// D5, and for a bucket D6: without any one peek or denied request, all other answers stay the
/// same.
pub(super) fn probes_change_nothing() -> Judge {
    Box::new(|stage, events| {
        events.iter().enumerate().find_map(|(at, event)| {
            let is_peek = matches!(event.step, Step::By(_, Deed::Peek(_)));
            if !is_peek && !event.is_denied() {
                return None;
            }
            let others = stage.play(&without(events, at))?;
            let changed =
                others[at..].iter().zip(&events[at + 1..]).find(|(a, b)| a.seen != b.seen);
            let (without, with) = changed?;
            let what = if is_peek { "the peek" } else { "what was denied" };
            Some(format!("without {what} it would be: {}; it is: {}", without.seen, with.seen))
        })
    })
}

/// D8: in the state before each admitted request, a request of less cost is not denied.
pub(super) fn d8() -> Judge {
    Box::new(|stage, events| {
        events.iter().enumerate().find_map(|(at, event)| {
            let Step::By(who, Deed::Acquire(cost)) = event.step else { return None };
            let less = (1..cost).filter(|_| event.is_admitted()).find(|less| {
                let ask = (event.at_us, Step::By(who, Deed::Acquire(*less)));
                let trace: Vec<Timed> =
                    events[..at].iter().map(Event::timed).chain([ask]).collect();
                matches!(stage.last_of(&trace), Some(Seen::Denied { .. }))
            })?;
            Some(format!("{cost} are admitted, and {less} would be denied"))
        })
    })
}

/// D9: after `forget_after_us` without a request, the key acts like a fresh one.
pub(super) fn d9_acts_as_fresh(forget_after_us: u64) -> Judge {
    Box::new(move |stage, events| {
        let deeds = events.iter().enumerate().filter(|(_, event)| !event.is_wait());
        let mut last = None;
        for (at, event) in deeds {
            let before = last.replace(event.at_us);
            if before.is_none_or(|before| event.at_us < before + forget_after_us) {
                continue;
            }
            let rest: Vec<Timed> = events[at..].iter().map(Event::timed).collect();
            let fresh = stage.play(&rest)?;
            if let Some((fresh, own)) = fresh.iter().zip(&events[at..]).find(|(a, b)| a != b) {
                return Some(format!("a fresh key says: {}; this one: {}", fresh.seen, own.seen));
            }
        }
        None
    })
}

/// D9: after `forget_after_us` without a request, nothing is stored.
pub(super) fn d9_is_forgotten(forget_after_us: u64) -> Judge {
    Box::new(move |stage, events| {
        let last = events.last()?;
        let end = last.at_us + if let Step::Wait(span) = last.step { span } else { 0 };
        let used = events.iter().rfind(|event| !event.is_wait())?.at_us;
        if end < used + forget_after_us {
            return None;
        }
        let stored = stage.stored_after(&all(events))?;
        (!stored.is_empty())
            .then(|| format!("{} later the store still has {stored}", seconds(end - used)))
    })
}

/// D11 and L10: a repeated request gets the first answer, and changes nothing. The repetition of a
/// denied request is a new attempt.
pub(super) fn repeats_change_nothing() -> Judge {
    Box::new(|stage, events| {
        let mut answers: BTreeMap<char, &Event> = BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            match event.step {
                Step::By(who, Deed::Repeat) => {
                    let first = *answers.get(&who)?;
                    if first.is_denied() || first.seen == Seen::Refused {
                        continue;
                    }
                    if first.seen != event.seen {
                        return Some(format!(
                            "at first it was: {}; now: {}",
                            first.seen, event.seen
                        ));
                    }
                    let (before, after) = (&events[..at], &events[..=at]);
                    if stage.stored_after(&all(before)) != stage.stored_after(&all(after)) {
                        return Some("what is stored has changed".to_owned());
                    }
                }
                Step::By(who, _) => {
                    answers.insert(who, event);
                }
                Step::Wait(_) => {}
            }
        }
        None
    })
}

/// D12: a request in range gets no error, and an error changes nothing.
pub(super) fn d12() -> Judge {
    Box::new(|stage, events| {
        events.iter().enumerate().find_map(|(at, event)| {
            let Seen::Failed(_) = &event.seen else { return None };
            let before = stage.stored_after(&all(&events[..at]))?;
            let after = stage.stored_after(&all(&events[..=at]))?;
            Some(match before == after {
                true => "a request in range gets an error, and no decision".to_owned(),
                false => format!("it is an error, and yet the store now has {after}"),
            })
        })
    })
}

/// The input guard: an invalid cost is refused, and changes nothing.
pub(super) fn input_guard() -> Judge {
    Box::new(|stage, events| {
        events.iter().enumerate().find_map(|(at, event)| {
            let Step::By(_, Deed::AcquireText(text)) = event.step else { return None };
            if text.parse::<u64>().is_ok_and(|cost| cost > 0) {
                return None;
            }
            if !matches!(event.seen, Seen::Failed(_)) {
                return Some(format!("a cost of {text:?} is {}", event.seen));
            }
            let before = stage.stored_after(&all(&events[..at]))?;
            let after = stage.stored_after(&all(&events[..=at]))?;
            (before != after).then(|| format!("it is refused, and yet the store now has {after}"))
        })
    })
}

fn limit(spec: &str) -> Limit {
    spec.parse().expect("entries have limits that parse")
}

fn all(events: &[Event]) -> Vec<Timed> {
    events.iter().map(Event::timed).collect()
}

fn without(events: &[Event], left_out: usize) -> Vec<Timed> {
    let others = events.iter().enumerate().filter(|(at, _)| *at != left_out);
    others.map(|(_, event)| event.timed()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::stage::Stage;
    use super::super::step::timed;
    use super::super::subject::Machine;
    use super::*;

    /// Returns the verdict on these deeds, done by a machine at one time.
    fn judged(
        judge: &Judge,
        run: fn(&mut u64, u64, char, Deed) -> Option<Seen>,
        deeds: &[Deed],
    ) -> Option<String> {
        let steps: Vec<Step> = deeds.iter().map(|deed| Step::By('A', *deed)).collect();
        let stage = Stage::new(Machine::of(0, run));
        let events = stage.play(&timed(&steps, 0)).expect("the machine does all of them");
        judge(&stage, &events)
    }

    #[test]
    fn d1_a_wrong_admission_is_found() {
        let admits = |_: &mut u64, _, _, _| Some(Seen::Admitted { remaining: None });
        let judge = as_reference("fixed-window 1/s");
        assert_eq!(judged(&judge, admits, &[Deed::Acquire(1)]), None);
        let why = judged(&judge, admits, &[Deed::Acquire(1); 2]).expect("the second is too much");
        assert!(why.contains("it is admitted"), "{why}");
    }

    #[test]
    fn the_input_guard_finds_refusals_with_side_effects() {
        let counts_first = |used: &mut u64, _, _, _| {
            *used += 1;
            Some(Seen::Failed("no number".to_owned()))
        };
        let refuses = |_: &mut u64, _, _, _| Some(Seen::Failed("no number".to_owned()));
        let ask = [Deed::AcquireText("nan")];
        let why = judged(&input_guard(), counts_first, &ask).expect("it has counted");
        assert!(why.contains("yet the store now has 1"), "{why}");
        assert_eq!(judged(&input_guard(), refuses, &ask), None);
    }
}
