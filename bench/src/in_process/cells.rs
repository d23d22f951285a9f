//! The table of decisions: a cell has a number of threads, a clock, an outcome and keys.

use std::fmt::Display;
use std::hash::{Hash, Hasher};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use governor::RateLimiter;
use governor::clock::{FakeRelativeClock, QuantaClock, QuantaUpkeepClock};
use lockage_core::{Acquire, Clock, SystemClock};
use lockage_memory::{KeyedLimiter, LocalLimiter, MemoryStore, MonotonicClock, TickingClock};

use super::Args;
use super::peers::{Outcome, Standing, StandingInstant, standing};
use crate::measure::{Candidate, Rounds, Seen, check_part, side_by_side};

/// The number of keys of the rows with many.
const KEYS: u64 = 100_000;
/// The length of their order, which is drawn at random once and then repeated.
const ORDER: usize = 1 << 18;

const GOVERNOR: &str = "governor";
const OURS: &str = "lockage";
const OURS_TICKING: &str = "lockage, ticking clock";
const GOVERNOR_UPKEEP: &str = "governor, upkeep clock";
const RATELIMIT: &str = "ratelimit";
const LEAKY_BUCKET: &str = "leaky-bucket";
const GCRA: &str = "gcra";
const STORE: &str = "MemoryStore::run";

/// The candidates in the order of their columns, and whether their ratio to governor is shown.
const COLUMNS: [(&str, bool); 8] = [
    (GOVERNOR, false),
    (OURS, true),
    (OURS_TICKING, true),
    (GOVERNOR_UPKEEP, true),
    (RATELIMIT, false),
    (LEAKY_BUCKET, false),
    (GCRA, false),
    (STORE, false),
];

const THREADS: [usize; 2] = [1, 2];
const OUTCOMES: [Outcome; 2] = [Outcome::Admit, Outcome::Deny];
/// The names of clocks, and whether each is real.
const CLOCKS: [(&str, bool); 2] = [("real clock", true), ("manual clock", false)];
const NO_KEY: &str = "no key";
const ONE_KEY: &str = "one key";
const NUMBERS: &str = "100,000 numbers";
const STRINGS: &str = "100,000 strings";

/// Clocks shared by all candidates.
struct Clocks {
    monotonic: MonotonicClock,
    ticking: TickingClock,
    upkeep: QuantaUpkeepClock,
}

impl Clocks {
    fn start() -> Result<Self> {
        let tick = Duration::from_millis(1);
        Ok(Clocks {
            monotonic: MonotonicClock::new(),
            ticking: TickingClock::start(tick)?,
            upkeep: QuantaUpkeepClock::from_interval(tick).map_err(|e| anyhow::anyhow!("{e}"))?,
        })
    }
}

/// Returns how many decisions lockage and governor make in a second of a thread, admitted and denied, with one key and
/// their default clocks.
pub(super) fn beside_governor(rounds: &Rounds) -> Result<[(&'static str, [f64; 2]); 2]> {
    let clocks = Clocks::start()?;
    let [admit, deny] =
        OUTCOMES.map(|outcome| side_by_side(rounds, 1, &keyed(outcome, true, &clocks, &[42_u64])));
    Ok([OURS, GOVERNOR].map(|name| {
        let rate = |seen: &[Seen]| {
            let one = seen.iter().find(|one| one.name == name).expect("it is a candidate");
            1e9 / one.nanos
        };
        (name, [rate(&admit), rate(&deny)])
    }))
}

pub(super) fn run(args: &Args) -> Result<()> {
    check_part(args.only.as_deref(), &names())?;
    let clocks = Clocks::start()?;
    floors(args, &clocks);
    println!("\nNanoseconds of a thread for each decision:\n");
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.0).collect();
    println!("| | {} |", names.join(" | "));
    println!("|---{}|", "|---:".repeat(COLUMNS.len()));
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let one = [42_u64];
    let numbers: Vec<u64> = order().collect();
    let texts = strings();
    for threads in THREADS {
        for outcome in OUTCOMES {
            for (clock, is_real) in CLOCKS {
                let cell = |keys: &str, candidates: Make<'_>| {
                    let name = name(keys, outcome, clock, threads);
                    if wanted(&name) {
                        print_row(&name, &side_by_side(&args.rounds, threads, &candidates()));
                    }
                };
                cell(NO_KEY, &|| lone(outcome, is_real, &clocks));
                cell(ONE_KEY, &|| keyed(outcome, is_real, &clocks, &one));
                cell(NUMBERS, &|| keyed(outcome, is_real, &clocks, &numbers));
                cell(STRINGS, &|| keyed(outcome, is_real, &clocks, &texts));
            }
        }
    }
    Ok(())
}

/// Returns the names of all cells.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for threads in THREADS {
        for outcome in OUTCOMES {
            for (clock, _) in CLOCKS {
                let cells = [NO_KEY, ONE_KEY, NUMBERS, STRINGS];
                names.extend(cells.map(|keys| name(keys, outcome, clock, threads)));
            }
        }
    }
    names
}

fn name(keys: &str, outcome: Outcome, clock: &str, threads: usize) -> String {
    let s = if threads == 1 { "" } else { "s" };
    format!("{keys}, {}, {clock}, {threads} thread{s}", outcome.name())
}

/// Returns keys in a random order, the same one each time.
fn order() -> impl Iterator<Item = u64> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..ORDER).map(move |_| random.u64(..KEYS))
}

/// Returns them as text.
pub(super) fn strings() -> Vec<String> {
    order().map(|number| format!("user:{number}")).collect()
}

/// Creates the candidates of a cell.
type Make<'a> = &'a dyn Fn() -> Vec<Candidate<'a>>;

fn print_row(name: &str, seen: &[Seen]) {
    let cells =
        COLUMNS.map(|(column, has_ratio)| match seen.iter().find(|one| one.name == column) {
            None => "-".to_owned(),
            Some(one) if has_ratio => format!("{:.1} ({:.2})", one.nanos, one.ratio),
            Some(one) => format!("{:.1}", one.nanos),
        });
    println!("| {name} | {} |", cells.join(" | "));
    let all_alike =
        seen.iter().all(|one| one.admitted < 0.01) || seen.iter().all(|one| one.admitted > 0.99);
    assert!(all_alike, "{name}: they do not decide alike");
}

/// Candidates with one limit without keys.
fn lone<'a>(outcome: Outcome, is_real: bool, clocks: &Clocks) -> Vec<Candidate<'a>> {
    fn ours<'a>(name: &'static str, outcome: Outcome, clock: impl Clock + 'a) -> Candidate<'a> {
        let limiter = LocalLimiter::with_clock(outcome.limit(), clock).expect("it takes buckets");
        Candidate::new(name, move |_| limiter.try_acquire(1).is_ok_and(|told| told.is_allowed()))
    }
    let mut all = Vec::new();
    if is_real {
        let limiter = RateLimiter::direct(outcome.quota());
        all.push(Candidate::new(GOVERNOR, move |_| limiter.check().is_ok()));
        all.push(ours(OURS, outcome, clocks.monotonic.clone()));
        all.push(ours(OURS_TICKING, outcome, clocks.ticking.clone()));
        let limiter = RateLimiter::direct_with_clock(outcome.quota(), clocks.upkeep.clone());
        all.push(Candidate::new(GOVERNOR_UPKEEP, move |_| limiter.check().is_ok()));
        let limiter = outcome.ratelimit(ratelimit::StdClock::new());
        all.push(Candidate::new(RATELIMIT, move |_| limiter.try_wait().is_ok()));
        let limiter = outcome.leaky_bucket();
        all.push(Candidate::new(LEAKY_BUCKET, move |_| limiter.try_acquire(1)));
    } else {
        let limiter = RateLimiter::direct_with_clock(outcome.quota(), FakeRelativeClock::default());
        all.push(Candidate::new(GOVERNOR, move |_| limiter.check().is_ok()));
        all.push(ours(OURS, outcome, standing()));
        let limiter = outcome.ratelimit(Standing);
        all.push(Candidate::new(RATELIMIT, move |_| limiter.try_wait().is_ok()));
    }
    used_once(all, 1)
}

/// A key of the table, and how it is borrowed.
trait Key: Hash + Eq + Clone + Display + Send + Sync + 'static {
    fn ours<C: Clock>(limiter: &KeyedLimiter<Self, C>, key: &Self) -> bool;
    fn text(&self) -> Option<&str>;
}

impl Key for u64 {
    fn ours<C: Clock>(limiter: &KeyedLimiter<Self, C>, key: &Self) -> bool {
        limiter.try_acquire(key, 1).is_ok_and(|told| told.is_allowed())
    }

    fn text(&self) -> Option<&str> {
        None
    }
}

impl Key for String {
    fn ours<C: Clock>(limiter: &KeyedLimiter<Self, C>, key: &Self) -> bool {
        limiter.try_acquire(key.as_str(), 1).is_ok_and(|told| told.is_allowed())
    }

    fn text(&self) -> Option<&str> {
        Some(self)
    }
}

/// Candidates with one limit per key. The length of `keys` is a power of two.
fn keyed<'a, K: Key>(
    outcome: Outcome,
    is_real: bool,
    clocks: &Clocks,
    keys: &'a [K],
) -> Vec<Candidate<'a>> {
    fn ours<'a, K: Key>(
        name: &'static str,
        outcome: Outcome,
        clock: impl Clock + 'a,
        keys: &'a [K],
    ) -> Candidate<'a> {
        let limiter =
            KeyedLimiter::<K, _>::with_clock(outcome.limit(), clock).expect("it takes buckets");
        Candidate::new(name, move |number| K::ours(&limiter, at(keys, number)))
    }
    fn others<'a, K: Key>(
        outcome: Outcome,
        clock: impl governor::clock::Clock + Send + Sync + 'a,
        name: &'static str,
        keys: &'a [K],
    ) -> Candidate<'a> {
        let limiter = RateLimiter::dashmap_with_clock(outcome.quota(), clock);
        Candidate::new(name, move |number| limiter.check_key(at(keys, number)).is_ok())
    }
    fn gcra<'a, K: Key, C: gcra::clock::Clock + Send + Sync + 'a>(
        outcome: Outcome,
        limiter: gcra::RateLimiter<K, C>,
        keys: &'a [K],
    ) -> Candidate<'a> {
        let limit = outcome.gcra();
        Candidate::new(GCRA, move |number| {
            let key = at(keys, number).clone();
            pollster::block_on(limiter.check(key, &limit, 1)).is_ok()
        })
    }
    fn store<'a, K: Key>(
        outcome: Outcome,
        clock: impl Clock + 'a,
        keys: &'a [K],
    ) -> Option<Candidate<'a>> {
        keys[0].text()?;
        let store = MemoryStore::with_clock(clock);
        let command = Acquire::new(outcome.limit(), 1).expect("the cost is not zero");
        Some(Candidate::new(STORE, move |number| {
            let key = at(keys, number).text().unwrap_or_default();
            store.run(key, &command).is_ok_and(|decision| decision.is_allowed())
        }))
    }
    let mut all = Vec::new();
    if is_real {
        all.push(others(outcome, QuantaClock::default(), GOVERNOR, keys));
        all.push(ours(OURS, outcome, clocks.monotonic.clone(), keys));
        all.push(ours(OURS_TICKING, outcome, clocks.ticking.clone(), keys));
        all.push(others(outcome, clocks.upkeep.clone(), GOVERNOR_UPKEEP, keys));
        all.push(gcra(outcome, gcra::RateLimiter::new(keys.len()), keys));
        all.extend(store(outcome, SystemClock, keys));
    } else {
        all.push(others(outcome, FakeRelativeClock::default(), GOVERNOR, keys));
        all.push(ours(OURS, outcome, standing(), keys));
        let clock = StandingInstant(Instant::now());
        all.push(gcra(outcome, gcra::RateLimiter::with_clock(clock), keys));
        all.extend(store(outcome, standing(), keys));
    }
    used_once(all, keys.len())
}

#[inline]
fn at<K>(keys: &[K], number: usize) -> &K {
    &keys[number & (keys.len() - 1)]
}

/// Makes all keys known to all candidates, and uses up their first allowance.
fn used_once(candidates: Vec<Candidate<'_>>, keys: usize) -> Vec<Candidate<'_>> {
    for candidate in &candidates {
        candidate.run(keys);
    }
    candidates
}

/// Measures the floors: primitives that a limiter needs, and clocks.
fn floors(args: &Args, clocks: &Clocks) {
    let word = AtomicU64::new(0);
    let exchange = move |_| {
        let seen = word.load(Ordering::Relaxed);
        word.compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Acquire).is_ok()
    };
    let mutex = Mutex::new(0_u64);
    let lock = move |_| {
        *mutex.lock().expect("it does not panic") += 1;
        true
    };
    fn ours<'a>(name: &'static str, clock: impl Clock + 'a) -> Candidate<'a> {
        Candidate::new(name, move |_| black_box(clock.now()).as_micros() > 0)
    }
    fn others<'a>(
        name: &'static str,
        clock: impl governor::clock::Clock + Send + Sync + 'a,
    ) -> Candidate<'a> {
        Candidate::new(name, move |_| {
            black_box(clock.now());
            true
        })
    }
    let hashed = |number: usize| {
        let mut hasher = std::hash::DefaultHasher::new();
        number.hash(&mut hasher);
        hasher.finish() > 0
    };
    let candidates = [
        Candidate::new("one compare-exchange", exchange),
        Candidate::new("one lock and unlock of a `Mutex`", lock),
        Candidate::new("SipHash of a number", hashed),
        others("clock: governor's, quanta", QuantaClock::default()),
        others("clock: governor's, quanta with upkeep", clocks.upkeep.clone()),
        ours("clock: `MonotonicClock`", clocks.monotonic.clone()),
        ours("clock: `TickingClock`", clocks.ticking.clone()),
        ours("clock: `SystemClock`", SystemClock),
        Candidate::new("clock: `Instant::now`", |_| {
            black_box(Instant::now());
            true
        }),
    ];
    println!("Nanoseconds of a thread, alone:\n\n| | |\n|---|---:|");
    for seen in side_by_side(&args.rounds, 1, &candidates) {
        println!("| {} | {:.1} |", seen.name, seen.nanos);
    }
}
