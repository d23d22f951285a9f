//! Bugs of counting windows, of inputs and of repeated requests.

use super::{
    DENIED, MS, S, a, admitted, admitted_and_left, bug, left, lua, number, or_failed, own,
    remaining,
};
use crate::museum::step::Deed::{Acquire, AcquireAndCrash, AcquireText, Repeat};
use crate::museum::step::Step::Wait;
use crate::museum::step::{Deed, Seen};
use crate::museum::subject::{Ask, Limiter, World};
use crate::museum::{Entry, Property, judge};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        bug(1, "incr-then-expire", "many")
            .about(
                "INCR and EXPIRE are two commands. A client that crashes between them leaves a \
                counter that never expires, and the key is denied for ever.",
                "at most 1 in 2 s",
            )
            .killed_by(Property::D9, judge::d9_acts_as_fresh(2 * S))
            .flow(incr_then_expire)
            .beside("fixed-window 1/2s")
            .searched([a(Acquire(1)), a(AcquireAndCrash), Wait(3 * S)], 4),
        bug(2, "expiry-on-every-hit", "blog scripts, limits#28")
            .about(
                "Each hit sets the counter's expiry anew, so a window that is used never ends.",
                "at most 2 in 6 s",
            )
            .killed_by(Property::D1, judge::as_reference("fixed-window 2/6s"))
            .script(lua("counter_expires_again"), ["hits", "2 6"], admitted_and_left)
            .beside("fixed-window 2/6s")
            .searched([a(Acquire(1)), Wait(5 * S)], 6),
        bug(4, "check-without-the-cost", "upstash sliding window")
            .about(
                "The check ignores the cost. What goes beyond the limit is denied afterwards, and \
                charged.",
                "at most 3 in 2 s",
            )
            .killed_by(Property::D5, judge::probes_change_nothing())
            .client(|world, ask| upstash_sliding(world, ask, 3))
            .beside("sliding-window 3/2s")
            .searched([a(Acquire(1)), a(Acquire(3))], 4),
        bug(5, "numbers-compared-as-text", "blog scripts")
            .about(
                "What GET replies and what ARGV holds are strings, and '2' >= '10'.",
                "at most 10 in 6 s",
            )
            .killed_by(Property::D1, judge::as_reference("fixed-window 10/6s"))
            .script(lua("counter_compared_as_text"), ["hits", "10 6"], admitted_and_left)
            .beside("fixed-window 10/6s")
            .searched([a(Acquire(1)), Wait(5 * S)], 5),
        bug(5, "number-compared-with-text", "upstash cached fixed window")
            .about(
                "What INCRBY replies is a number and the cost a string, which are never equal: no \
                key ever expires.",
                "at most 2 in 2 s",
            )
            .killed_by(Property::D9, judge::d9_is_forgotten(3 * S))
            .script(lua("upstash_cached_fixed_window"), ["hits:{window}", "2000 {cost}"], |used| {
                or_failed(&used, |used| remaining(2 - used))
            })
            .beside("fixed-window 2/2s")
            .searched([a(Acquire(1)), Wait(3 * S)], 3),
        bug(6, "cached-path-off-by-one", "upstash cached fixed window")
            .about(
                "What is counted in the client's cache must be below the limit; what is counted in \
                the store may be equal to it.",
                "at most 2 in 2 s",
            )
            .killed_by(Property::D1, judge::as_reference("fixed-window 2/2s"))
            .flow(cached_window)
            .beside("fixed-window 2/2s")
            .searched([a(Acquire(1))], 4),
        bug(19, "error-after-a-write", "several")
            .about(
                "PEXPIRE takes no fraction. The script has counted by then, an error rolls nothing \
                back, and the counter never expires.",
                "at most 2 in 2/3 s",
            )
            .killed_by(Property::D12, judge::d12())
            .script(lua("counter_with_fractional_expiry"), ["hits", "3"], admitted_and_left)
            .beside("token-bucket 3/s burst 2")
            .searched([a(Acquire(1))], 4),
        bug(20, "any-number-is-a-cost", "several")
            .about(
                "tonumber takes nan, inf, -1 and 0x10. With nan nothing is ever denied again, and \
                -1 gives back what was never taken.",
                "at most 10 in 60 s",
            )
            .killed_by(Property::InputGuard, judge::input_guard())
            .script(lua("counter_of_any_number"), ["hits", "10 60 {cost}"], admitted_and_left)
            .beside("fixed-window 10/60s")
            .searched(
                ["nan", "inf", "-inf", "-1", "0x10", "1e3", "1"].map(|cost| a(AcquireText(cost))),
                3,
            ),
        bug(30, "verdict-inverted", "tutorials")
            .about(
                "The reply is 1 where the counter is beyond the limit, and is read as: passes. The \
                two are compared as text besides.",
                "at most 10 in 6 s",
            )
            .killed_by(Property::D1, judge::as_reference("fixed-window 10/6s"))
            .script(lua("window_with_verdict_inverted"), ["hits", "10 6"], admitted)
            .beside("fixed-window 10/6s")
            .searched([a(Acquire(1)), Wait(5 * S)], 5),
        own("calendar-window", "tutorials")
            .about(
                "Where windows are the calendar's, two of them meet in one instant, and twice the \
                limit is admitted there. A window that is opened by a request admits one less.",
                "at most 1 in 2 s",
            )
            .killed_by(Property::E1, judge::envelopes("fixed-window 1/2s"))
            .script(lua("calendar_window"), ["hits:{window}", "1 2"], admitted_and_left)
            .beside("fixed-window 1/2s")
            .searched([a(Acquire(1)), Wait(S)], 4),
        own("estimate-rounded-down", "upstash sliding window")
            .about(
                "What the previous window still counts for is rounded down, and so admitted once \
                more.",
                "at most 1 in 2 s",
            )
            .killed_by(Property::E3, judge::envelopes("sliding-window 1/2s"))
            .client(|world, ask| upstash_sliding(world, ask, 1))
            .beside("sliding-window 1/2s")
            .searched([a(Acquire(1)), Wait(1_500 * MS)], 4),
        own("costs-compared-as-text", "our own")
            .about("The cost is compared as text, and '10' comes before '9'.", "at most 8 in 60 s")
            .killed_by(Property::D8, judge::d8())
            .script(lua("costs_compared_as_text"), ["hits", "8 60 {cost}"], admitted_and_left)
            .beside("fixed-window 8/60s")
            .searched([a(Acquire(1)), a(Acquire(10))], 4),
        repetition(
            "repetition-charged-again",
            "The id of a request is not looked at: where its answer was lost, it is charged once \
            more.",
        )
        .machine((2, Seen::Nothing), charges_again),
        repetition(
            "repetition-charged-in-silence",
            "A request that is sent again gets the answer that it got, and is charged once more.",
        )
        .machine((2, Seen::Nothing), |state, now, who, deed| {
            let answer = state.1.clone();
            let seen = charges_again(state, now, who, deed)?;
            Some(if deed == Repeat { answer } else { seen })
        }),
    ]
}

fn repetition(name: &'static str, about: &'static str) -> Entry {
    let entry = own(name, "our own").about(about, "at most 2 in 10 s");
    let entry = entry.killed_by(Property::D11, judge::repeats_change_nothing());
    let shipped = Box::new(|| Limiter::with_ids("fixed-window 2/10s"));
    Entry { shipped, ..entry }.searched([a(Acquire(1)), a(Repeat)], 4)
}

/// Increments the counter in one command and sets its expiry in another, as most clients did.
fn incr_then_expire(world: &mut World, ask: &Ask) -> Option<Seen> {
    let used = number(&world.command("INCR hits")).ok()?;
    match ask.deed {
        AcquireAndCrash => return Some(Seen::Nothing),
        Acquire(1) if used == 1 => {
            world.command("PEXPIRE hits 2000");
        }
        _ => {}
    }
    Some(remaining(1 - used))
}

/// `Ratelimit.cachedFixedWindow`: the first request of a window asks the store, and the others ask the cache, unless the
/// cache says no.
fn cached_window(world: &mut World, ask: &Ask) -> Option<Seen> {
    let Acquire(1) = ask.deed else { return None };
    let in_store = |world: &mut World| {
        let key = format!("hits:{}", ask.now_us / (2 * S));
        number(&world.eval(lua("upstash_fixed_window"), &key, "2000 1")).ok()
    };
    let Some(cached) = world.memory.get_mut(&ask.who) else {
        let used = in_store(world)?;
        world.memory.insert(ask.who, used);
        return Some(remaining(2 - used));
    };
    *cached += 1;
    let cached = *cached;
    if cached >= 2 {
        return Some(DENIED);
    }
    in_store(world)?;
    Some(remaining(2 - cached))
}

fn upstash_sliding(world: &mut World, ask: &Ask, limit: u64) -> Option<Seen> {
    let Acquire(cost) = ask.deed else { return None };
    let window = ask.now_us / (2 * S);
    let keys = format!("hits:{window} hits:{}", window - 1);
    let argv = format!("{limit} {} 2000 {cost}", ask.now_us / MS);
    Some(left(world.eval(lua("upstash_sliding_window"), &keys, &argv)))
}

/// Takes a permit, also for a repetition. The state is the remaining permits and the last answer.
fn charges_again((left, answer): &mut (u64, Seen), _: u64, _: char, deed: Deed) -> Option<Seen> {
    let (Acquire(1) | Repeat) = deed else { return None };
    *answer = match left.checked_sub(1) {
        None => DENIED,
        Some(less) => {
            *left = less;
            Seen::Admitted { remaining: Some(less) }
        }
    };
    Some(answer.clone())
}
