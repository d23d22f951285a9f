//! Bugs of sliding logs.

use super::{
    DENIED, MS, S, a, admitted, admitted_and_left, b, bug, lua, name, number, or_failed, own,
};
use crate::museum::step::Deed::{Acquire, AcquireTimes, GiveBack, Peek, Read, Write};
use crate::museum::step::Step::Wait;
use crate::museum::step::{Deed, Seen};
use crate::museum::subject::{Ask, World};
use crate::museum::{Entry, Property, Way, judge};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        bug(10, "one-member-per-second", "sockudo")
            .collapsing(
                "The member is the time in seconds, so all requests of a second are one entry.",
            )
            .script(lua("log_by_seconds"), ["log", "2 10 {s}"], admitted_and_left),
        bug(11, "members-of-14-digits", "blog scripts")
            .collapsing(
                "A time in microseconds that is put into text by `..` keeps 14 of its 16 digits, \
                so all requests of 100 us are one entry.",
            )
            .script(lua("log_by_concatenated_time"), ["log", "2 10000000"], admitted_and_left),
        bug(12, "members-by-chance", "blog scripts")
            .collapsing(
                "The member is a random number, and a script draws the same ones each time: there \
                is only ever one entry.",
            )
            .script(lua("log_by_chance"), ["log", "2 10000000"], admitted_and_left),
        bug(13, "counted-before-pruned", "shenyu")
            .about(
                "What is over is counted, and goes only then: exactly one window later, there is \
                still no room.",
                "at most 1 in 1 s",
            )
            .killed_by(Property::D1, judge::as_reference("sliding-log 1/s"))
            .shenyu(),
        bug(14, "read-then-write", "nostream, limitador")
            .about(
                "To count and to add are two commands. A client that counts in between counts the \
                same.",
                "at most 1 in 10 s",
            )
            .killed_by(Property::E2, judge::envelopes("sliding-log 1/10s"))
            .flow(read_then_write)
            .beside("sliding-log 1/10s")
            .searched([a(Read), a(Write), b(Read), b(Write)], 5),
        bug(18, "unpack-of-8000", "Redisson#3526")
            .about(
                "All entries that are over go in one ZREM, and Lua unpacks no more than 7999 \
                values: once there are more, each request is a script error, for ever.",
                "at most 10000 in 120 s",
            )
            .killed_by(Property::D12, judge::d12())
            .script(
                lua("redisson_rate_limiter_unpack"),
                ["left permits", "10000 120000 {ms} {name}"],
                admitted,
            )
            .beside("sliding-log 10000/120s")
            .given(
                &[a(AcquireTimes(8_000)), Wait(121 * S), a(Acquire(1))],
                "its 8000 requests are too many to try all traces",
            ),
        bug(21, "refunded-twice", "Redisson#7329")
            .about(
                "What is given back stays in the log. When it is over there, it comes back a \
                second time.",
                "at most 1 in 1 s",
            )
            .killed_by(Property::E2, judge::envelopes("sliding-log 1/s"))
            .client(refunds_twice)
            .beside("sliding-log 1/s")
            .searched([a(Acquire(1)), a(GiveBack(1)), a(Peek(1)), Wait(S)], 6),
        bug(22, "removed-by-rank", "blog scripts")
            .about(
                "ZREMRANGEBYRANK where ZREMRANGEBYSCORE was meant: the whole log goes each time.",
                "at most 1 in 10 s",
            )
            .emptied()
            .script(lua("log_removed_by_rank"), ["log", "1 10000 {ms} {name}"], admitted_and_left),
        bug(22, "seconds-and-milliseconds", "blog scripts")
            .about(
                "Times are in milliseconds and the window in seconds, so it is a thousandth of \
                what it should be.",
                "at most 1 in 10 s",
            )
            .emptied()
            .script(lua("log_of_two_units"), ["log", "1 10 {ms} {name}"], admitted_and_left),
        own("remaining-before-the-charge", "shenyu")
            .about("What is told to be left is what was left before.", "at most 1 in 1 s")
            .killed_by(Property::D4, judge::d4())
            .shenyu(),
        own("wait-for-the-oldest", "our own")
            .about(
                "retry_after is when the oldest entry is over, whether that frees enough or not.",
                "at most 2 in 10 s",
            )
            .killed_by(Property::D3, judge::d3(2, 10 * S))
            .machine(Vec::new(), waits_for_the_oldest)
            .beside("sliding-log 2/10s")
            .searched([a(Acquire(1)), a(Acquire(2)), Wait(S)], 5),
    ]
}

impl Entry {
    /// A log of 2 in 10 s that merges several requests into one entry.
    fn collapsing(self, about: &'static str) -> Self {
        self.about(about, "at most 2 in 10 s; a request takes 7 us")
            .killed_by(Property::E2, judge::envelopes("sliding-log 2/10s"))
            .beside("sliding-log 2/10s")
            .searched_slowly([a(Acquire(1)), Wait(S)], 4, 7)
    }

    /// A log of 1 in 10 s that is emptied too early.
    fn emptied(self) -> Self {
        self.killed_by(Property::E2, judge::envelopes("sliding-log 1/10s"))
            .beside("sliding-log 1/10s")
            .searched([a(Acquire(1)), Wait(50 * MS)], 4)
    }

    fn shenyu(self) -> Self {
        self.script(lua("shenyu_sliding_window"), ["log {name}", "1 1 {s}"], admitted_and_left)
            .beside("sliding-log 1/s")
            .searched([a(Acquire(1)), Wait(S)], 4)
    }

    /// Plays these steps alone.
    fn given(self, steps: &[crate::museum::Step], because: &'static str) -> Self {
        Entry { way: Way::Given { steps: steps.to_vec(), because }, ..self }
    }
}

/// Counts in one command, and adds in another one.
fn read_then_write(world: &mut World, ask: &Ask) -> Option<Seen> {
    match ask.deed {
        Read if !world.memory.contains_key(&ask.who) => {
            let used = number(&world.command("ZCARD log")).ok()?;
            world.memory.insert(ask.who, used);
            Some(Seen::Nothing)
        }
        Write => {
            if world.memory.remove(&ask.who)? >= 1 {
                return Some(DENIED);
            }
            world.command(&format!("ZADD log {} {}", ask.now_us, ask.who));
            Some(Seen::Admitted { remaining: Some(0) })
        }
        _ => None,
    }
}

fn refunds_twice(world: &mut World, ask: &Ask) -> Option<Seen> {
    let (now, keys) = (ask.now_us / MS, "left permits");
    Some(match ask.deed {
        Acquire(1) => {
            let argv = format!("1 1000 {now} {}", name(world, ask.who));
            admitted(world.eval(lua("redisson_rate_limiter_acquire"), keys, &argv))
        }
        Peek(1) => {
            let argv = format!("1 1000 {now}");
            let left = world.eval(lua("redisson_rate_limiter_available"), keys, &argv);
            or_failed(&left, |left| match u64::try_from(left) {
                Ok(left @ 1..) => Seen::Admitted { remaining: Some(left) },
                _ => DENIED,
            })
        }
        GiveBack(cost) => {
            let argv = format!("1 {cost}");
            let back = world.eval(lua("redisson_rate_limiter_release"), "left", &argv);
            match number(&back) {
                Ok(back) => Seen::GivenBack(u64::try_from(back).ok()?),
                Err(error) => Seen::Failed(error),
            }
        }
        _ => return None,
    })
}

/// Runs a log of 2 in 10 s, of times and costs.
fn waits_for_the_oldest(log: &mut Vec<(u64, u64)>, now: u64, _: char, deed: Deed) -> Option<Seen> {
    let Acquire(cost) = deed else { return None };
    log.retain(|(at, _)| now < at + 10 * S);
    let used: u64 = log.iter().map(|(_, cost)| cost).sum();
    if used + cost > 2 {
        let oldest = log.first()?.0;
        return Some(Seen::Denied { retry_after_us: Some(oldest + 10 * S - now) });
    }
    log.push((now, cost));
    Some(Seen::Admitted { remaining: Some(2 - used - cost) })
}
