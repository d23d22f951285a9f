//! Bugs of buckets.

use super::{DENIED, MS, S, a, admitted_and_left, b, bug, left, lua, own, scripted};
use crate::museum::step::Deed::{Acquire, Evict, Peek};
use crate::museum::step::Step::Wait;
use crate::museum::step::{Deed, Seen};
use crate::museum::subject::{Clocks, Foreign, Limiter, Run};
use crate::museum::{Entry, Property, judge};

/// How many microseconds the clocks are ahead, in the entry in which clocks differ.
const CLOCKS: Clocks = &[('A', 10 * S as i64)];

pub(super) fn entries() -> Vec<Entry> {
    vec![
        bug(3, "denied-requests-burn-tokens", "upstash token bucket")
            .about(
                "A request that is denied takes its tokens nevertheless, also below zero.",
                "2 tokens, 1 more every 1 s",
            )
            .killed_by(Property::D5, judge::probes_change_nothing())
            .script(lua("upstash_token_bucket"), ["bucket", "2 1000 1 {ms} {cost}"], left)
            .beside("token-bucket 1 every 1s burst 2")
            .searched([a(Acquire(1)), a(Acquire(2)), Wait(S)], 5),
        bug(7, "ttl-of-zero", "spring-cloud-gateway, throttlecrab burst 1")
            .about(
                "The TTL is rounded down. Where it comes to 0 nothing is stored, and nothing is \
                ever limited.",
                "a bucket of 1, refilled at 10 per s",
            )
            .killed_by(Property::E4, judge::envelopes("token-bucket 10/s burst 1"))
            .script(lua(SPRING), ["tokens timestamp", "10 1 {s} {cost}"], admitted_and_left)
            .beside("token-bucket 10/s burst 1")
            .searched([a(Acquire(1)), Wait(S)], 4),
        Entry {
            broken: Box::new(|| {
                let words = ["tokens timestamp", "1 1 {s} {cost}"];
                Foreign::by_clocks(CLOCKS, scripted(lua(SPRING), words, admitted_and_left))
            }),
            shipped: Box::new(|| Limiter::by_clocks("token-bucket 1/s burst 1", CLOCKS)),
            ..bug(8, "clock-set-back", "spring-cloud-gateway, go-zero")
                .about(
                    "Clients send their own time. One whose clock is behind sets the bucket's time \
                    back, and the next one gets the time in between a second time.",
                    "a bucket of 1, refilled at 1 per s; A's clock is 10 s ahead of B's",
                )
                .killed_by(Property::D10, judge::d10("token-bucket 1/s burst 1", CLOCKS))
                .searched([a(Acquire(1)), b(Acquire(1))], 5)
        },
        bug(9, "arrival-time-in-floating-point", "redis_rate")
            .about(
                "The arrival time is in seconds, in floating point. What should be exactly equal \
                is a little less, and fewer than the burst are admitted.",
                TEN,
            )
            .killed_by(Property::D1, judge::as_reference("token-bucket 10/s burst 10"))
            .redis_rate(),
        bug(9, "remaining-one-too-low", "redis_rate")
            .about("8.9999 tokens are left of 9, and the reply drops the fraction.", TEN)
            .killed_by(Property::D4, judge::d4())
            .redis_rate(),
        bug(15, "retry-after-rounded-down", "redis-cell")
            .about(
                "retry_after is in whole seconds, rounded down. A client that obeys it is denied \
                again.",
                "a bucket of 1, refilled at 1 per 1.5 s",
            )
            .in_whole_seconds(|tat, now, _, deed| one_in_1500_ms(tat, now, deed, u64::div_euclid)),
        bug(16, "full-bucket-keeps-its-time", "glide-mq")
            .about(
                "A bucket that is full is not refilled, and its time stays as it was. Once it is \
                emptied, it is refilled for all the time that it was full: twice the burst at \
                once.",
                ONE,
            )
            .killed_by(Property::E4, judge::envelopes("token-bucket 1/s burst 1"))
            .client(|world, ask| {
                let (cost, takes) = match ask.deed {
                    Acquire(cost) => (cost, 1),
                    Peek(cost) => (cost, 0),
                    _ => return None,
                };
                let argv = format!("1 1 {} {cost} {takes}", ask.now_us / MS);
                Some(admitted_and_left(world.eval(lua("glide_mq_token_bucket"), "group", &argv)))
            })
            .beside("token-bucket 1/s burst 1")
            .searched([a(Acquire(1)), a(Peek(1)), Wait(S)], 5),
        bug(17, "floored-refill", "several")
            .about(
                "Each look refills whole tokens, rounded down, and moves the time to now. A client \
                that looks often enough gets none.",
                ONE,
            )
            .killed_by(Property::D6, judge::probes_change_nothing())
            .machine((1, 0), |(tokens, last): &mut Bucket, now, _, deed| {
                *tokens = (*tokens + (now - *last) / S).min(1);
                *last = now;
                take(tokens, deed)
            })
            .beside("token-bucket 1/s burst 1")
            .searched([a(Acquire(1)), a(Peek(1)), Wait(600 * MS)], 5),
        bug(31, "undefined-min", "tutorials")
            .about(
                "The script calls `min`, which Lua has as `math.min`. Each call reads, and fails.",
                "a bucket of 2, refilled at 1 per s",
            )
            .killed_by(Property::D12, judge::d12())
            .script(lua("bucket_with_undefined_min"), ["bucket", "2 1 {s}"], admitted_and_left)
            .beside("token-bucket 1/s burst 2")
            .searched([a(Acquire(1)), Wait(S)], 4),
        bug(32, "second-key-undeclared", "tutorials")
            .about(
                "The time of the last refill is under a key of its own, of another lifetime. Where \
                it is evicted alone, each call fails until the tokens are gone too. The script \
                declares one key, and so is illegal in a cluster.",
                "2 tokens, 1 more every 1 s",
            )
            .killed_by(Property::D12, judge::d12())
            .client(|world, ask| match ask.deed {
                Acquire(1) => {
                    let argv = format!("2 1 1 {}", ask.now_us / S);
                    Some(left(world.eval(lua("bucket_with_undeclared_key"), "bucket", &argv)))
                }
                Evict => {
                    world.command("DEL bucket_time");
                    Some(Seen::Nothing)
                }
                _ => None,
            })
            .beside("token-bucket 1 every 1s burst 2")
            .searched([a(Acquire(1)), a(Evict), Wait(S)], 4),
        own("retry-after-rounded-up", "many")
            .about(
                "retry_after is in whole seconds, rounded up. A client that obeys it waits for a \
                token that is long there.",
                "a bucket of 1, refilled at 1 per 1.5 s",
            )
            .in_whole_seconds(|tat, now, _, deed| one_in_1500_ms(tat, now, deed, u64::div_ceil)),
        own("interval-refilled-again", "our own")
            .about(
                "The tokens of an interval are added, and its beginning stays: each request in it \
                adds them again.",
                "1 token, 1 more every 1 s",
            )
            .killed_by(Property::E5, judge::envelopes("token-bucket 1 every 1s burst 1"))
            .machine((1, 0), |(tokens, began): &mut Bucket, now, _, deed| {
                *tokens = (*tokens + (now - *began) / S).min(1);
                take(tokens, deed)
            })
            .beside("token-bucket 1 every 1s burst 1")
            .searched([a(Acquire(1)), Wait(S)], 5),
        own("gcra-a-tick-late", "our own")
            .about(
                "GCRA with > where >= was meant: at the very instant at which the bucket has a \
                token again, there is none.",
                ONE,
            )
            .killed_by(Property::D7, judge::as_reference("token-bucket 1/s burst 1"))
            .machine(None, |tat: &mut Tat, now, _, deed| {
                let Acquire(1) = deed else { return None };
                if tat.is_some_and(|tat| now <= tat) {
                    return Some(DENIED);
                }
                *tat = Some(now + S);
                Some(Seen::Admitted { remaining: Some(0) })
            })
            .beside("token-bucket 1/s burst 1")
            .searched([a(Acquire(1)), Wait(S)], 4),
    ]
}

const SPRING: &str = "spring_request_rate_limiter";
const ONE: &str = "a bucket of 1, refilled at 1 per s";
const TEN: &str = "a bucket of 10, refilled at 10 per s";

impl Entry {
    fn redis_rate(self) -> Self {
        self.script(lua("redis_rate_allow_n"), ["tat", "10 10 1 {cost}"], admitted_and_left)
            .beside("token-bucket 10/s burst 10")
            .searched([a(Acquire(1)), a(Acquire(9)), Wait(100 * MS)], 6)
    }

    /// A bucket of 1, refilled in 1.5 s, that reports its wait in whole seconds.
    fn in_whole_seconds(self, run: Run<Tat>) -> Self {
        self.killed_by(Property::D2, judge::d2())
            .machine(None, run)
            .beside("token-bucket 2/3s burst 1")
            .searched([a(Acquire(1)), Wait(S)], 4)
    }
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
    let Acquire(1) = deed else { return None };
    if let Some(tat) = tat.filter(|tat| now < *tat) {
        return Some(Seen::Denied { retry_after_us: Some(in_whole(tat - now, S) * S) });
    }
    *tat = Some(now + 1_500 * MS);
    Some(Seen::Admitted { remaining: Some(0) })
}

/// The tokens, and the time of their last refill.
type Bucket = (u64, u64);

fn take(tokens: &mut u64, deed: Deed) -> Option<Seen> {
    match deed {
        Acquire(1) | Peek(1) if *tokens == 0 => return Some(DENIED),
        Acquire(1) => *tokens -= 1,
        Peek(1) => {}
        _ => return None,
    }
    Some(Seen::Admitted { remaining: Some(*tokens) })
}
