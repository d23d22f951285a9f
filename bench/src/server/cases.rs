//! The counted cases: scripts of lockage, and those of others.

use std::time::Duration;

use lockage_core::lock::{HoldId, Lock, Operation, OwnerId};
use lockage_core::{
    Acquire, CallTime, Command, Cost, Limit, Peek, RequestId, Reservation, SetLimit, Settle,
    SlidingLog, StoredLimit, Timestamp, WithStoredLimit,
};
use lockage_redis::Call;
use redis::Cmd;

use super::{FLOOR, WARM_UP, several_ids};

/// One row of the table.
pub(crate) struct Case {
    /// The name of the script or command.
    pub(crate) name: &'static str,
    /// The outcome of each decision.
    pub(crate) outcome: &'static str,
    /// The number of commands of one decision.
    pub(crate) each: usize,
    /// The number of decisions that are counted at a time at most, where each takes long.
    pub(crate) most: usize,
    /// The commands before it.
    pub(crate) before: Vec<Cmd>,
    /// The command that is sent at each number.
    pub(crate) command: Box<dyn Fn(usize) -> Cmd>,
}

impl Case {
    /// Returns the commands of `count` decisions, after the first `from`.
    pub(crate) fn commands(&self, from: usize, count: usize) -> Vec<Cmd> {
        (from * self.each..(from + count) * self.each)
            .map(|number| (self.command)(number))
            .collect()
    }

    /// Returns how many decisions are made first.
    pub(crate) fn warm_up(&self) -> usize {
        WARM_UP.min(self.most / 4)
    }
}

const LEAST: &str = include_str!("../../lua/least.lua");
const GET_SET: &str = include_str!("../../lua/get_set.lua");
const FILL_LOG: &str = include_str!("../../lua/fill_log.lua");
const ZSET_LOG: &str = include_str!("../../lua/zset_log.lua");
const HASH_BUCKET: &str = include_str!("../../lua/hash_bucket.lua");
const COMPARE_AND_DELETE: &str = include_str!("../../lua/compare_and_delete.lua");

/// The cases of each kind of limit: its name with one key and with many, one that admits, and one that soon
/// denies.
const LIMITS: [(&str, &str, &str, &str); 8] = [
    (
        "fixed window",
        "fixed window, 100,000 keys",
        "fixed-window 1000000/day",
        "fixed-window 1/day",
    ),
    (
        "sliding window",
        "sliding window, 100,000 keys",
        "sliding-window 1000000/day",
        "sliding-window 1/day",
    ),
    (TOKEN_BUCKET, "token bucket, 100,000 keys", ADMITS, DENIES),
    (
        "interval bucket",
        "interval bucket, 100,000 keys",
        "token-bucket 1000000 every 1day",
        "token-bucket 1 every 1day",
    ),
    (
        "token bucket, warm-up",
        "token bucket, warm-up, 100,000 keys",
        "token-bucket 1000000/day warmup 1h",
        "token-bucket 1/day warmup 1h",
    ),
    (
        "leaky bucket",
        "leaky bucket, 100,000 keys",
        "leaky-bucket 1000000/day queue 1000000",
        "leaky-bucket 1/day queue 1",
    ),
    ("sliding log", "sliding log, 100,000 keys", "sliding-log 1000000/day", "sliding-log 1/day"),
    (
        "token bucket + fixed window",
        "token bucket + fixed window, 100,000 keys",
        "token-bucket 1000000/day + fixed-window 1000000/day",
        "token-bucket 1/day + fixed-window 1/day",
    ),
];

const TOKEN_BUCKET: &str = "token bucket";
pub(super) const ADMITS: &str = "token-bucket 1000000/day";
pub(super) const DENIES: &str = "token-bucket 1/day";

/// Returns the cases of lockage's scripts.
pub(crate) fn own() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, _, admits, denies) in LIMITS {
        cases.extend(limiter(name, [admits, denies], USED_UP));
    }
    for (name, denies, entries) in [
        ("sliding log, 100 entries", "sliding-log 100/day", 100),
        ("sliding log, 10,000 entries", "sliding-log 10000/day", 10_000),
    ] {
        cases.extend(limiter(name, ["sliding-log 1000000/day", denies], entries));
    }
    cases.extend(three_parts());
    cases.extend(several_ids::cases());
    cases.extend(large_logs());
    cases.push(new_keys());
    cases.extend(with_id());
    cases.extend(stored());
    cases.extend(reservations());
    cases.extend(locks("lock"));
    cases
}

/// Returns cases of logs with more entries than can be read at once.
fn large_logs() -> Vec<Case> {
    const HOUR: Duration = Duration::from_secs(3600);
    let on = |name, outcome, limit: u64, (entries, most, ago): (u64, u64, Duration), cmd: Cmd| {
        let [newest, chunk] = [SlidingLog::MAX_NEWEST, SlidingLog::MAX_CHUNK];
        let ago = ago.as_micros().to_string();
        let numbers = [limit, entries, most].map(|number| number.to_string());
        let words = [&numbers[..], &[ago, newest.to_string(), chunk.to_string()]].concat();
        let words = words.iter().map(String::as_str);
        let key = format!("lockage:{{{name}}}");
        let fill = eval(FILL_LOG, &[key.as_str()].into_iter().chain(words).collect::<Vec<_>>());
        // The fill script's garbage in the server's Lua is no work of these calls: they get another one.
        let before = std::iter::once(fill).chain(reload(scripts())).collect();
        Case { before, ..case(name, outcome, move |_| cmd.clone()) }
    };
    let of = |limit: u64| -> Limit { format!("sliding-log {limit}/day").parse().expect("a limit") };
    let acquire =
        |name, limit, cost| call(&Acquire::new(of(limit), cost).expect("above zero"), name);
    let peek = |name, limit, cost| call(&Peek::new(of(limit), cost), name);
    let (many, most) = ("sliding log, 100,000 entries", "sliding log, 1,000,000 entries");
    let (equal, mixed) = ((100_000, 1, HOUR), (100_000, 10, HOUR));
    let (all, expired) = ((1_000_000, 1, HOUR), (1_000_000, 1, 25 * HOUR));
    let gone = "sliding log, 1,000,000 entries expired";
    vec![
        on(many, "admitted", 1_000_000, equal, acquire(many, 1_000_000, 1)),
        on(many, "denied", 100_000, equal, acquire(many, 100_000, 1)),
        on(many, "denied, a high cost", 100_000, equal, acquire(many, 100_000, 50_000)),
        on(many, "peek of a high cost, equal", 100_000, equal, peek(many, 100_000, 50_000)),
        on(many, "peek of a high cost, mixed", 1_000_000, mixed, peek(many, 1_000_000, 900_000)),
        on(most, "denied, a high cost", 1_000_000, all, acquire(most, 1_000_000, 500_000)),
        on(most, "peek of a high cost", 1_000_000, all, peek(most, 1_000_000, 500_000)),
        on(gone, "peek", 1_000_000, expired, peek(gone, 1_000_000, 1_000_000)),
        Case { most: 1, ..on(gone, "admitted", 1_000_000, expired, acquire(gone, 1_000_000, 1)) },
    ]
}

/// Returns the cases of a request with an id, each time another one.
fn with_id() -> [Case; 2] {
    const NAME: &str = "token bucket, with a request id";
    let named = |limit: &str| {
        let acquire =
            Acquire::new(limit.parse::<Limit>().expect("a limit"), 1).expect("above zero");
        move |number: usize| {
            let bits = (number as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
            let (id, remember) = (RequestId::from_u128(bits), Duration::from_secs(60));
            call(&acquire.with_request(id, remember).expect("in range"), NAME)
        }
    };
    let denied = named("token-bucket 8/day");
    let before = (0..8).map(&denied).collect();
    [
        case(NAME, "admitted", named(ADMITS)),
        Case { before, ..case(NAME, "denied", move |number| denied(8 + number)) },
    ]
}

/// Returns requests under a stored limit, of which most are admitted, or none.
fn stored() -> [Case; 2] {
    let name = "token bucket, stored limit";
    [("admitted", ADMITS), ("denied", DENIES)].map(|(outcome, limit)| {
        let limit: Limit = limit.parse().expect("a limit");
        let acquire = Acquire::new(limit, 1).expect("above zero");
        let under = WithStoredLimit::new(acquire);
        let before = vec![call(&SetLimit::new(StoredLimit::new(limit)), name), call(&under, name)];
        Case { before, ..case(name, outcome, move |_| call(&under, name)) }
    })
}

/// Returns cases on a key with one and with many open reservations: one that is reserved and settled in turn, and
/// a plain request.
fn reservations() -> Vec<Case> {
    const PLACES: &str = "in-flight 1_000_000 lease 1h";
    [
        ("token bucket, 1 open", ADMITS, 1),
        ("token bucket, 10,000 open", ADMITS, 10_000),
        ("in flight, 10 held", PLACES, 10),
        ("in flight, 100,000 held", PLACES, 100_000),
    ]
    .into_iter()
    .flat_map(|(name, limit, open)| {
        let limit: Limit = limit.parse().expect("a limit");
        let acquire = Acquire::new(limit, 1).expect("above zero");
        let reserved = move |id: u128| {
            let (id, hold) = (RequestId::from_u128(id), Duration::from_secs(3600));
            let estimate = Acquire::new(limit, 2).expect("above zero");
            (estimate.reserve(id, hold).expect("in range"), id)
        };
        // So much that the bucket does not refill before the last call: a full one is for the slow path.
        let much = Acquire::new(limit, 100_000).expect("above zero");
        let before = move || {
            let all = (0..open).map(move |id| call(&reserved(1 << 64 | id).0, name));
            std::iter::once(call(&much, name)).chain(all).collect()
        };
        let pair = move |number: usize| {
            let (reserve, id) = reserved((2 << 64) | (number as u128 / 2));
            let reservation = Reservation { id, cost: 2, expires_at: Timestamp::MAX };
            match number % 2 {
                0 => call(&reserve, name),
                _ => call(&Settle::new(limit, &reservation, 1), name),
            }
        };
        [
            Case { before: before(), ..case(name, "admitted", move |_| call(&acquire, name)) },
            Case { each: 2, before: before(), ..case(name, "reserved and settled", pair) },
        ]
    })
    .collect()
}

/// Returns the same cases with many keys; each request takes another.
pub(super) fn many_keys() -> Vec<Case> {
    let each = LIMITS.map(|(_, name, admits, denies)| (name, admits, denies, 100_000));
    let most = ("token bucket, 1,000,000 keys", ADMITS, DENIES, 1_000_000);
    let limits = each.into_iter().chain([most]);
    limits.flat_map(|(name, admits, denies, keys)| in_many(name, admits, denies, keys)).collect()
}

fn in_many(name: &'static str, admits: &str, denies: &str, keys: usize) -> [Case; 2] {
    [("admitted", admits), ("denied", denies)].map(|(outcome, limit)| {
        let limit: Limit = limit.parse().expect("a limit");
        let acquire = Acquire::new(limit, 1).expect("above zero");
        let first = call(&acquire, "0");
        // One is used by a call, the others are made alike.
        let parts = (0..keys / KEYS_A_PART).map(|part| {
            let bounds = [(part * KEYS_A_PART).max(1), (part + 1) * KEYS_A_PART - 1];
            eval(COPIES, &["lockage:{0}", &bounds[0].to_string(), &bounds[1].to_string()])
        });
        // Copying leaves its Lua with much to clear away, which is no work of these calls: they get another one.
        let before = std::iter::once(first).chain(parts).chain(reload(scripts())).collect();
        // Far from the one before.
        let command = move |number: usize| call(&acquire, &(number * 7919 % keys).to_string());
        Case { before, ..case(name, outcome, command) }
    })
}

const KEYS_A_PART: usize = 10_000;

const COPIES: &str = "for key = ARGV[1], ARGV[2] do
  redis.call('COPY', KEYS[1], string.format('lockage:{%d}', key))
end";

/// Returns the case of requests on keys that were never used.
/// Returns cases of three parts: with one cost for all, and with one for each.
fn three_parts() -> Vec<Case> {
    let text = |amount: u64| {
        format!(
            "fixed-window {amount}/day + token-bucket {amount}/day + sliding-window {amount}/day"
        )
    };
    let name = "three parts";
    let mut cases = Vec::new();
    for (outcome, by_part, amount) in [
        ("admitted", None, 10_000_000),
        ("admitted, a cost each", Some([1, 2, 3]), 10_000_000),
        ("denied", None, 1),
        ("denied, a cost each", Some([1, 0, 1]), 1),
    ] {
        let limit: Limit = text(amount).parse().expect("a limit");
        let cost = by_part.map_or(1.into(), |costs| Cost::by_part(&costs).expect("three"));
        let acquire = Acquire::by_part(limit, cost).expect("above zero");
        let before = (0..USED_UP).map(|_| call(&acquire, name)).collect();
        cases.push(Case { before, ..case(name, outcome, move |_| call(&acquire, name)) });
    }
    cases
}

fn new_keys() -> Case {
    let limit: Limit = ADMITS.parse().expect("a limit");
    let acquire = Acquire::new(limit, 1).expect("above zero");
    let command = move |number: usize| call(&acquire, &format!("token bucket {number}"));
    case("token bucket, a new key each", "admitted", command)
}

/// Returns the cases of others' commands, and the floor: a script that does nothing.
pub(super) fn others() -> Vec<Case> {
    let incr = |_| cmd(&["INCR", "plain"]);
    let nothing = |_| eval(FLOOR, &["key"]);
    let least = |outcome: &'static str| {
        let record = cmd(&["SET", "least", &"r".repeat(43)]);
        let command = move |_| eval(LEAST, &["least", outcome]);
        Case { before: vec![record], ..case("TIME + GET + SETRANGE", outcome, command) }
    };
    let window = |limit: &'static str| move |_| eval(GET_SET, &["window", limit, "86400000"]);
    let log = |limit: &'static str| {
        move |number: usize| eval(ZSET_LOG, &["log", limit, "86400000000", &number.to_string()])
    };
    let bucket = |rate: &'static str, burst: &'static str| {
        move |_| eval(HASH_BUCKET, &["bucket", rate, burst])
    };
    let delete = |own: &str| eval(COMPARE_AND_DELETE, &["plain-lock", own]);
    vec![
        case("INCR", "done", incr),
        case(FLOOR, "done", nothing),
        least("admitted"),
        least("denied"),
        case("GET + SET script", "admitted", window("1000000")),
        case("GET + SET script", "denied", window("1")),
        case("ZSET log", "admitted", log("1000000")),
        case("ZSET log", "denied", log("1")),
        case("hash bucket", "admitted", bucket("1000", "1000000")),
        case("hash bucket", "denied", bucket("0.00001", "1")),
        plain_lock("SET NX + compare and delete", delete),
    ]
}

/// Returns commands that only some servers have.
pub(super) fn native() -> Vec<Case> {
    let window = |limit: &'static str| {
        move |_| cmd(&["INCREX", "window", "UBOUND", limit, "PX", "86400000", "ENX"])
    };
    let bucket = |more: &'static str, rate: &'static str| {
        move |_| cmd(&["GCRA", "bucket", more, rate, "86400"])
    };
    vec![
        case("INCREX", "admitted", window("1000000")),
        case("INCREX", "denied", window("1")),
        case("GCRA", "admitted", bucket("999999", "1000000")),
        case("GCRA", "denied", bucket("0", "1")),
        plain_lock("SET NX + DELEX", |own| cmd(&["DELEX", "plain-lock", "IFEQ", own])),
        plain_lock("SET NX + DELIFEQ", |own| cmd(&["DELIFEQ", "plain-lock", own])),
    ]
}

/// Returns a lock of one key, without a record: deleted by `delete` if it is its own.
fn plain_lock(name: &'static str, delete: impl Fn(&str) -> Cmd + 'static) -> Case {
    let lock = move |number: usize| {
        let own = (number / 2).to_string();
        match number % 2 {
            0 => cmd(&["SET", "plain-lock", &own, "NX", "PX", "30000"]),
            _ => delete(&own),
        }
    };
    Case { each: 2, ..case(name, "acquired and released", lock) }
}

/// The number of calls that use up a limit that denies.
pub(super) const USED_UP: usize = 2;

/// Returns a case under each of these limits; the first one admits and the second one denies, after `calls_before`
/// calls.
fn limiter(name: &'static str, limits: [&str; 2], calls_before: usize) -> [Case; 2] {
    let [admits, denies] = limits.map(|limit| {
        let limit: Limit = limit.parse().expect("a limit");
        Acquire::new(limit, 1).expect("above zero")
    });
    [("admitted", admits), ("denied", denies)].map(|(outcome, acquire)| {
        let before = (0..calls_before).map(|_| call(&acquire, name)).collect();
        Case { before, ..case(name, outcome, move |_| call(&acquire, name)) }
    })
}

fn locks(name: &'static str) -> Vec<Case> {
    let call = |operation: &Operation| call(operation, name);
    let lock = Lock::new(Duration::from_secs(30), Duration::from_secs(60)).expect("in range");
    let hold = |number: usize| {
        // As different from each other as random ones, and the same in every run.
        let bits = (number as u128 / 2 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        (OwnerId::from_u128(bits), HoldId::from_u128(bits))
    };
    let pair = move |number: usize| {
        let (owner, id) = hold(number);
        match number % 2 {
            0 => call(&lock.acquire(owner, id, Timestamp::MAX)),
            _ => call(&lock.release(owner, id)),
        }
    };
    let (owner, id) = hold(0);
    let held = move || vec![call(&lock.acquire(owner, id, Timestamp::MAX))];
    let refused = move |number| {
        let (owner, id) = hold(number + 2);
        call(&lock.acquire(owner, id, Timestamp::MAX))
    };
    let renewed = move |_| call(&lock.renew(owner, None));
    vec![
        Case { each: 2, ..case(name, "acquired and released", pair) },
        Case { before: held(), ..case(name, "refused", refused) },
        Case { before: held(), ..case(name, "renewed", renewed) },
    ]
}

pub(crate) fn case(
    name: &'static str,
    outcome: &'static str,
    command: impl Fn(usize) -> Cmd + 'static,
) -> Case {
    let (each, most, before) = (1, usize::MAX, Vec::new());
    Case { name, outcome, each, most, before, command: Box::new(command) }
}

fn cmd(words: &[&str]) -> Cmd {
    let mut cmd = Cmd::new();
    cmd.arg(words);
    cmd
}

/// Returns a call of a script that has been loaded, of one key and these arguments.
fn eval(script: &str, words: &[&str]) -> Cmd {
    let digest = redis::Script::new(script).get_hash().to_owned();
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(digest).arg(1).arg(words);
    cmd
}

/// Returns a call as the adapters send it, once the server knows the script.
pub(super) fn call(command: &impl Command, id: &str) -> Cmd {
    let key = format!("lockage:{{{id}}}");
    lockage_redis_rs::command(&Call::new(command, CallTime::Store).request(&key))
}

/// Returns all scripts.
pub(super) fn scripts() -> Vec<String> {
    let own = lockage_core::ScriptId::ALL.iter().map(|&id| lockage_lua::script(id).source());
    let others =
        [FLOOR, LEAST, GET_SET, FILL_LOG, ZSET_LOG, HASH_BUCKET, COMPARE_AND_DELETE, COPIES];
    let all = several_ids::scripts();
    let all = all.iter().map(|script| script.source());
    own.chain(others).chain(all).map(str::to_owned).collect()
}

/// Returns the commands that give the server another Lua, without garbage, and load these scripts into it.
pub(super) fn reload(scripts: impl IntoIterator<Item = String>) -> Vec<Cmd> {
    let load = scripts.into_iter().map(|text| cmd(&["SCRIPT", "LOAD", &text]));
    std::iter::once(cmd(&["SCRIPT", "FLUSH", "SYNC"])).chain(load).collect()
}
