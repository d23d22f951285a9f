//! Bugs of sliding logs.

use lockage_sim::store::RespValue;

use super::{MS, S, a, admitted_and_left, b, number, searched, searched_slowly};
use crate::museum::judge;
use crate::museum::step::{Deed, Seen, Step};
use crate::museum::subject::{Ask, Foreign, Limiter, Machine, World};
use crate::museum::{Entry, Exhibit, Kind, Property, Way};

const BY_SECONDS: &str = include_str!("../../../museum/log_by_seconds.lua");
const BY_CONCATENATED_TIME: &str = include_str!("../../../museum/log_by_concatenated_time.lua");
const BY_CHANCE: &str = include_str!("../../../museum/log_by_chance.lua");
const SHENYU: &str = include_str!("../../../museum/shenyu_sliding_window.lua");
const BY_RANK: &str = include_str!("../../../museum/log_removed_by_rank.lua");
const TWO_UNITS: &str = include_str!("../../../museum/log_of_two_units.lua");
const UNPACK: &str = include_str!("../../../museum/redisson_rate_limiter_unpack.lua");
const ACQUIRE: &str = include_str!("../../../museum/redisson_rate_limiter_acquire.lua");
const AVAILABLE: &str = include_str!("../../../museum/redisson_rate_limiter_available.lua");
const RELEASE: &str = include_str!("../../../museum/redisson_rate_limiter_release.lua");

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry {
            bug: Some(10),
            name: "one-member-per-second",
            seen_in: "sockudo",
            kind: Kind::Script,
            property: Property::E2,
            about: "The member is the time in seconds, so all requests of a second are one entry.",
            scene: "at most 2 in 10 s; a request takes 7 us",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(1) = ask.deed else { return None };
                    let argv = format!("2 10 {}", ask.now_us / S);
                    Some(admitted_and_left(world.eval(BY_SECONDS, "log", &argv)))
                }),
                ..collapsing()
            },
        },
        Entry {
            bug: Some(11),
            name: "members-of-14-digits",
            seen_in: "blog scripts",
            kind: Kind::Script,
            property: Property::E2,
            about: "A time in microseconds that is put into text by `..` keeps 14 of its 16 \
                digits, so all requests of 100 us are one entry.",
            scene: "at most 2 in 10 s; a request takes 7 us",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(1) = ask.deed else { return None };
                    Some(admitted_and_left(world.eval(BY_CONCATENATED_TIME, "log", "2 10000000")))
                }),
                ..collapsing()
            },
        },
        Entry {
            bug: Some(12),
            name: "members-by-chance",
            seen_in: "blog scripts",
            kind: Kind::Script,
            property: Property::E2,
            about: "The member is a random number, and a script draws the same ones each time: \
                there is only ever one entry.",
            scene: "at most 2 in 10 s; a request takes 7 us",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(1) = ask.deed else { return None };
                    Some(admitted_and_left(world.eval(BY_CHANCE, "log", "2 10000000")))
                }),
                ..collapsing()
            },
        },
        Entry {
            bug: Some(13),
            name: "counted-before-pruned",
            seen_in: "shenyu",
            kind: Kind::Script,
            property: Property::D1,
            about: "What is over is counted, and goes only then: exactly one window later, there \
                is still no room.",
            scene: "at most 1 in 1 s",
            exhibit: || Exhibit {
                broken: Foreign::by(shenyu),
                shipped: Limiter::under("sliding-log 1/s"),
                judge: judge::as_reference("sliding-log 1/s"),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(S)], 4),
            },
        },
        Entry {
            bug: Some(14),
            name: "read-then-write",
            seen_in: "nostream, limitador",
            kind: Kind::Flow,
            property: Property::E2,
            about: "To count and to add are two commands. A client that counts in between counts the \
                same.",
            scene: "at most 1 in 10 s",
            exhibit: || Exhibit {
                broken: Foreign::by(read_then_write),
                shipped: Limiter::under("sliding-log 1/10s"),
                judge: judge::envelopes("sliding-log 1/10s"),
                way: searched(&[a(Deed::Read), a(Deed::Write), b(Deed::Read), b(Deed::Write)], 5),
            },
        },
        Entry {
            bug: Some(18),
            name: "unpack-of-8000",
            seen_in: "Redisson#3526",
            kind: Kind::Script,
            property: Property::D12,
            about: "All entries that are over go in one ZREM, and Lua unpacks no more than 7999 \
                values: once there are more, each request is a script error, for ever.",
            scene: "at most 10000 in 120 s",
            exhibit: || Exhibit {
                broken: Foreign::by(unpacks),
                shipped: Limiter::under("sliding-log 10000/120s"),
                judge: judge::d12(),
                way: Way::Given {
                    steps: vec![
                        a(Deed::AcquireTimes(8_000)),
                        Step::Wait(121 * S),
                        a(Deed::Acquire(1)),
                    ],
                    because: "its 8000 requests are too many to try all traces",
                },
            },
        },
        Entry {
            bug: Some(21),
            name: "refunded-twice",
            seen_in: "Redisson#7329",
            kind: Kind::Script,
            property: Property::E2,
            about: "What is given back stays in the log. When it is over there, it comes back a \
                second time.",
            scene: "at most 1 in 1 s",
            exhibit: || Exhibit {
                broken: Foreign::by(refunds_twice),
                shipped: Limiter::under("sliding-log 1/s"),
                judge: judge::envelopes("sliding-log 1/s"),
                way: searched(
                    &[a(Deed::Acquire(1)), a(Deed::GiveBack(1)), a(Deed::Peek(1)), Step::Wait(S)],
                    6,
                ),
            },
        },
        Entry {
            bug: Some(22),
            name: "removed-by-rank",
            seen_in: "blog scripts",
            kind: Kind::Script,
            property: Property::E2,
            about: "ZREMRANGEBYRANK where ZREMRANGEBYSCORE was meant: the whole log goes each \
                time.",
            scene: "at most 1 in 10 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(1) = ask.deed else { return None };
                    let argv = format!("1 10000 {} {}", ask.now_us / MS, name(world, ask.who));
                    Some(admitted_and_left(world.eval(BY_RANK, "log", &argv)))
                }),
                shipped: Limiter::under("sliding-log 1/10s"),
                judge: judge::envelopes("sliding-log 1/10s"),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(50 * MS)], 4),
            },
        },
        Entry {
            bug: Some(22),
            name: "seconds-and-milliseconds",
            seen_in: "blog scripts",
            kind: Kind::Script,
            property: Property::E2,
            about: "Times are in milliseconds and the window in seconds, so it is a thousandth of \
                what it should be.",
            scene: "at most 1 in 10 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(1) = ask.deed else { return None };
                    let argv = format!("1 10 {} {}", ask.now_us / MS, name(world, ask.who));
                    Some(admitted_and_left(world.eval(TWO_UNITS, "log", &argv)))
                }),
                shipped: Limiter::under("sliding-log 1/10s"),
                judge: judge::envelopes("sliding-log 1/10s"),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(50 * MS)], 4),
            },
        },
        Entry {
            bug: None,
            name: "remaining-before-the-charge",
            seen_in: "shenyu",
            kind: Kind::Script,
            property: Property::D4,
            about: "What is told to be left is what was left before.",
            scene: "at most 1 in 1 s",
            exhibit: || Exhibit {
                broken: Foreign::by(shenyu),
                shipped: Limiter::under("sliding-log 1/s"),
                judge: judge::d4(),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(S)], 4),
            },
        },
        Entry {
            bug: None,
            name: "wait-for-the-oldest",
            seen_in: "our own",
            kind: Kind::Machine,
            property: Property::D3,
            about: "retry_after is when the oldest entry is over, whether that frees enough or \
                not.",
            scene: "at most 2 in 10 s",
            exhibit: || Exhibit {
                broken: Machine::of(Vec::new(), waits_for_the_oldest),
                shipped: Limiter::under("sliding-log 2/10s"),
                judge: judge::d3(2, 10 * S),
                way: searched(&[a(Deed::Acquire(1)), a(Deed::Acquire(2)), Step::Wait(S)], 5),
            },
        },
    ]
}

/// Returns the exhibit for logs of 2 in 10 s that merge several requests into one entry.
fn collapsing() -> Exhibit {
    Exhibit {
        broken: Limiter::under("sliding-log 2/10s"),
        shipped: Limiter::under("sliding-log 2/10s"),
        judge: judge::envelopes("sliding-log 2/10s"),
        way: searched_slowly(&[a(Deed::Acquire(1)), Step::Wait(S)], 4, 7),
    }
}

/// Returns a name for a request, as clients draw them.
fn name(world: &mut World, who: char) -> String {
    let drawn = world.memory.entry(who).or_default();
    *drawn += 1;
    format!("{who}{drawn}")
}

fn shenyu(world: &mut World, ask: &Ask) -> Option<Seen> {
    let Deed::Acquire(1) = ask.deed else { return None };
    let keys = format!("log {}", name(world, ask.who));
    let argv = format!("1 1 {}", ask.now_us / S);
    Some(admitted_and_left(world.eval(SHENYU, &keys, &argv)))
}

/// Counts in one command, and adds in another one.
fn read_then_write(world: &mut World, ask: &Ask) -> Option<Seen> {
    match ask.deed {
        Deed::Read if !world.memory.contains_key(&ask.who) => {
            let used = number(&world.command("ZCARD log")).ok()?;
            world.memory.insert(ask.who, used);
            Some(Seen::Nothing)
        }
        Deed::Write => {
            if world.memory.remove(&ask.who)? >= 1 {
                return Some(Seen::Denied { retry_after_us: None });
            }
            world.command(&format!("ZADD log {} {}", ask.now_us, ask.who));
            Some(Seen::Admitted { remaining: Some(0) })
        }
        _ => None,
    }
}

fn unpacks(world: &mut World, ask: &Ask) -> Option<Seen> {
    let Deed::Acquire(1) = ask.deed else { return None };
    let argv = format!("10000 120000 {} {}", ask.now_us / MS, name(world, ask.who));
    Some(admitted(world.eval(UNPACK, "left permits", &argv)))
}

fn refunds_twice(world: &mut World, ask: &Ask) -> Option<Seen> {
    let (now, keys) = (ask.now_us / MS, "left permits");
    Some(match ask.deed {
        Deed::Acquire(1) => {
            let argv = format!("1 1000 {now} {}", name(world, ask.who));
            admitted(world.eval(ACQUIRE, keys, &argv))
        }
        Deed::Peek(1) => match number(&world.eval(AVAILABLE, keys, &format!("1 1000 {now}"))) {
            Ok(left @ 1..) => Seen::Admitted { remaining: u64::try_from(left).ok() },
            Ok(_) => Seen::Denied { retry_after_us: None },
            Err(error) => Seen::Failed(error),
        },
        Deed::GiveBack(cost) => match number(&world.eval(RELEASE, "left", &format!("1 {cost}"))) {
            Ok(back) => Seen::GivenBack(u64::try_from(back).ok()?),
            Err(error) => Seen::Failed(error),
        },
        _ => return None,
    })
}

/// Reads a reply that is 1 if the request is admitted.
fn admitted(reply: RespValue) -> Seen {
    match number(&reply) {
        Ok(1) => Seen::Admitted { remaining: None },
        Ok(_) => Seen::Denied { retry_after_us: None },
        Err(error) => Seen::Failed(error),
    }
}

/// Runs a log of 2 in 10 s, of times and costs.
fn waits_for_the_oldest(log: &mut Vec<(u64, u64)>, now: u64, _: char, deed: Deed) -> Option<Seen> {
    let Deed::Acquire(cost) = deed else { return None };
    log.retain(|(at, _)| now < at + 10 * S);
    let used: u64 = log.iter().map(|(_, cost)| cost).sum();
    if used + cost > 2 {
        let oldest = log.first()?.0;
        return Some(Seen::Denied { retry_after_us: Some(oldest + 10 * S - now) });
    }
    log.push((now, cost));
    Some(Seen::Admitted { remaining: Some(2 - used - cost) })
}
