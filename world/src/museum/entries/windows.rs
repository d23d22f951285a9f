//! Bugs of counting windows.

use super::{MS, S, a, admitted, admitted_and_left, left, number, searched};
use crate::museum::judge;
use crate::museum::step::{Deed, Seen, Step};
use crate::museum::subject::{Ask, Foreign, Limiter, World};
use crate::museum::{Entry, Exhibit, Kind, Property};

const EXPIRES_AGAIN: &str = include_str!("../../../museum/counter_expires_again.lua");
const COMPARED_AS_TEXT: &str = include_str!("../../../museum/counter_compared_as_text.lua");
const UPSTASH_CACHED: &str = include_str!("../../../museum/upstash_cached_fixed_window.lua");
const UPSTASH_FIXED: &str = include_str!("../../../museum/upstash_fixed_window.lua");
const UPSTASH_SLIDING: &str = include_str!("../../../museum/upstash_sliding_window.lua");
const INVERTED: &str = include_str!("../../../museum/window_with_verdict_inverted.lua");
const CALENDAR: &str = include_str!("../../../museum/calendar_window.lua");

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry {
            bug: Some(1),
            name: "incr-then-expire",
            seen_in: "many",
            kind: Kind::Flow,
            property: Property::D9,
            about: "INCR and EXPIRE are two commands. A client that crashes between them leaves a \
                counter that never expires, and the key is denied for ever.",
            scene: "at most 1 in 2 s",
            exhibit: || Exhibit {
                broken: Foreign::by(incr_then_expire),
                shipped: Limiter::under("fixed-window 1/2s"),
                judge: judge::d9_acts_as_fresh(2 * S),
                way: searched(
                    &[a(Deed::Acquire(1)), a(Deed::AcquireAndCrash), Step::Wait(3 * S)],
                    4,
                ),
            },
        },
        Entry {
            bug: Some(2),
            name: "expiry-on-every-hit",
            seen_in: "blog scripts, limits#28",
            kind: Kind::Script,
            property: Property::D1,
            about: "Each hit sets the counter's expiry anew, so a window that is used never ends.",
            scene: "at most 2 in 6 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(1) = ask.deed else { return None };
                    Some(admitted_and_left(world.eval(EXPIRES_AGAIN, "hits", "2 6")))
                }),
                shipped: Limiter::under("fixed-window 2/6s"),
                judge: judge::as_reference("fixed-window 2/6s"),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(5 * S)], 6),
            },
        },
        Entry {
            bug: Some(4),
            name: "check-without-the-cost",
            seen_in: "upstash sliding window",
            kind: Kind::Script,
            property: Property::D5,
            about: "The check ignores the cost. What goes beyond the limit is denied afterwards, \
                and charged.",
            scene: "at most 3 in 2 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| upstash_sliding(world, ask, 3)),
                shipped: Limiter::under("sliding-window 3/2s"),
                judge: judge::probes_change_nothing(),
                way: searched(&[a(Deed::Acquire(1)), a(Deed::Acquire(3))], 4),
            },
        },
        Entry {
            bug: Some(5),
            name: "numbers-compared-as-text",
            seen_in: "blog scripts",
            kind: Kind::Script,
            property: Property::D1,
            about: "What GET replies and what ARGV holds are strings, and '2' >= '10'.",
            scene: "at most 10 in 6 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(1) = ask.deed else { return None };
                    Some(admitted_and_left(world.eval(COMPARED_AS_TEXT, "hits", "10 6")))
                }),
                shipped: Limiter::under("fixed-window 10/6s"),
                judge: judge::as_reference("fixed-window 10/6s"),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(5 * S)], 5),
            },
        },
        Entry {
            bug: Some(5),
            name: "number-compared-with-text",
            seen_in: "upstash cached fixed window",
            kind: Kind::Script,
            property: Property::D9,
            about: "What INCRBY replies is a number and the cost a string, which are never equal: \
                no key ever expires.",
            scene: "at most 2 in 2 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(cost) = ask.deed else { return None };
                    upstash_window(world, ask, UPSTASH_CACHED, cost).map(|used| within(used, 2))
                }),
                shipped: Limiter::under("fixed-window 2/2s"),
                judge: judge::d9_is_forgotten(3 * S),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(3 * S)], 3),
            },
        },
        Entry {
            bug: Some(6),
            name: "cached-path-off-by-one",
            seen_in: "upstash cached fixed window",
            kind: Kind::Flow,
            property: Property::D1,
            about: "What is counted in the client's cache must be below the limit; what is \
                counted in the store may be equal to it.",
            scene: "at most 2 in 2 s",
            exhibit: || Exhibit {
                broken: Foreign::by(cached_window),
                shipped: Limiter::under("fixed-window 2/2s"),
                judge: judge::as_reference("fixed-window 2/2s"),
                way: searched(&[a(Deed::Acquire(1))], 4),
            },
        },
        Entry {
            bug: Some(30),
            name: "verdict-inverted",
            seen_in: "tutorials",
            kind: Kind::Script,
            property: Property::D1,
            about: "The reply is 1 where the counter is beyond the limit, and is read as: passes. The \
                two are compared as text besides.",
            scene: "at most 10 in 6 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(1) = ask.deed else { return None };
                    Some(admitted(world.eval(INVERTED, "hits", "10 6")))
                }),
                shipped: Limiter::under("fixed-window 10/6s"),
                judge: judge::as_reference("fixed-window 10/6s"),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(5 * S)], 5),
            },
        },
        Entry {
            bug: None,
            name: "calendar-window",
            seen_in: "tutorials",
            kind: Kind::Script,
            property: Property::E1,
            about: "Where windows are the calendar's, two of them meet in one instant, and twice \
                the limit is admitted there. A window that is opened by a request admits one less.",
            scene: "at most 1 in 2 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(1) = ask.deed else { return None };
                    let key = format!("hits:{}", ask.now_us / (2 * S));
                    Some(admitted_and_left(world.eval(CALENDAR, &key, "1 2")))
                }),
                shipped: Limiter::under("fixed-window 1/2s"),
                judge: judge::envelopes("fixed-window 1/2s"),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(S)], 4),
            },
        },
        Entry {
            bug: None,
            name: "estimate-rounded-down",
            seen_in: "upstash sliding window",
            kind: Kind::Script,
            property: Property::E3,
            about: "What the previous window still counts for is rounded down, and so admitted \
                once more.",
            scene: "at most 1 in 2 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| upstash_sliding(world, ask, 1)),
                shipped: Limiter::under("sliding-window 1/2s"),
                judge: judge::envelopes("sliding-window 1/2s"),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(1_500 * MS)], 4),
            },
        },
    ]
}

/// Increments the counter in one command and sets its expiry in another, as most clients did.
fn incr_then_expire(world: &mut World, ask: &Ask) -> Option<Seen> {
    let used = number(&world.command("INCR hits")).ok()?;
    match ask.deed {
        Deed::AcquireAndCrash => return Some(Seen::Nothing),
        Deed::Acquire(1) if used == 1 => {
            world.command("PEXPIRE hits 2000");
        }
        _ => {}
    }
    Some(within(used, 1))
}

/// `Ratelimit.cachedFixedWindow`: the first request of a window asks the store, and the others ask the cache, unless the
/// cache says no.
fn cached_window(world: &mut World, ask: &Ask) -> Option<Seen> {
    let Deed::Acquire(1) = ask.deed else { return None };
    if let Some(cached) = world.memory.get_mut(&ask.who) {
        *cached += 1;
        let cached = *cached;
        if cached < 2 {
            upstash_window(world, ask, UPSTASH_FIXED, 1)?;
            return Some(Seen::Admitted { remaining: u64::try_from(2 - cached).ok() });
        }
        return Some(Seen::Denied { retry_after_us: None });
    }
    let used = upstash_window(world, ask, UPSTASH_FIXED, 1)?;
    world.memory.insert(ask.who, used);
    Some(within(used, 2))
}

/// Charges `cost` to a calendar window of 2 s, and returns its used permits.
fn upstash_window(world: &mut World, ask: &Ask, source: &str, cost: u64) -> Option<i64> {
    let key = format!("hits:{}", ask.now_us / (2 * S));
    number(&world.eval(source, &key, &format!("2000 {cost}"))).ok()
}

fn upstash_sliding(world: &mut World, ask: &Ask, limit: u64) -> Option<Seen> {
    let Deed::Acquire(cost) = ask.deed else { return None };
    let window = ask.now_us / (2 * S);
    let keys = format!("hits:{window} hits:{}", window - 1);
    let argv = format!("{limit} {} 2000 {cost}", ask.now_us / MS);
    Some(left(world.eval(UPSTASH_SLIDING, &keys, &argv)))
}

fn within(used: i64, limit: i64) -> Seen {
    match u64::try_from(limit - used) {
        Ok(left) => Seen::Admitted { remaining: Some(left) },
        Err(_) => Seen::Denied { retry_after_us: None },
    }
}
