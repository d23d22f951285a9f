//! Limits that are stored with their keys: traces of calls that set and follow them among other calls, and their
//! properties.

use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Duration;

use lockage_core::{
    Acquire, AcquireEach, Adjust, Limit, LimitCommand, Peek, Record, RequestId, Reservation, Reset,
    SetLimit, Settle, StoredLimit, StoredLimitOutcome, Timestamp, WithStoredLimit,
};
use proptest::prelude::*;

use crate::calendar::short;
use crate::key::{Holds, Key, Slot, time};
use crate::properties::{Check, require};

const START_US: u64 = 1_763_700_000_000_000;

/// Limits of each kind and composites, which a key has one after the other.
pub const LIMITS: [&str; 13] = [
    "fixed-window 10/1ms",
    "fixed-window 4/3ms",
    "sliding-log 8/1ms",
    "sliding-log 3/700us",
    "sliding-window 10/1ms",
    "token-bucket 7/1ms burst 9",
    "token-bucket 3 every 100us burst 10",
    "leaky-bucket 5/1ms queue 6",
    "sliding-log 10/1ms + sliding-log 6/300us",
    "leaky-bucket 5/1ms queue 9 + fixed-window 12/2ms",
    "calendar-window 9/day in Europe/Berlin",
    "calendar-window 6/month",
    "sliding-log 7/1ms + calendar-window 12/day in Europe/Berlin",
];

/// One call, and how far time moves before it.
#[derive(Clone, Debug)]
pub struct Step {
    /// In microseconds, negative for back.
    pub moved_us: i64,
    /// The call.
    pub call: Call,
}

/// A call on the key.
#[derive(Clone, Debug)]
pub enum Call {
    /// Stores a limit.
    Set(Mode, StoredLimit),
    /// A command under the stored limit; without one, under the default.
    WithStoredLimit(What, Option<StoredLimit>),
    /// A command under a limit of its own.
    Plain(What, Limit),
    /// Forgets the key.
    Reset,
}

/// A way to store a limit.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // as the constructors of [`SetLimit`]
pub enum Mode {
    New,
    IfAbsent,
    Afresh,
}

/// A command. Costs are above zero.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // each is the command of its name
pub enum What {
    Acquire(u64),
    /// An acquire of a caller that waits this long for its turn, in microseconds.
    Within(u64, u64),
    /// An acquire with an id, which may be a reservation's.
    Request(u64, u128),
    Each(Vec<u64>),
    Peek(u64),
    TakeUpTo(u64),
    Refund(u64, Option<u128>),
    Penalty(u64),
    /// A block for this many microseconds.
    Block(u64),
    Unblock,
    Reserve(u64, u128),
    /// Settles the reservation with this id at the true cost.
    Settle(u128, u64),
}

fn what() -> BoxedStrategy<What> {
    let cost = || 1..=13_u64;
    let id = || 0..4_u128;
    prop_oneof![
        6 => cost().prop_map(What::Acquire),
        2 => (cost(), 0..2_000_u64).prop_map(|(cost, patience)| What::Within(cost, patience)),
        2 => (1..=4_u64, id()).prop_map(|(cost, id)| What::Request(cost, id)),
        2 => prop::collection::vec(1..=4_u64, 1..4).prop_map(What::Each),
        3 => (0..=13_u64).prop_map(What::Peek),
        2 => cost().prop_map(What::TakeUpTo),
        2 => (cost(), prop::option::of(id())).prop_map(|(cost, id)| What::Refund(cost, id)),
        2 => cost().prop_map(What::Penalty),
        1 => (1..1_500_u64).prop_map(What::Block),
        1 => Just(What::Unblock),
        2 => (1..=5_u64, id()).prop_map(|(cost, id)| What::Reserve(cost, id)),
        2 => (id(), 0..=6_u64).prop_map(|(id, actual)| What::Settle(id, actual)),
    ]
    .boxed()
}

fn limit() -> BoxedStrategy<Limit> {
    prop::sample::select(&LIMITS[..]).prop_map(|text| text.parse().expect("a limit")).boxed()
}

/// Returns stored limits, most for all clients together, and kept for about as long as a trace, or forever.
fn stored() -> BoxedStrategy<StoredLimit> {
    let keep = prop_oneof![3 => (1..6_000_u64).prop_map(Some), 1 => Just(None)];
    (limit(), keep, prop::bool::weighted(0.15))
        .prop_map(|(limit, keep_us, per_client)| {
            let stored = StoredLimit::new(limit);
            // A model of expiries cannot know whether such a call was refused for its clock.
            let per_client = per_client && !limit.has_calendar();
            let stored = if per_client { stored.per_client() } else { stored };
            match keep_us {
                Some(us) => stored.kept_for(Duration::from_micros(us)).expect("in range"),
                None => stored,
            }
        })
        .boxed()
}

/// Returns calls of all kinds, whose clock may step back.
pub fn trace(steps: usize) -> BoxedStrategy<Vec<Step>> {
    let moved = prop_oneof![
        4 => Just(0_i64),
        4 => 1..400_i64,
        2 => 400..4_000_i64,
        1 => -1_500..0_i64,
    ];
    let mode =
        prop_oneof![3 => Just(Mode::New), 2 => Just(Mode::IfAbsent), 1 => Just(Mode::Afresh)];
    let call = prop_oneof![
        4 => (mode, stored()).prop_map(|(mode, limit)| Call::Set(mode, limit)),
        12 => what().prop_map(|what| Call::WithStoredLimit(what, None)),
        6 => (what(), stored()).prop_map(|(what, default)| Call::WithStoredLimit(what, Some(default))),
        3 => (what(), limit()).prop_map(|(what, limit)| Call::Plain(what, limit)),
        1 => Just(Call::Reset),
    ];
    let step = (moved, call).prop_map(|(moved_us, call)| Step { moved_us, call });
    prop::collection::vec(step, 1..steps).boxed()
}

/// Returns the steps whose outcome does not depend on whether an expired record is still there: calendars of traces
/// contradict each other.
pub fn as_through_a_seam(trace: Vec<Step>) -> Vec<Step> {
    let is_alike = |step: &Step| match step.call {
        Call::Set(_, stored) | Call::WithStoredLimit(_, Some(stored)) => {
            !stored.limit().has_calendar()
        }
        Call::Plain(_, limit) => !limit.has_calendar(),
        Call::WithStoredLimit(_, None) | Call::Reset => true,
    };
    trace.into_iter().filter(is_alike).collect()
}

/// One key, and its known reservations.
struct Caller<'k, K> {
    key: &'k mut K,
    made: HashMap<u128, Reservation>,
}

/// The limit under which a command runs.
enum Under {
    Own(Limit),
    Stored(Option<StoredLimit>),
}

impl<'k, K: Key> Caller<'k, K> {
    fn new(key: &'k mut K) -> Self {
        Caller { key, made: HashMap::new() }
    }

    fn call(&mut self, call: &Call, now: Timestamp) -> String {
        match call {
            Call::Set(mode, limit) => {
                let limit = &limit.with_calendar(|window| short(window, now));
                let command = match mode {
                    Mode::New => SetLimit::new(*limit),
                    Mode::IfAbsent => SetLimit::if_absent(*limit),
                    Mode::Afresh => SetLimit::afresh(*limit),
                };
                told(self.key.execute(&command, now))
            }
            Call::WithStoredLimit(what, default) => self.run(what, &Under::Stored(*default), now),
            Call::Plain(what, limit) => self.run(what, &Under::Own(*limit), now),
            Call::Reset => told(self.key.execute(&Reset, now)),
        }
    }

    fn run(&mut self, what: &What, under: &Under, now: Timestamp) -> String {
        // A placeholder where another limit counts. Some have queues, some have none.
        let any: Limit = match what {
            What::Acquire(_) | What::Reserve(..) => "leaky-bucket 1/1s queue 1".parse(),
            _ => "fixed-window 1/1s".parse(),
        }
        .expect("a limit");
        let hold = Duration::from_millis(2);
        let acquire = |cost| Acquire::new(any, cost).expect("above zero");
        let id = RequestId::from_u128;
        match *what {
            What::Acquire(cost) => self.execute(&acquire(cost), under, now),
            What::Within(cost, us) => {
                self.execute(&acquire(cost).within(Duration::from_micros(us)), under, now)
            }
            What::Request(cost, name) => {
                let command = acquire(cost).with_request(id(name), hold).expect("in range");
                self.execute(&command, under, now)
            }
            What::Each(ref costs) => {
                let command = AcquireEach::new(any, costs.clone()).expect("above zero, and few");
                self.execute(&command, under, now)
            }
            What::Peek(cost) => self.execute(&Peek::new(any, cost), under, now),
            What::TakeUpTo(most) => {
                self.execute(&Adjust::take_up_to(any, most).expect("above zero"), under, now)
            }
            What::Refund(cost, name) => {
                let refund = Adjust::refund(any, cost).expect("above zero");
                let command = match name {
                    Some(name) => refund.with_request(id(name), hold).expect("in range"),
                    None => refund,
                };
                self.execute(&command, under, now)
            }
            What::Penalty(cost) => {
                self.execute(&Adjust::penalty(any, cost).expect("above zero"), under, now)
            }
            What::Block(us) => {
                let block = Adjust::block(any, Duration::from_micros(us)).expect("in range");
                self.execute(&block, under, now)
            }
            What::Unblock => self.execute(&Adjust::unblock(any), under, now),
            What::Reserve(cost, name) => {
                let expires_at = time(now.as_micros() + 2_000);
                self.made.insert(name, Reservation { id: id(name), cost, expires_at });
                let command = acquire(cost).reserve(id(name), hold).expect("in range");
                self.execute(&command, under, now)
            }
            What::Settle(name, actual) => {
                let unknown = Reservation { id: id(name), cost: 1, expires_at: now };
                let reservation = self.made.get(&name).unwrap_or(&unknown);
                self.execute(&Settle::new(any, reservation, actual), under, now)
            }
        }
    }

    fn execute<C>(&mut self, command: &C, under: &Under, now: Timestamp) -> String
    where
        C: LimitCommand<Outcome: Debug> + Clone,
    {
        match *under {
            Under::Own(limit) => {
                let limit = limit.with_calendar(|window| short(window, now));
                told(self.key.execute(&command.under(limit), now))
            }
            Under::Stored(None) => {
                // Sometimes it has the boundaries that a calendar window needs, under another capacity.
                let command = match now.as_micros() % 3 {
                    0 => command.clone(),
                    _ => {
                        let dated: Limit = DATED.parse().expect("a limit");
                        command.under(dated.with_calendar(|window| short(window, now)))
                    }
                };
                told(self.key.execute(&WithStoredLimit::new(command), now))
            }
            Under::Stored(Some(default)) => {
                let default = default.with_calendar(|window| short(window, now));
                told(self.key.execute(&WithStoredLimit::or_under(command, default), now))
            }
        }
    }
}

/// A limit that gives boundaries to one of [`LIMITS`].
const DATED: &str = "calendar-window 1/day in Europe/Berlin";

fn told(outcome: impl Debug) -> String {
    format!("{outcome:?}")
}

/// Checks that both keys answer and hold the same, whatever the calls, and that their contents can be read.
///
/// # Errors
/// The first difference.
pub fn equals_the_model(model: &mut impl Holds, other: &mut impl Holds, trace: &[Step]) -> Check {
    let (mut model, mut other) = (Caller::new(model), Caller::new(other));
    let mut now_us = START_US;
    for Step { moved_us, call } in trace {
        now_us = now_us.saturating_add_signed(*moved_us);
        let now = time(now_us);
        let (expected, outcome) = (model.call(call, now), other.call(call, now));
        let (held, holds) = (model.key.held(), other.key.held());
        require(outcome == expected, || format!("{call:?} at {now}: {outcome}, not {expected}"))?;
        require(holds == held, || format!("{call:?} at {now}: holds {holds:?}, not {held:?}"))?;
        let Some((stored, _)) = &held else { continue };
        let read = Record::read(stored).map(|record| record.stored());
        require(read.as_ref() == Ok(stored), || format!("{stored:?} is read as {read:?}"))?;
    }
    Ok(())
}

/// Checks that a following call equals the same call under a limit of its own: while the limit is kept, including
/// changes of it, all answers are those of a key under the limits that were set.
///
/// # Errors
/// The first difference.
pub fn following_is_being_under_it(key: &mut impl Key, trace: &[Step]) -> Check {
    let mut twin = Slot::default();
    let (mut follower, mut twin) = (Caller::new(key), Caller::new(&mut twin));
    let mut limit: Option<StoredLimit> = None;
    let mut now_us = START_US;
    // A following call learns of a calendar window that has ended; one that names it brings the boundaries.
    let dated = |step: &&Step| matches!(step.call, Call::Set(_, set) if set.limit().has_calendar());
    let trace: Vec<&Step> = trace.iter().filter(|step| !dated(step)).collect();
    let first = trace.iter().position(|step| matches!(step.call, Call::Set(..)));
    for Step { moved_us, call } in trace.iter().skip(first.unwrap_or(trace.len())) {
        now_us += moved_us.unsigned_abs();
        let now = time(now_us);
        match call {
            Call::Set(_, set) => {
                let set = StoredLimit::new(set.limit());
                follower.call(&Call::Set(Mode::New, set), now);
                // More than any limit: it changes the limit, and nothing else.
                twin.call(&Call::Plain(What::Acquire(1 << 50), set.limit()), now);
                limit = Some(set);
            }
            Call::WithStoredLimit(what, _) | Call::Plain(what, _) => {
                let followed = follower.call(&Call::WithStoredLimit(what.clone(), None), now);
                let Some(limit) = limit else { continue };
                let answer = twin.call(&Call::Plain(what.clone(), limit.limit()), now);
                let outcome = answer.strip_prefix("Ok(").and_then(|text| text.strip_suffix(')'));
                let expected = match outcome {
                    Some(outcome) => format!("Ok(Done {{ outcome: {outcome}, limit: {limit:?} }})"),
                    None => answer,
                };
                require(followed == expected, || {
                    format!("{what:?} at {now}: {followed}, not {expected}")
                })?;
            }
            Call::Reset => {}
        }
    }
    Ok(())
}

/// Returns the outcome of a call that ran.
pub fn done<T>(followed: Result<StoredLimitOutcome<T>, String>) -> Option<T> {
    match followed {
        Ok(StoredLimitOutcome::Done { outcome, .. }) => Some(outcome),
        _ => None,
    }
}
