//! Limiters of one process without a store decide as the machines do: every answer, on a clock that goes as it likes.

use std::fmt::Debug;
use std::sync::Arc;

use lockage::{Decision, Limit};
use lockage_core::{Clock as _, CostError, Gcra, ManualClock, Timestamp};
use lockage_memory::{GRACE, KeyedLimiter, LocalError, LocalLimiter, UnsupportedLimit};
use lockage_oracle::config::{Config, Kind, Shape};
use lockage_oracle::properties::{self, Check, cases, require};
use lockage_oracle::strategies::{Trace, forward_trace, trace};
use lockage_oracle::subject::{Answer, Machine, Op, Outcome, Subject};
use proptest::strategy::Strategy;

/// Cases per limiter and property when nothing is asked for: a few seconds in all.
const DEFAULT_CASES: u32 = 500;

/// Long enough to fill, empty and refill a limiter a few times.
const STEPS: usize = 40;

/// Kinds whose state is a few numbers.
const SHAPES: [Shape; 6] = [
    Shape::One(Kind::FixedWindow),
    Shape::One(Kind::SlidingWindow),
    Shape::One(Kind::TokenBucket),
    Shape::One(Kind::IntervalBucket),
    Shape::One(Kind::LeakyBucket),
    Shape::One(Kind::WarmupBucket),
];

type Clock = Arc<ManualClock>;

/// A limiter without a store, on a clock that is set before each operation.
struct Local<L> {
    limiter: L,
    clock: Clock,
}

trait Decides {
    fn acquire(&self, cost: u64) -> Result<Decision, CostError>;
    fn peek(&self, cost: u64) -> Decision;
    fn reset(&self) -> bool;
}

impl Decides for LocalLimiter<Clock> {
    fn acquire(&self, cost: u64) -> Result<Decision, CostError> {
        let ruling = self.try_acquire(cost)?;
        let decision = ruling.decision();
        assert_eq!(ruling.is_allowed(), decision.is_allowed());
        assert_eq!(ruling.remaining(), decision.remaining);
        assert_eq!(ruling.retry_after(), decision.retry_after());
        assert_eq!(ruling.reset_after(), decision.reset_after);
        assert_eq!(ruling.turn_after(), decision.turn_after);
        assert_eq!(ruling.limit(), decision.limit);
        Ok(decision)
    }

    fn peek(&self, cost: u64) -> Decision {
        LocalLimiter::peek(self, cost)
    }

    fn reset(&self) -> bool {
        LocalLimiter::reset(self)
    }
}

const KEY: &str = "the key";

impl Decides for KeyedLimiter<String, Clock> {
    fn acquire(&self, cost: u64) -> Result<Decision, CostError> {
        let ruling = match self.try_acquire(KEY, cost) {
            Ok(ruling) => ruling,
            Err(LocalError::Cost(error)) => return Err(error),
            Err(error) => panic!("there is room: {error}"),
        };
        let decision = ruling.decision();
        assert_eq!(ruling.is_allowed(), decision.is_allowed());
        Ok(decision)
    }

    fn peek(&self, cost: u64) -> Decision {
        KeyedLimiter::peek(self, KEY, cost)
    }

    fn reset(&self) -> bool {
        KeyedLimiter::reset(self, KEY)
    }
}

impl<L: Decides> Local<L> {
    fn new(limiter: impl Fn(Clock) -> Result<L, UnsupportedLimit>) -> Self {
        let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
        Local { limiter: limiter(Arc::clone(&clock)).expect("it takes these"), clock }
    }
}

impl Local<LocalLimiter<Clock>> {
    fn lone(limit: Limit) -> Self {
        Local::new(|clock| LocalLimiter::with_clock(limit, clock))
    }
}

impl Local<KeyedLimiter<String, Clock>> {
    fn keyed(limit: Limit) -> Self {
        Local::new(|clock| KeyedLimiter::with_clock(limit, clock))
    }
}

impl<L: Decides> Subject for Local<L> {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        self.clock.set(Timestamp::from_micros(now_us).expect("traces keep to what is accepted"));
        let acquire =
            |cost: &u64| Answer::from(self.limiter.acquire(*cost).expect("costs are above zero"));
        match op {
            Op::Acquire(cost) => Outcome::Decided(vec![acquire(cost)]),
            Op::AcquireEach(costs) => Outcome::Decided(costs.iter().map(acquire).collect()),
            Op::Peek(cost) => Outcome::Decided(vec![self.limiter.peek(*cost).into()]),
            Op::Reset => Outcome::Reset { existed: self.limiter.reset() },
            other => panic!("plain traces have no {other:?}"),
        }
    }

    fn forget(&mut self) {
        unreachable!("it is for stores")
    }
}

/// Checks that every outcome is the machine's, but for that of a reset where keys are dropped `between` operations.
fn equals_the_machine<L: Decides>(
    trace: &Trace,
    local: &mut Local<L>,
    between: impl Fn(&Local<L>),
) -> Check {
    let mut machine = Machine::new(trace.limits.limit());
    trace.play(&mut machine, |_, op, now_us, expected| {
        let seen = local.run(op, now_us);
        let told = || format!("{op:?} at {now_us}: {seen:?}, and the machine says {expected:?}");
        require(seen.decides_like(&expected), told)?;
        between(local);
        Ok(())
    })
}

fn each<S>(name: &str, input: impl Fn(Shape) -> S, check: impl Fn(S::Value) -> Check)
where
    S: Strategy,
    S::Value: Debug,
{
    properties::each(name, cases(DEFAULT_CASES), SHAPES, input, check);
}

#[test]
fn a_lone_limiter_decides_as_the_machine() {
    each(
        "local_lone",
        |shape| trace(shape, STEPS),
        |trace| equals_the_machine(&trace, &mut Local::lone(trace.limits.limit()), |_| ()),
    );
}

#[test]
fn a_keyed_limiter_decides_as_the_machine() {
    each(
        "local_keyed",
        |shape| trace(shape, STEPS),
        |trace| equals_the_machine(&trace, &mut Local::keyed(trace.limits.limit()), |_| ()),
    );
}

/// D9 and D12: with other keys next to it, and all expired ones dropped after each operation.
#[test]
fn d9_d12_dropping_expired_keys_is_unobservable() {
    each(
        "local_keyed_d9",
        |shape| forward_trace(shape, STEPS),
        |trace| {
            let mut local = Local::keyed(trace.limits.limit());
            equals_the_machine(&trace, &mut local, |local| {
                for other in 0..4 {
                    let now = local.limiter.peek("", 0).remaining;
                    let _ = local.limiter.try_acquire(&format!("{now} {other}"), 1);
                }
                // A key whose state has just expired is dropped now.
                let now = local.clock.now();
                local.clock.set(now.saturating_add(GRACE));
                local.limiter.purge();
                local.clock.set(now);
            })
        },
    );
}

/// E1 to E4, E6: the admissions of one word stay within the envelope, also where the clock steps back.
#[test]
fn e4_a_lone_limiter_stays_within_the_envelope() {
    each(
        "local_envelope",
        |shape| trace(shape, 2 * STEPS),
        |trace| {
            let mut lone = Local::lone(trace.limits.limit());
            properties::admitted_stays_within_the_envelope(&mut lone, &trace)
        },
    );
}

/// Rates and states on either side of the largest that fit into a word.
#[test]
fn d7_a_word_is_the_machine_at_its_bounds() {
    let second = 1_000_000;
    for (amount, span_us, burst, fits) in [
        (2048, 6561, 2048, true), // 3^8 and 2^11 have no divisor in common
        (2049, 6562, 2049, false),
        (1500, second, 1500, true),
        (9973, second, 9973, false),
        (1, 1, 1 << 51, true),
        (1, 1 << 51, 1, true),
        (2047, 2, (1 << 52) - 1, true),
    ] {
        let config = Config::bucket(Kind::TokenBucket, amount, span_us, burst);
        let limit = config.limit();
        assert_eq!(Gcra::of(&limit).is_some(), fits, "{limit}");
        let (mut lone, mut machine) = (Local::lone(limit), Machine::new(limit));
        let latest = Timestamp::MAX.as_micros();
        for now in [0, 1, latest - 1, latest, 0, latest / 2, latest] {
            for cost in [1, burst, burst / 2 + 1, 1, burst + 1, u64::MAX] {
                for op in [Op::Peek(cost), Op::Acquire(cost), Op::Peek(0)] {
                    assert_eq!(lone.run(&op, now), machine.run(&op, now), "{limit} {op:?} {now}");
                }
            }
        }
    }
}

#[test]
fn local_limiters_refuse_logs_and_composite_limits() {
    for text in ["sliding-log 5/s", "fixed-window 5/s + token-bucket 1/s"] {
        let limit: Limit = text.parse().expect("it is a limit");
        let refused = LocalLimiter::new(limit).expect_err("it does not take it");
        assert_eq!(refused.limit(), limit);
        assert!(refused.to_string().contains(&limit.to_string()));
        assert!(KeyedLimiter::<u64, _>::new(limit).is_err());
    }
    let limiter = LocalLimiter::new("fixed-window 5/s".parse().expect("a limit")).expect("it does");
    assert_eq!(limiter.try_acquire(0).map(|_| ()), Err(CostError::Zero));
}
