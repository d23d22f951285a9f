//! Several requests in one decision, beside the same requests one by one on keys of their own.

use std::time::Duration;

use lockage::limiter::{Cost, RequestId};
use lockage::{Decision, Key, Limit, Store, StoreError};
use lockage_core::{Acquire, AcquireAll, Adjust, Peek, Reset};

/// The limits of the keys, of which one is drawn now and then anew.
const LIMITS: [&str; 11] = [
    "fixed-window 5/10s",
    "sliding-log 5/10s",
    "sliding-window 5/10s",
    "token-bucket 5/10s burst 5",
    "token-bucket 2 every 3s burst 5",
    "leaky-bucket 5/10s queue 5",
    "calendar-window 5/day",
    "fixed-window 5/10s + token-bucket 5/10s burst 5",
    "sliding-log 5/10s + sliding-window 5/10s + sliding-log 5/3s",
    "sliding-log 5/10s + fixed-window 4/5s",
    "leaky-bucket 5/10s queue 5 + fixed-window 5/10s",
];

const MEMORY: Duration = Duration::from_secs(7);
const KEYS: usize = 4;

/// Draws numbers; the same ones for one seed (SplitMix64, <https://prng.di.unimi.it/splitmix64.c>).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }
}

/// The store, its clock, and the time at which the clock starts, in microseconds since the epoch.
pub(super) struct Both<'a, S> {
    pub(super) name: &'a str,
    pub(super) store: &'a S,
    pub(super) set_us: &'a dyn Fn(u64),
    pub(super) start_us: u64,
}

/// One key in both ways, and its limit.
struct Pair {
    together: Key,
    alone: Key,
    limit: Limit,
}

/// A call that was admitted under an id, and may be repeated.
struct Named {
    all: AcquireAll,
    keys: Vec<usize>,
    decisions: Vec<Decision>,
    until_us: u64,
}

/// D18: requests on several keys are all charged, each as if alone, or none is; a repetition under its id gets the same
/// answer (D11). A store that decides on one key at a time is excused.
pub(super) async fn all_are_charged_or_none<S: Store>(bench: &Both<'_, S>, seed: u64, calls: u32) {
    let (mut draw, mut now_us) = (Draw(seed), bench.start_us);
    let key = |way, at| Key::new(&format!("{}-all-{seed}-{way}", bench.name), at).expect("a key");
    let mut pairs: Vec<Pair> = ["{t}:1", "{t}:2", "{t}:3", "{t}:4"]
        .map(|at| Pair {
            together: key("together", at),
            alone: key("alone", at),
            limit: limit(&mut draw),
        })
        .into();
    let mut named: Option<Named> = None;
    for call in 0..calls {
        let case = format!("{}: seed {seed}, call {call}", bench.name);
        now_us += [0, 1, draw.below(1_000), draw.below(3_000_000), draw.below(20_000_000)]
            [draw.below(5) as usize];
        (bench.set_us)(now_us);
        if draw.below(4) == 0 {
            let at = draw.below(KEYS as u64) as usize;
            disturb(bench, &mut pairs[at], &mut draw).await;
            named = named.filter(|named| !named.keys.contains(&at));
            continue;
        }
        if let Some(named) = named.as_mut().filter(|named| now_us < named.until_us)
            && draw.below(2) == 0
        {
            repeat(bench, &pairs, named, &mut draw, &case).await;
        } else {
            let Some(done) = decide(bench, &pairs, &mut draw, now_us, &case).await else { return };
            named = done.or(named);
        }
        for Pair { together, alone, limit } in &pairs {
            let peek = Peek::new(limit.with_calendar(bound(now_us)), 1);
            let [one, other] = [together, alone].map(|key| bench.store.execute(key, &peek));
            assert_eq!(one.await.ok(), other.await.ok(), "{case}: {limit} of {together}");
        }
    }
}

/// Makes one call in both ways. Returns it, if it was admitted under an id; `None` if the store has no such calls.
async fn decide<S: Store>(
    bench: &Both<'_, S>,
    pairs: &[Pair],
    draw: &mut Draw,
    now_us: u64,
    case: &str,
) -> Option<Option<Named>> {
    let skipped = draw.below(KEYS as u64 + 1) as usize;
    let keys: Vec<usize> = (0..KEYS).filter(|at| *at != skipped).collect();
    let request = (draw.below(3) == 0).then(|| RequestId::from_u128(draw.below(1 << 60).into()));
    let mut each = Vec::new();
    for at in &keys {
        let limit = pairs[*at].limit.with_calendar(bound(now_us));
        let acquire = Acquire::by_part(limit, cost(&limit, draw)).expect("a cost for each part");
        each.push(match request {
            Some(id) => acquire.with_request(id, MEMORY).expect("a short time"),
            None => acquire,
        });
    }
    let all = AcquireAll::new(each).expect("a few");
    let together: Vec<Key> = keys.iter().map(|at| pairs[*at].together.clone()).collect();
    let decisions = match bench.store.execute_all(&together, &all, Duration::MAX).await {
        Err(StoreError::Misconfigured(_)) => return None,
        decisions => decisions.unwrap_or_else(|error| panic!("{case}: {error}")),
    };
    let mut expected = Vec::new();
    for (at, acquire) in keys.iter().zip(all.requests()) {
        let peek = Peek::by_part(*acquire.limit(), *acquire.cost());
        expected
            .push(bench.store.execute(&pairs[*at].alone, &peek).await.expect("a limiter's key"));
    }
    if expected.iter().all(Decision::is_allowed) {
        for ((at, acquire), decision) in keys.iter().zip(all.requests()).zip(&mut expected) {
            let alone = bench.store.execute(&pairs[*at].alone, acquire).await;
            *decision = alone.expect("a limiter's key");
        }
    }
    assert_eq!(decisions, expected, "{case}: {:?}", all.requests());
    let is_named = request.is_some() && decisions.iter().all(Decision::is_allowed);
    let until_us = now_us + MEMORY.as_micros() as u64;
    Some(is_named.then_some(Named { all, keys, decisions, until_us }))
}

/// Repeats a call, now and then after one of its keys was reset, which is then charged anew.
async fn repeat<S: Store>(
    bench: &Both<'_, S>,
    pairs: &[Pair],
    named: &mut Named,
    draw: &mut Draw,
    case: &str,
) {
    let place = draw.below(2 * KEYS as u64) as usize;
    if let Some(at) = named.keys.get(place) {
        for key in [&pairs[*at].together, &pairs[*at].alone] {
            bench.store.execute(key, &Reset).await.expect("a limiter's key");
        }
        let alone = bench.store.execute(&pairs[*at].alone, &named.all.requests()[place]).await;
        named.decisions[place] = alone.expect("a limiter's key");
    }
    let keys: Vec<Key> = named.keys.iter().map(|at| pairs[*at].together.clone()).collect();
    let again = bench.store.execute_all(&keys, &named.all, Duration::MAX).await;
    assert_eq!(again.expect("it ran before"), named.decisions, "{case}: repeated");
}

/// Does the same to a key in both ways, alone.
async fn disturb<S: Store>(bench: &Both<'_, S>, pair: &mut Pair, draw: &mut Draw) {
    let kind = draw.below(5);
    if kind < 2 {
        pair.limit = limit(draw);
        return;
    }
    let block = Duration::from_millis(1 + draw.below(9_000));
    for key in [&pair.together, &pair.alone] {
        match kind {
            2 => drop(bench.store.execute(key, &Reset).await.expect("a limiter's key")),
            3 => {
                let block = Adjust::block(pair.limit, block).expect("a short time");
                // A calendar's key may be off its day.
                drop(bench.store.execute(key, &block).await);
            }
            _ => {
                let penalty = Adjust::penalty(pair.limit, 2).expect("a cost");
                drop(bench.store.execute(key, &penalty).await);
            }
        }
    }
}

fn limit(draw: &mut Draw) -> Limit {
    LIMITS[draw.below(LIMITS.len() as u64) as usize].parse().expect("a limit")
}

/// Returns a cost that may differ for each part, unless there are logs, which share their entries.
fn cost(limit: &Limit, draw: &mut Draw) -> Cost {
    let most = 1 + draw.below(6);
    let parts = limit.parts().count();
    let has_log = limit.parts().any(|part| matches!(part, Limit::SlidingLog(_)));
    if parts < 2 || has_log || draw.below(2) == 0 {
        return most.into();
    }
    let costs: Vec<u64> = (0..parts).map(|_| draw.below(most + 1)).collect();
    Cost::by_part(&costs).ok().filter(|cost| cost.most() > 0).unwrap_or(most.into())
}

fn bound(
    now_us: u64,
) -> impl Fn(lockage::limiter::CalendarWindow) -> lockage::limiter::CalendarWindow {
    let now = lockage::store::Timestamp::from_micros(now_us).expect("a time");
    move |window| lockage::limiter::bounded_at(window, now)
}
