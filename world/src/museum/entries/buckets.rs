//! Bugs of buckets.

use super::{MS, S, a, admitted_and_left, b, left, searched};
use crate::museum::judge;
use crate::museum::step::{Deed, Seen, Step};
use crate::museum::subject::{Ask, Foreign, Limiter, Machine, World};
use crate::museum::{Entry, Exhibit, Kind, Property};

const UPSTASH: &str = include_str!("../../../museum/upstash_token_bucket.lua");
const SPRING: &str = include_str!("../../../museum/spring_request_rate_limiter.lua");
const REDIS_RATE: &str = include_str!("../../../museum/redis_rate_allow_n.lua");
const GLIDE_MQ: &str = include_str!("../../../museum/glide_mq_token_bucket.lua");
const UNDEFINED_MIN: &str = include_str!("../../../museum/bucket_with_undefined_min.lua");
const UNDECLARED_KEY: &str = include_str!("../../../museum/bucket_with_undeclared_key.lua");

/// How many microseconds the clocks are ahead, in the entry in which clocks differ.
const CLOCKS: &[(char, i64)] = &[('A', 10 * S as i64)];

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry {
            bug: Some(3),
            name: "denied-requests-burn-tokens",
            seen_in: "upstash token bucket",
            kind: Kind::Script,
            property: Property::D5,
            about: "A request that is denied takes its tokens nevertheless, also below zero.",
            scene: "2 tokens, 1 more every 1 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(cost) = ask.deed else { return None };
                    let argv = format!("2 1000 1 {} {cost}", ask.now_us / MS);
                    Some(left(world.eval(UPSTASH, "bucket", &argv)))
                }),
                shipped: Limiter::under("token-bucket 1 every 1s burst 2"),
                judge: judge::probes_change_nothing(),
                way: searched(&[a(Deed::Acquire(1)), a(Deed::Acquire(2)), Step::Wait(S)], 5),
            },
        },
        Entry {
            bug: Some(7),
            name: "ttl-of-zero",
            seen_in: "spring-cloud-gateway, throttlecrab burst 1",
            kind: Kind::Script,
            property: Property::E4,
            about: "The TTL is rounded down. Where it comes to 0 nothing is stored, and nothing \
                is ever limited.",
            scene: "a bucket of 1, refilled at 10 per s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| spring(world, ask, "10 1", &[])),
                shipped: Limiter::under("token-bucket 10/s burst 1"),
                judge: judge::envelopes("token-bucket 10/s burst 1"),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(S)], 4),
            },
        },
        Entry {
            bug: Some(8),
            name: "clock-set-back",
            seen_in: "spring-cloud-gateway, go-zero",
            kind: Kind::Script,
            property: Property::D10,
            about: "Clients send their own time. One whose clock is behind sets the bucket's time \
                back, and the next one gets the time in between a second time.",
            scene: "a bucket of 1, refilled at 1 per s; A's clock is 10 s ahead of B's",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| spring(world, ask, "1 1", CLOCKS)),
                shipped: Limiter::by_clocks("token-bucket 1/s burst 1", CLOCKS),
                judge: judge::d10("token-bucket 1/s burst 1", CLOCKS),
                way: searched(&[a(Deed::Acquire(1)), b(Deed::Acquire(1))], 5),
            },
        },
        Entry {
            bug: Some(9),
            name: "arrival-time-in-floating-point",
            seen_in: "redis_rate",
            kind: Kind::Script,
            property: Property::D1,
            about: "The arrival time is in seconds, in floating point. What should be exactly \
                equal is a little less, and fewer than the burst are admitted.",
            scene: "a bucket of 10, refilled at 10 per s",
            exhibit: || Exhibit {
                broken: Foreign::by(redis_rate),
                shipped: Limiter::under("token-bucket 10/s burst 10"),
                judge: judge::as_reference("token-bucket 10/s burst 10"),
                way: searched(&[a(Deed::Acquire(1)), a(Deed::Acquire(9)), Step::Wait(100 * MS)], 6),
            },
        },
        Entry {
            bug: Some(9),
            name: "remaining-one-too-low",
            seen_in: "redis_rate",
            kind: Kind::Script,
            property: Property::D4,
            about: "8.9999 tokens are left of 9, and the reply drops the fraction.",
            scene: "a bucket of 10, refilled at 10 per s",
            exhibit: || Exhibit {
                broken: Foreign::by(redis_rate),
                shipped: Limiter::under("token-bucket 10/s burst 10"),
                judge: judge::d4(),
                way: searched(&[a(Deed::Acquire(1)), a(Deed::Acquire(9)), Step::Wait(100 * MS)], 6),
            },
        },
        Entry {
            bug: Some(15),
            name: "retry-after-rounded-down",
            seen_in: "redis-cell",
            kind: Kind::Machine,
            property: Property::D2,
            about: "retry_after is in whole seconds, rounded down. A client that obeys it is denied \
                again.",
            scene: "a bucket of 1, refilled at 1 per 1.5 s",
            exhibit: || Exhibit {
                broken: Machine::of(None, |tat, now, _, deed| {
                    one_in_1500_ms(tat, now, deed, u64::div_euclid)
                }),
                shipped: Limiter::under("token-bucket 2/3s burst 1"),
                judge: judge::d2(),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(S)], 4),
            },
        },
        Entry {
            bug: Some(16),
            name: "full-bucket-keeps-its-time",
            seen_in: "glide-mq",
            kind: Kind::Script,
            property: Property::E4,
            about: "A bucket that is full is not refilled, and its time stays as it was. Once it \
                is emptied, it is refilled for all the time that it was full: twice the burst at \
                once.",
            scene: "a bucket of 1, refilled at 1 per s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let (cost, takes) = match ask.deed {
                        Deed::Acquire(cost) => (cost, 1),
                        Deed::Peek(cost) => (cost, 0),
                        _ => return None,
                    };
                    let argv = format!("1 1 {} {cost} {takes}", ask.now_us / MS);
                    Some(admitted_and_left(world.eval(GLIDE_MQ, "group", &argv)))
                }),
                shipped: Limiter::under("token-bucket 1/s burst 1"),
                judge: judge::envelopes("token-bucket 1/s burst 1"),
                way: searched(&[a(Deed::Acquire(1)), a(Deed::Peek(1)), Step::Wait(S)], 5),
            },
        },
        Entry {
            bug: Some(17),
            name: "floored-refill",
            seen_in: "several",
            kind: Kind::Machine,
            property: Property::D6,
            about: "Each look refills whole tokens, rounded down, and moves the time to now. \
                A client that looks often enough gets none.",
            scene: "a bucket of 1, refilled at 1 per s",
            exhibit: || Exhibit {
                broken: Machine::of((1, 0), refills_whole_tokens),
                shipped: Limiter::under("token-bucket 1/s burst 1"),
                judge: judge::probes_change_nothing(),
                way: searched(&[a(Deed::Acquire(1)), a(Deed::Peek(1)), Step::Wait(600 * MS)], 5),
            },
        },
        Entry {
            bug: Some(31),
            name: "undefined-min",
            seen_in: "tutorials",
            kind: Kind::Script,
            property: Property::D12,
            about: "The script calls `min`, which Lua has as `math.min`. Each call reads, and fails.",
            scene: "a bucket of 2, refilled at 1 per s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| {
                    let Deed::Acquire(1) = ask.deed else { return None };
                    let argv = format!("2 1 {}", ask.now_us / S);
                    Some(admitted_and_left(world.eval(UNDEFINED_MIN, "bucket", &argv)))
                }),
                shipped: Limiter::under("token-bucket 1/s burst 2"),
                judge: judge::d12(),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(S)], 4),
            },
        },
        Entry {
            bug: Some(32),
            name: "second-key-undeclared",
            seen_in: "tutorials",
            kind: Kind::Script,
            property: Property::D12,
            about: "The time of the last refill is under a key of its own, of another lifetime. Where \
                it is evicted alone, each call fails until the tokens are gone too. The script declares \
                one key, and so is illegal in a cluster.",
            scene: "2 tokens, 1 more every 1 s",
            exhibit: || Exhibit {
                broken: Foreign::by(|world, ask| match ask.deed {
                    Deed::Acquire(1) => {
                        let argv = format!("2 1 1 {}", ask.now_us / S);
                        Some(left(world.eval(UNDECLARED_KEY, "bucket", &argv)))
                    }
                    Deed::Evict => {
                        world.command("DEL bucket_time");
                        Some(Seen::Nothing)
                    }
                    _ => None,
                }),
                shipped: Limiter::under("token-bucket 1 every 1s burst 2"),
                judge: judge::d12(),
                way: searched(&[a(Deed::Acquire(1)), a(Deed::Evict), Step::Wait(S)], 4),
            },
        },
        Entry {
            bug: None,
            name: "retry-after-rounded-up",
            seen_in: "many",
            kind: Kind::Machine,
            property: Property::D2,
            about: "retry_after is in whole seconds, rounded up. A client that obeys it waits for a token \
                that is long there.",
            scene: "a bucket of 1, refilled at 1 per 1.5 s",
            exhibit: || Exhibit {
                broken: Machine::of(None, |tat, now, _, deed| {
                    one_in_1500_ms(tat, now, deed, u64::div_ceil)
                }),
                shipped: Limiter::under("token-bucket 2/3s burst 1"),
                judge: judge::d2(),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(S)], 4),
            },
        },
        Entry {
            bug: None,
            name: "interval-refilled-again",
            seen_in: "our own",
            kind: Kind::Machine,
            property: Property::E5,
            about: "The tokens of an interval are added, and its beginning stays: each request in \
                it adds them again.",
            scene: "1 token, 1 more every 1 s",
            exhibit: || Exhibit {
                broken: Machine::of((1, 0), refills_again),
                shipped: Limiter::under("token-bucket 1 every 1s burst 1"),
                judge: judge::envelopes("token-bucket 1 every 1s burst 1"),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(S)], 5),
            },
        },
        Entry {
            bug: None,
            name: "gcra-a-tick-late",
            seen_in: "our own",
            kind: Kind::Machine,
            property: Property::D7,
            about: "GCRA with > where >= was meant: at the very instant at which the bucket has a \
                token again, there is none.",
            scene: "a bucket of 1, refilled at 1 per s",
            exhibit: || Exhibit {
                broken: Machine::of(None, gcra_a_tick_late),
                shipped: Limiter::under("token-bucket 1/s burst 1"),
                judge: judge::as_reference("token-bucket 1/s burst 1"),
                way: searched(&[a(Deed::Acquire(1)), Step::Wait(S)], 4),
            },
        },
    ]
}

fn spring(world: &mut World, ask: &Ask, limit: &str, clocks: &[(char, i64)]) -> Option<Seen> {
    let Deed::Acquire(cost) = ask.deed else { return None };
    let ahead = clocks.iter().find(|(client, _)| *client == ask.who).map_or(0, |(_, ahead)| *ahead);
    let now = ask.now_us.saturating_add_signed(ahead) / S;
    let argv = format!("{limit} {now} {cost}");
    Some(admitted_and_left(world.eval(SPRING, "tokens timestamp", &argv)))
}

fn redis_rate(world: &mut World, ask: &Ask) -> Option<Seen> {
    let Deed::Acquire(cost) = ask.deed else { return None };
    Some(admitted_and_left(world.eval(REDIS_RATE, "tat", &format!("10 10 1 {cost}"))))
}

/// The time at which the only token returns.
type Tat = Option<u64>;

/// GCRA of 1 in 1.5 s that reports its wait in whole seconds.
fn one_in_1500_ms(
    tat: &mut Tat,
    now: u64,
    deed: Deed,
    in_whole: fn(u64, u64) -> u64,
) -> Option<Seen> {
    let Deed::Acquire(1) = deed else { return None };
    if let Some(tat) = tat.filter(|tat| now < *tat) {
        return Some(Seen::Denied { retry_after_us: Some(in_whole(tat - now, S) * S) });
    }
    *tat = Some(now + 1_500 * MS);
    Some(Seen::Admitted { remaining: Some(0) })
}

/// The tokens, and the time of their last refill.
type Bucket = (u64, u64);

fn refills_whole_tokens(
    (tokens, last): &mut Bucket,
    now: u64,
    _: char,
    deed: Deed,
) -> Option<Seen> {
    *tokens = (*tokens + (now - *last) / S).min(1);
    *last = now;
    take(tokens, deed)
}

fn refills_again((tokens, began): &mut Bucket, now: u64, _: char, deed: Deed) -> Option<Seen> {
    *tokens = (*tokens + (now - *began) / S).min(1);
    take(tokens, deed)
}

fn take(tokens: &mut u64, deed: Deed) -> Option<Seen> {
    match deed {
        Deed::Acquire(1) | Deed::Peek(1) if *tokens == 0 => {
            Some(Seen::Denied { retry_after_us: None })
        }
        Deed::Peek(1) => Some(Seen::Admitted { remaining: Some(*tokens) }),
        Deed::Acquire(1) => {
            *tokens -= 1;
            Some(Seen::Admitted { remaining: Some(*tokens) })
        }
        _ => None,
    }
}

fn gcra_a_tick_late(tat: &mut Tat, now: u64, _: char, deed: Deed) -> Option<Seen> {
    let Deed::Acquire(1) = deed else { return None };
    if tat.is_some_and(|tat| now <= tat) {
        return Some(Seen::Denied { retry_after_us: None });
    }
    *tat = Some(now + S);
    Some(Seen::Admitted { remaining: Some(0) })
}
