//! Several requests in one decision, beside the same requests one by one on keys of their own.

use std::time::Duration;

use lockage::limiter::{Cost, RequestId};
use lockage::{Key, Limit, Store, StoreError};
use lockage_core::{
    Acquire, AcquireAll, Adjust, OneOfAll, OneOutcome, Peek, Reset, SetLimit, StoredLimit,
    WithStoredLimit,
};

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
    place: Place,
}

/// Where a key's limit is.
#[derive(Clone, Copy)]
enum Place {
    Given,
    Stored,
    /// With the key, or else in the call.
    Default,
}

/// A call that was admitted under an id, and may be repeated.
struct Named {
    all: AcquireAll,
    keys: Vec<usize>,
    outcomes: Vec<OneOutcome>,
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
            place: Place::Given,
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
            disturb(bench, &mut pairs[at], &mut draw, now_us).await;
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
        for pair in &pairs {
            let one = pair.request(Acquire::new(pair.bounded(now_us), 1).expect("a cost"));
            let [together, alone] = [&pair.together, &pair.alone].map(|key| peek(bench, key, &one));
            assert_eq!(together.await, alone.await, "{case}: {} of {}", pair.limit, pair.together);
        }
    }
}

/// D18: a limit per client is kept by a call on several keys, also if it charges nothing, but not if another key is refused
/// or needs boundaries.
pub(super) async fn a_refused_call_keeps_no_limit<S: Store>(bench: &Both<'_, S>) {
    let limit = |text: &str| text.parse::<Limit>().expect("a limit");
    let stored = |limit| WithStoredLimit::new(Acquire::new(limit, 1).expect("a cost"));
    let (day, seconds) = (Duration::from_secs(86_400), Duration::from_secs);
    let at = |after: Duration| (bench.set_us)(bench.start_us + after.as_micros() as u64);
    let window = limit("fixed-window 5/min");
    let others: [(Limit, OneOfAll, bool); 3] = [
        (window, stored(window).into(), true),
        (window, Acquire::new(window, 1).expect("a cost").into(), false),
        (
            limit("calendar-window 5/day").with_calendar(bound(bench.start_us)),
            stored(window).into(),
            false,
        ),
    ];
    for (index, (limit, one, is_kept)) in others.into_iter().enumerate() {
        let keys = ["{t}:each", "{t}:other"]
            .map(|id| Key::new(&format!("{}-kept-{index}", bench.name), id).expect("a key"));
        at(Duration::ZERO);
        let each = StoredLimit::new(window).per_client().kept_for(day + seconds(10));
        for (key, limit) in keys.iter().zip([each.expect("a time"), StoredLimit::new(limit)]) {
            bench.store.execute(key, &SetLimit::new(limit)).await.expect("a limiter's key");
        }
        at(day + seconds(6));
        let all = AcquireAll::new(vec![stored(window).into(), one]).expect("two");
        match bench.store.execute_all(&keys, &all, Duration::MAX).await {
            Err(StoreError::Misconfigured(_)) => return,
            outcomes => assert!(outcomes.iter().flatten().all(|it| !it.is_allowed() || is_kept)),
        }
        at(day + seconds(12));
        let read = WithStoredLimit::new(Peek::new(window, 0));
        let outcome = bench.store.execute(&keys[0], &read).await.expect("a limiter's key");
        let is_there = matches!(outcome, OneOutcome::PerClient(_));
        assert_eq!(is_there, is_kept, "{}, case {index}: {outcome:?}", bench.name);
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
        let pair = &pairs[*at];
        // A stored limit may get the boundaries of its calendar windows, or not.
        let limit = match pair.place {
            Place::Stored if draw.below(2) == 0 => LIMITS[0].parse().expect("a limit"),
            _ => pair.bounded(now_us),
        };
        let acquire = Acquire::by_part(limit, cost(&pair.limit, draw)).expect("a cost by part");
        each.push(pair.request(match request {
            Some(id) => acquire.with_request(id, MEMORY).expect("a short time"),
            None => acquire,
        }));
    }
    let all = AcquireAll::new(each).expect("a few");
    let together: Vec<Key> = keys.iter().map(|at| pairs[*at].together.clone()).collect();
    let outcomes = match bench.store.execute_all(&together, &all, Duration::MAX).await {
        Err(StoreError::Misconfigured(_)) => return None,
        outcomes => outcomes.unwrap_or_else(|error| panic!("{case}: {error}: {all:?}")),
    };
    let each = || keys.iter().map(|at| &pairs[*at].alone).zip(all.requests());
    let mut expected = Vec::new();
    for (key, one) in each() {
        expected.push(peek(bench, key, one).await);
    }
    let are_admitted = expected.iter().all(OneOutcome::is_allowed);
    let are_known = !expected.iter().any(|it| matches!(it, OneOutcome::ClockOff(_)));
    for ((key, one), outcome) in each().zip(&mut expected) {
        let is_kept = are_known && matches!(outcome, OneOutcome::PerClient(_));
        if are_admitted || is_kept {
            *outcome = bench.store.execute(key, one).await.expect("a limiter's key");
        }
    }
    assert_eq!(outcomes, expected, "{case}: {:?}", all.requests());
    let is_named = request.is_some() && are_admitted;
    let until_us = now_us + MEMORY.as_micros() as u64;
    Some(is_named.then_some(Named { all, keys, outcomes, until_us }))
}

/// Asks for the outcome of a request that is not charged.
async fn peek<S: Store>(bench: &Both<'_, S>, key: &Key, one: &OneOfAll) -> OneOutcome {
    match one {
        OneOfAll::Given(acquire) => {
            let outcome = bench.store.execute(key, &acquire.peek()).await.expect("a limiter's key");
            OneOutcome::Done { outcome, limit: StoredLimit::new(*acquire.limit()) }
        }
        OneOfAll::Stored(stored) => {
            bench.store.execute(key, &stored.map(Acquire::peek)).await.expect("a limiter's key")
        }
    }
}

impl Pair {
    fn bounded(&self, now_us: u64) -> Limit {
        self.limit.with_calendar(bound(now_us))
    }

    fn request(&self, acquire: Acquire) -> OneOfAll {
        match self.place {
            Place::Given => acquire.into(),
            Place::Stored => WithStoredLimit::new(acquire).into(),
            Place::Default => {
                let default = StoredLimit::new(*acquire.limit());
                WithStoredLimit::or_under(&acquire, default).into()
            }
        }
    }
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
    if let Some(at) = named.keys.get(place).filter(|at| matches!(pairs[**at].place, Place::Given)) {
        for key in [&pairs[*at].together, &pairs[*at].alone] {
            bench.store.execute(key, &Reset).await.expect("a limiter's key");
        }
        let alone = bench.store.execute(&pairs[*at].alone, &named.all.requests()[place]).await;
        named.outcomes[place] = alone.expect("a limiter's key");
    }
    let keys: Vec<Key> = named.keys.iter().map(|at| pairs[*at].together.clone()).collect();
    let again = bench.store.execute_all(&keys, &named.all, Duration::MAX).await;
    assert_eq!(again.expect("it ran before"), named.outcomes, "{case}: repeated");
}

/// Does the same to a key in both ways, alone.
async fn disturb<S: Store>(bench: &Both<'_, S>, pair: &mut Pair, draw: &mut Draw, now_us: u64) {
    let kind = draw.below(6);
    let block = Duration::from_millis(1 + draw.below(9_000));
    let was_given = matches!(pair.place, Place::Given);
    let mut stored = None;
    if kind < 3 {
        pair.limit = limit(draw);
        pair.place = [Place::Given, Place::Stored, Place::Default][kind as usize];
        let limit = StoredLimit::new(pair.bounded(now_us));
        let kept = limit.kept_for(Duration::from_secs(1 + draw.below(20))).expect("a short time");
        stored = Some(if draw.below(3) == 0 { kept.per_client() } else { kept });
    }
    for key in [&pair.together, &pair.alone] {
        match (kind, stored) {
            // The record is converted.
            (0 | 2, _) if was_given => {}
            (1, Some(limit)) => {
                let set = bench.store.execute(key, &SetLimit::new(limit)).await;
                set.expect("a limiter's key");
            }
            (0 | 2 | 3, _) => {
                bench.store.execute(key, &Reset).await.expect("a limiter's key");
            }
            (4, _) => {
                let block = Adjust::block(pair.limit, block).expect("a short time");
                // A calendar's key may be off its day, and a limit stored.
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
