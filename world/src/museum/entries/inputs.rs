//! Bugs of inputs and of repeated requests.

use super::{a, admitted_and_left, searched};
use crate::museum::judge;
use crate::museum::step::{Deed, Seen};
use crate::museum::subject::{Foreign, Limiter, Machine};
use crate::museum::{Entry, Exhibit, Kind, Property};

const FRACTIONAL_EXPIRY: &str = include_str!("../../../museum/counter_with_fractional_expiry.lua");
const ANY_NUMBER: &str = include_str!("../../../museum/counter_of_any_number.lua");
const COSTS_AS_TEXT: &str = include_str!("../../../museum/costs_compared_as_text.lua");

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry {
            bug: Some(19),
            name: "error-after-a-write",
            seen_in: "several",
            kind: Kind::Script,
            property: Property::D12,
            about: "PEXPIRE takes no fraction. The script has counted by then, an error rolls \
                nothing back, and the counter never expires.",
            scene: "at most 2 in 2/3 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(1) = ask.deed else { return None };
                    Some(admitted_and_left(world.eval(FRACTIONAL_EXPIRY, "hits", "3")))
                }),
                shipped: Limiter::under("token-bucket 3/s burst 2"),
                judge: judge::d12(),
                way: searched(&[a(Deed::Acquire(1))], 4),
            },
        },
        Entry {
            bug: Some(20),
            name: "any-number-is-a-cost",
            seen_in: "several",
            kind: Kind::Script,
            property: Property::InputGuard,
            about: "tonumber takes nan, inf, -1 and 0x10. With nan nothing is ever denied again, \
                and -1 gives back what was never taken.",
            scene: "at most 10 in 60 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::AcquireText(cost) = ask.deed else { return None };
                    let argv = format!("10 60 {cost}");
                    Some(admitted_and_left(world.eval(ANY_NUMBER, "hits", &argv)))
                }),
                shipped: Limiter::under("fixed-window 10/60s"),
                judge: judge::input_guard(),
                way: searched(
                    &["nan", "inf", "-inf", "-1", "0x10", "1e3", "1"]
                        .map(|cost| a(Deed::AcquireText(cost))),
                    3,
                ),
            },
        },
        Entry {
            bug: None,
            name: "costs-compared-as-text",
            seen_in: "our own",
            kind: Kind::Script,
            property: Property::D8,
            about: "The cost is compared as text, and '10' comes before '9'.",
            scene: "at most 8 in 60 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(cost) = ask.deed else { return None };
                    let argv = format!("8 60 {cost}");
                    Some(admitted_and_left(world.eval(COSTS_AS_TEXT, "hits", &argv)))
                }),
                shipped: Limiter::under("fixed-window 8/60s"),
                judge: judge::d8(),
                way: searched(&[a(Deed::Acquire(1)), a(Deed::Acquire(10))], 4),
            },
        },
        Entry {
            bug: None,
            name: "repetition-charged-again",
            seen_in: "our own",
            kind: Kind::Machine,
            property: Property::D11,
            about: "The id of a request is not looked at: where its answer was lost, it is charged \
                once more.",
            scene: "at most 2 in 10 s",
            exhibit: || Exhibit {
                broken: Machine::of((2, Seen::Nothing), charges_again),
                shipped: Limiter::with_ids("fixed-window 2/10s"),
                judge: judge::repeats_change_nothing(),
                way: searched(&[a(Deed::Acquire(1)), a(Deed::Repeat)], 4),
            },
        },
        Entry {
            bug: None,
            name: "repetition-charged-in-silence",
            seen_in: "our own",
            kind: Kind::Machine,
            property: Property::D11,
            about: "A request that is sent again gets the answer that it got, and is charged once more.",
            scene: "at most 2 in 10 s",
            exhibit: || Exhibit {
                broken: Machine::of((2, Seen::Nothing), |state, now, who, deed| {
                    let answer = state.1.clone();
                    let seen = charges_again(state, now, who, deed)?;
                    Some(if deed == Deed::Repeat { answer } else { seen })
                }),
                shipped: Limiter::with_ids("fixed-window 2/10s"),
                judge: judge::repeats_change_nothing(),
                way: searched(&[a(Deed::Acquire(1)), a(Deed::Repeat)], 4),
            },
        },
    ]
}

/// Takes a permit, also for a repetition. The state is the remaining permits and the last answer.
fn charges_again((left, answer): &mut (u64, Seen), _: u64, _: char, deed: Deed) -> Option<Seen> {
    let (Deed::Acquire(1) | Deed::Repeat) = deed else { return None };
    *answer = match left.checked_sub(1) {
        None => Seen::Denied { retry_after_us: None },
        Some(less) => {
            *left = less;
            Seen::Admitted { remaining: Some(less) }
        }
    };
    Some(answer.clone())
}
