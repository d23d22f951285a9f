//! Portable vectors: what an implementation in any language must do, as JSON.
//!
//! A vector is one call of one script: the state before it, the time, the arguments, and then the
//! state after it, the time to live that was set, and the reply. They are made by the shipped
//! scripts and must be what the Rust machines do.

use std::time::Duration;

use lockage_core::lock::{HoldId, Lock, OwnerId};
use lockage_core::{
    Acquire, AcquireEach, CalendarWindow, CallTime, CancelTurn, Command, Decision, Limit, Peek,
    Record, RequestId, Reset, Stored, TakeTurn, Ticket, Timestamp, Turn, Verdict,
};
use lockage_redis::{Call, Reply};
use lockage_sim::engine::bounded;
use lockage_sim::store::SimStore;
use serde_json::{Value, json};

const KEY: &str = "lockage:{vector}";
const START_US: u64 = 1_763_697_600_000_000;

const HOUR_US: u64 = 3_600_000_000;

/// The midnights in Berlin before the clocks are set, in 2026.
const BERLIN_SET_CLOCKS_US: [u64; 2] = [1_774_738_800_000_000, 1_792_879_200_000_000];

/// The limits that have vectors, and the file that each kind's are in.
const LIMITS: [(&str, &[&str]); 7] = [
    (
        "calendar-window",
        &[
            "calendar-window 10/day in Europe/Berlin",
            "calendar-window 3/week in UTC",
            "calendar-window 1000000/month in America/New_York",
        ],
    ),
    ("fixed-window", &["fixed-window 10/60s", "fixed-window 3/7us", "fixed-window 1000000/day"]),
    ("sliding-log", &["sliding-log 10/60s", "sliding-log 3/7us", "sliding-log 1000000/day"]),
    (
        "sliding-window",
        &["sliding-window 10/60s", "sliding-window 3/7us", "sliding-window 1000000/day"],
    ),
    (
        "token-bucket",
        &[
            "token-bucket 100/min burst 20",
            "token-bucket 3/7us burst 5",
            "token-bucket 1000000/day burst 1000000",
        ],
    ),
    (
        "interval-bucket",
        &[
            "token-bucket 8 every 2s burst 8",
            "token-bucket 2 every 7us burst 5",
            "token-bucket 1000000 every day burst 1000000",
        ],
    ),
    (
        "leaky-bucket",
        &[
            "leaky-bucket 10/s queue 20",
            "leaky-bucket 3/7us queue 5",
            "leaky-bucket 1000000/day queue 1000000",
        ],
    ),
];

/// The name and the contents of every file of vectors.
pub fn files() -> Vec<(String, String)> {
    let limiters = LIMITS.into_iter().map(|(name, limits)| {
        let decisions = limits.iter().flat_map(|limit| limiter_vectors(limit));
        (name, decisions.chain(request_vectors(limits[0])).collect())
    });
    let others = [("days", day_vectors()), ("turns", turn_vectors()), ("lock", lock_vectors())];
    let all = limiters.chain(others);
    all.map(|(name, vectors)| (format!("{name}.json"), file(vectors))).collect()
}

/// One vector a line, so that a change shows as one.
fn file(vectors: Vec<Value>) -> String {
    let lines: Vec<String> = vectors.iter().map(Value::to_string).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// A key of the simulated store, and the vectors that were made with it.
struct Recorder {
    store: SimStore,
    config: String,
    now_us: u64,
    vectors: Vec<Value>,
}

impl Recorder {
    fn new(config: &str) -> Self {
        let store = SimStore::new().expect("Lua gets its memory");
        Recorder { store, config: config.to_owned(), now_us: START_US, vectors: Vec::new() }
    }

    /// Runs the command's script, or where that leaves the record to it the one for any limit, and records
    /// it; its outcome, unless the script refused.
    fn record<C>(&mut self, name: String, command: &C) -> Option<C::Outcome>
    where
        C: Command<Outcome: PartialEq + std::fmt::Debug>,
    {
        let now = Timestamp::from_micros(self.now_us).expect("within the range of time");
        self.store.set_now(now);
        let before = self.store.stored(KEY);
        let mut call = Call::new(command, CallTime::Store);
        let reply = call.settle(|call| {
            let call = call.script_call();
            let source = lockage_lua::script(call.script()).source();
            let bytes: Vec<&[u8]> = call.arguments().collect();
            self.store.eval(source, &[KEY.as_bytes()], &bytes).map(Reply::from)
        });
        let (reply, as_sent) = integers(&reply.expect("Lua gets its memory"));
        let call = call.script_call();
        let after = self.store.stored(KEY);
        let outcome = command.outcome(&reply);

        let mut slot = before.as_ref().map(|stored| Record::read(stored).expect("a record"));
        let modelled = command.apply(&mut slot, now);
        assert_eq!(modelled.ok(), outcome.ok(), "{name} under {}", self.config);
        assert_eq!(slot.map(|record| record.stored()), after, "{name} under {}", self.config);

        let expires_in_ms =
            self.store.expires_at_ms(KEY).map(|at| at - (self.now_us / 1000) as i64);
        self.vectors.push(json!({
            "config": self.config,
            "state": hex_state(&before),
            "now_us": self.now_us,
            "command": name,
            "script": call.script().name(),
            "arguments": call.arguments().map(text_or_hex).collect::<Vec<_>>(),
            "next_state": hex_state(&after),
            "expires_in_ms": expires_in_ms,
            "reply": as_sent,
        }));
        command.outcome(&reply).ok()
    }
}

fn limiter_vectors(text: &str) -> Vec<Value> {
    let limit: Limit = text.parse().expect("the limits above are well formed");
    let full = limit.capacity();
    let mut keys = Recorder::new(text);

    _ = keys.peek(limit, full);
    _ = keys.acquire(limit, full.div_ceil(2));
    keys.now_us += 1;
    _ = keys.acquire(limit, 1);
    keys.each(limit, "1, capacity, 1, 1", vec![1, full, 1, 1]);
    _ = keys.acquire(limit, full + 1);
    // To the tick at which all of it fits again, and back.
    let denied = keys.acquire(limit, full);
    let wait = micros(denied.retry_after().expect("the capacity can always be admitted again"));
    let asked_at = keys.now_us;
    for now in [asked_at + wait - 1, asked_at, asked_at + wait, asked_at.saturating_sub(3)] {
        keys.now_us = now;
        _ = keys.peek(limit, full);
        _ = keys.peek(limit, 0);
    }
    keys.now_us = asked_at + wait;
    let admitted = keys.acquire(limit, full);
    assert_eq!(admitted.verdict, Verdict::Allowed, "D2");
    // A step back, then to the tick at which the state is fresh.
    keys.now_us -= 2;
    let stalled = keys.acquire(limit, 1);
    keys.now_us += micros(stalled.reset_after) - 1;
    _ = keys.peek(limit, 1);
    keys.now_us += 1;
    _ = keys.peek(limit, 1);
    _ = keys.acquire(limit, 1);
    // A record of another limit, and what a reset does.
    let other: Limit = "fixed-window 77/s".parse().expect("well formed");
    keys.record(
        "acquire 1 under fixed-window 77/s".into(),
        &Acquire::new(other, 1).expect("above 0"),
    );
    keys.record("reset".into(), &Reset);
    keys.record("reset".into(), &Reset);
    keys.vectors
}

/// Requests with an id: repeated, used for another cost, denied, and forgotten (D11).
fn request_vectors(text: &str) -> Vec<Value> {
    let limit: Limit = text.parse().expect("the limits above are well formed");
    let full = limit.capacity();
    let mut keys = Recorder::new(text);

    keys.request(limit, 1, 1, 100);
    keys.now_us += 1;
    keys.request(limit, 1, 1, 100);
    keys.request(limit, 2, 1, 100);
    _ = keys.acquire(limit, 1);
    _ = keys.peek(limit, 1);
    keys.request(limit, full, 2, 100);
    keys.request(limit, 1, 3, 2);
    keys.each(limit, "1, 1", vec![1, 1]);
    keys.now_us += 1;
    keys.request(limit, 1, 3, 2);
    // To the tick at which all of it fits again, where some are forgotten and others are not.
    let denied = keys.request(limit, full, 2, 100).expect("it is decided");
    keys.now_us += denied.retry_after().map_or(0, micros);
    keys.request(limit, full, 2, 100);
    keys.now_us += 1;
    keys.request(limit, full, 2, 100);
    keys.request(limit, 1, 3, 2);
    keys.now_us += 98;
    keys.request(limit, full, 2, 100);
    keys.now_us += 1;
    _ = keys.peek(limit, full);
    keys.request(limit, full, 2, 100);
    // More than it remembers.
    keys.record("reset".into(), &Reset);
    keys.now_us += 1;
    for id in 10..20 {
        let admitted = keys.request(limit, 1, id, 1 << 50).expect("it is decided");
        keys.now_us += micros(admitted.reset_after);
    }
    keys.request(limit, 1, 12, 1 << 50);
    keys.request(limit, 1, 11, 1 << 50);
    keys.vectors
}

/// Days of 23 and 25 hours, a caller whose zone data are others, and times outside of what a call knows.
fn day_vectors() -> Vec<Value> {
    let text = "calendar-window 10/day in Europe/Berlin";
    let limit: Limit = text.parse().expect("well formed");
    let mut keys = Recorder::new(text);

    for midnight_us in BERLIN_SET_CLOCKS_US {
        keys.now_us = midnight_us;
        let begun = keys.acquire(limit, 10);
        keys.now_us += micros(begun.reset_after) - 1;
        _ = keys.peek(limit, 1);
        keys.now_us += 1;
        _ = keys.peek(limit, 1);
    }
    _ = keys.acquire(limit, 9);
    let earlier =
        |window: CalendarWindow| window.with_boundaries(window.boundaries().map(|at| at - HOUR_US));
    let other = Acquire::new(keys.now(limit).with_calendar(earlier), 1).expect("above 0");
    keys.now_us += 24 * HOUR_US - 1;
    keys.record("acquire 1, as if days ended an hour earlier".into(), &other);
    keys.now_us += 1;
    keys.record("acquire 1, as if days ended an hour earlier".into(), &other);
    let asked = Acquire::new(keys.now(limit), 1).expect("above 0");
    keys.now_us += 48 * HOUR_US - 1;
    keys.record("acquire 1 of a caller that is two days behind".into(), &asked);
    keys.now_us += 1;
    keys.record("acquire 1 of a caller that is two days behind".into(), &asked);
    keys.vectors
}

/// Turns in a queue: taken within a patience, and given back or not.
fn turn_vectors() -> Vec<Value> {
    let text = "leaky-bucket 10/s queue 5";
    let limit: Limit = text.parse().expect("well formed");
    let mut keys = Recorder::new(text);

    assert_eq!(keys.take(limit, 2, u64::MAX).ticket, None, "it has its turn at once");
    keys.now_us += 50_000;
    _ = keys.take(limit, 1, 149_999);
    let first = keys.take(limit, 1, 150_000).ticket;
    let second = keys.take(limit, 1, u64::MAX).ticket;
    let third = keys.take(limit, 1, u64::MAX).ticket;
    _ = keys.take(limit, 1, u64::MAX);
    keys.cancel("of one who is not the last", second);
    keys.now_us += 10_000;
    keys.cancel("of the last", third);
    keys.now_us += 140_000;
    keys.cancel("whose turn has come", first);
    keys.request(limit, 1, 1, 400_000);
    let fourth = keys.take(limit, 2, u64::MAX).ticket;
    keys.cancel("of the last, after a request with an id", fourth);
    let fifth = keys.take(limit, 2, u64::MAX).ticket;
    keys.record("reset".into(), &Reset);
    keys.cancel("after a reset", fifth);
    keys.vectors
}

impl Recorder {
    fn take(&mut self, limit: Limit, cost: u64, patience_us: u64) -> Turn {
        let acquire = Acquire::new(limit, cost).expect("above 0");
        let patience = Duration::from_micros(patience_us);
        let name = match patience_us {
            u64::MAX => format!("acquire {cost}"),
            _ => format!("acquire {cost} within {patience:?}"),
        };
        self.record(name, &TakeTurn::new(acquire.within(patience))).expect("it is decided")
    }

    fn cancel(&mut self, which: &str, ticket: Option<Ticket>) {
        let command = CancelTurn::new(ticket.expect("it waits for its turn"));
        self.record(format!("cancel the turn {which}"), &command);
    }

    /// Nothing where the id was used for another cost.
    fn request(&mut self, limit: Limit, cost: u64, id: u128, remember_us: u64) -> Option<Decision> {
        let remember = Duration::from_micros(remember_us);
        let acquire = Acquire::new(self.now(limit), cost).expect("above 0");
        let id = RequestId::from_u128(id << 64 | 7);
        let command = acquire.with_request(id, remember).expect("in range");
        self.record(format!("acquire {cost} as a request with an id"), &command)
    }

    fn acquire(&mut self, limit: Limit, cost: u64) -> Decision {
        let command = Acquire::new(self.now(limit), cost).expect("above 0");
        self.record(format!("acquire {cost}"), &command).expect("it is decided")
    }

    fn peek(&mut self, limit: Limit, cost: u64) -> Decision {
        let command = Peek::new(self.now(limit), cost);
        self.record(format!("peek {cost}"), &command).expect("it is decided")
    }

    fn each(&mut self, limit: Limit, in_words: &str, costs: Vec<u64>) {
        let command = AcquireEach::new(self.now(limit), costs).expect("a few, above 0");
        self.record(format!("acquire each {in_words}"), &command);
    }

    /// The limit of a caller whose clock is the store's.
    fn now(&self, limit: Limit) -> Limit {
        bounded(&limit, Timestamp::from_micros(self.now_us).expect("within the range of time"))
    }
}

fn lock_vectors() -> Vec<Value> {
    let lock = Lock::new(Duration::from_secs(30), Duration::from_secs(60)).expect("in range");
    let (alice, bob) = (OwnerId::from_u128(0xA11CE << 96), OwnerId::from_u128(0xB0B));
    let id = |number: u128| HoldId::from_u128(number << 64 | 7);
    let not_after = Timestamp::from_micros(START_US + 50_000_000).expect("in range");
    let mut keys = Recorder::new("lock, lease 30s, operations remembered for 60s");

    let acquire = |owner, number| lock.acquire(owner, id(number), not_after);
    keys.record("inspect".into(), &lock.inspect());
    keys.record("acquire by alice".into(), &acquire(alice, 1));
    keys.record("acquire by alice, repeated".into(), &acquire(alice, 1));
    keys.record("acquire by bob".into(), &acquire(bob, 2));
    keys.now_us += 10_000_000;
    keys.record("re-enter by alice".into(), &acquire(alice, 3));
    keys.record("renew by bob".into(), &lock.renew(bob, None));
    keys.now_us += 5_000_000;
    keys.record("renew by alice".into(), &lock.renew(alice, Some(START_US)));
    keys.record("renew of another grant".into(), &lock.renew(alice, Some(1)));
    keys.record("release by bob of alice's hold".into(), &lock.release(bob, id(1)));
    keys.record("release by alice of her first hold".into(), &lock.release(alice, id(1)));
    keys.record("the same, repeated".into(), &lock.release(alice, id(1)));
    keys.record("acquire of the hold that has ended".into(), &acquire(alice, 1));
    keys.record("release of a hold that is not there".into(), &lock.release(alice, id(2)));
    keys.record("inspect".into(), &lock.inspect());
    keys.now_us = START_US + 45_000_000 - 1;
    keys.record("acquire by bob in the lease's last tick".into(), &acquire(bob, 8));
    keys.now_us += 1;
    keys.record("release by alice after the lease".into(), &lock.release(alice, id(3)));
    keys.record("acquire by alice of what the lease ended".into(), &acquire(alice, 3));
    keys.record("acquire by bob after the lease".into(), &acquire(bob, 10));
    let token = keys.now_us;
    keys.record("re-enter by bob".into(), &acquire(bob, 11));
    keys.record("break of another grant".into(), &lock.force_release(START_US));
    keys.record("break of bob's grant".into(), &lock.force_release(token));
    keys.record("the same, repeated".into(), &lock.force_release(token));
    keys.now_us -= 20_000_000;
    keys.record("acquire by alice on a clock that went back".into(), &acquire(alice, 13));
    keys.now_us = START_US + 50_000_001;
    keys.record("acquire that comes too late".into(), &acquire(alice, 14));
    keys.now_us += 60_000_000;
    keys.record("inspect when all is forgotten".into(), &lock.inspect());
    keys.vectors.extend(queue_vectors(&lock));
    keys.vectors
}

/// A lock whose holder has a label, and the waiters for it in line.
fn queue_vectors(lock: &Lock) -> Vec<Value> {
    let [alice, bob, carol] = [0xA11CE << 96, 0xB0B, 0xCA401].map(OwnerId::from_u128);
    let id = |number: u128| HoldId::from_u128(number << 64 | 7);
    let ask = |owner, number| lock.acquire(owner, id(number), Timestamp::MAX);
    let span = Duration::from_secs(10);
    let mut keys = Recorder::new("lock, lease 30s, operations remembered for 60s");

    let label = "web-1/4711".parse().expect("a label");
    keys.record("acquire by alice, with a label".into(), &ask(alice, 1).labelled(label));
    keys.record("acquire by bob, waiting for 10s".into(), &ask(bob, 2).waiting(span));
    keys.now_us += 1_000_000;
    keys.record("acquire by bob, in line for 10s".into(), &ask(bob, 3).queued(span));
    keys.record("acquire by carol, in line for 10s".into(), &ask(carol, 4).queued(span));
    keys.record("inspect".into(), &lock.inspect());
    keys.now_us += 5_000_000;
    keys.record("acquire by bob again, within half of 10s".into(), &ask(bob, 5).queued(span));
    keys.now_us += 1;
    keys.record("acquire by bob again, beyond half of 10s".into(), &ask(bob, 6).queued(span));
    keys.record("release by alice".into(), &lock.release(alice, id(1)));
    keys.record("acquire by alice, who is not next".into(), &ask(alice, 8));
    keys.record("acquire by carol, who is not next".into(), &ask(carol, 9).queued(span));
    keys.record("withdraw of bob".into(), &lock.withdraw(bob));
    keys.record("withdraw of bob, repeated".into(), &lock.withdraw(bob));
    keys.record("acquire by carol, who is next".into(), &ask(carol, 10).queued(span));
    keys.record("acquire by bob, in line for 10s".into(), &ask(bob, 11).queued(span));
    keys.record("re-enter by carol".into(), &ask(carol, 12));
    keys.now_us += 30_000_000;
    keys.record("acquire by alice, when bob's place has ended".into(), &ask(alice, 13));
    keys.vectors
}

/// A reply as commands read it, and as it is sent: a list, an integer, or a string in hex.
fn integers(reply: &Reply) -> (Vec<i64>, Value) {
    let numbers = reply.integers().unwrap_or_else(|_| panic!("{reply:?} is no reply"));
    let as_sent = match reply {
        Reply::Integer(number) => (*number).into(),
        Reply::Bytes(bytes) => json!({ "hex": hex::encode(bytes) }),
        _ => numbers.clone().into(),
    };
    (numbers, as_sent)
}

/// What scripts that take numbers in binary get is in hex.
fn text_or_hex(argument: &[u8]) -> Value {
    let is_text = argument.iter().all(|byte| byte.is_ascii_graphic());
    match std::str::from_utf8(argument) {
        Ok(text) if is_text => text.into(),
        _ => json!({ "hex": hex::encode(argument) }),
    }
}

/// The bytes of a string, or of each element of a list, in hex; null where nothing is stored.
fn hex_state(stored: &Option<Stored>) -> Value {
    match stored {
        None => Value::Null,
        Some(text @ Stored::Text(_)) => json!({ "string": hex::encode(&text.to_bytes()[0]) }),
        Some(list @ Stored::List(_)) => {
            json!({ "list": list.to_bytes().iter().map(hex::encode).collect::<Vec<_>>() })
        }
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).expect("no machine waits for longer than it remembers")
}
