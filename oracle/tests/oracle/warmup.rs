//! E10: a bucket with a warm-up starts slowly, and never admits more than one without.

use lockage_core::{Acquire, Decision, Limit, Timestamp, TokenBucket};
use lockage_oracle::config::{Config, Kind, Limits};
use lockage_oracle::key::{Key, Slot, time};
use lockage_oracle::properties::{Check, cases, property, require};
use lockage_oracle::strategies::config;
use lockage_oracle::warmup::Warmup;
use proptest::prelude::*;

const START_US: u64 = 1_763_700_000_000_000;

/// Pauses of a part of the span or of the warm-up, and costs of a part of the burst, in thousandths.
fn input() -> impl Strategy<Value = (Config, Vec<(bool, u64, u64)>)> {
    let pause = prop_oneof![3 => Just(0), 3 => 0..300_u64, 1 => 300..3_000_u64];
    let step = (any::<bool>(), pause, 1..=1_000_u64);
    (config(Kind::WarmupBucket), prop::collection::vec(step, 1..60))
}

fn acquire(slot: &mut Slot, limit: Limit, cost: u64, now_us: u64) -> Decision {
    let acquire = Acquire::new(limit, cost).expect("above zero");
    slot.execute(&acquire, time(now_us)).expect("it is a limiter")
}

fn share_of(number: u64, thousandths: u64) -> u64 {
    u64::try_from(u128::from(number) * u128::from(thousandths) / 1_000).expect("it is less")
}

#[test]
fn e10_a_cold_bucket_starts_slowly_and_a_bucket_without_a_warmup_admits_all_that_it_admits() {
    property("e10_warmup", cases(2_000), &input(), |(config, steps)| {
        let (mut own, mut other) = (Slot::default(), Slot::default());
        let limit = Limits::from(config).limit();
        let Limit::WarmupBucket(bucket) = limit else { panic!("{limit}") };
        let plain = TokenBucket::new(bucket.amount(), bucket.period(), bucket.burst());
        let plain = Limit::from(plain.expect("slower ones are accepted"));
        let rate = Warmup::new(config.amount.into(), config.span_us.into(), config.warmup_us);
        let (mut now_us, mut admitted) = (START_US, 0_u64);
        for (by_warmup, pause, part) in steps {
            let of = if by_warmup { config.warmup_us } else { config.span_us };
            now_us += share_of(of, pause);
            if now_us > Timestamp::MAX.as_micros() {
                break;
            }
            let cost = share_of(config.burst, part).max(1);
            if !acquire(&mut own, limit, cost, now_us).is_allowed() {
                continue;
            }
            admitted += cost;
            let is_plain = acquire(&mut other, plain, cost, now_us).is_allowed();
            require(is_plain, || format!("{plain} denies {cost} after {}", now_us - START_US))?;
            let most =
                i128::from(config.burst) + rate.until(i128::from(now_us - START_US)) / rate.unit();
            let seen = || format!("{admitted} admitted by {} us, not {most}", now_us - START_US);
            require(i128::from(admitted) <= most, seen)?;
        }
        Ok(())
    });
}

/// Asked at twice its full rate: its burst of 20, and 10, 20 ... 100 percent of its rate, where the first token comes after a
/// tenth of a second.
#[test]
fn each_tenth_of_a_warmup_admits_a_tenth_more() -> Check {
    let limit: Limit = "token-bucket 100/s burst 20 warmup 100s".parse().expect("a limit");
    let mut slot = Slot::default();
    let mut tenth = |number: u64| -> u64 {
        let from = START_US + number * 10_000_000;
        let asked = (0..2_000).map(|at| from + at * 5_000);
        asked.map(|now| u64::from(acquire(&mut slot, limit, 1, now).is_allowed())).sum()
    };
    let admitted: Vec<u64> = (0..12).map(&mut tenth).collect();
    assert_eq!(admitted, [119, 200, 300, 400, 500, 600, 700, 800, 900, 1_000, 1_000, 1_000]);
    // It is full at once, and cools for as long as it warmed up. Its record ends then.
    let full = acquire(&mut slot, limit, 1, START_US + 130_000_000);
    assert_eq!((full.remaining, full.reset_after.as_secs()), (19, 80));
    assert!(acquire(&mut slot, limit, 20, START_US + 300_000_000).is_allowed());
    let cold = acquire(&mut slot, limit, 1, START_US + 300_000_000);
    assert_eq!(cold.retry_after().map(|it| it.as_millis()), Some(100));
    Ok(())
}
