//! Random commands, as a client and in a script, on the simulated store and on a real server.

use std::cell::RefCell;

use lockage_sim::store::RespValue;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use super::server::RealStore;
use super::{Store, a_store_of_this_age, show};

/// A command of a name and some words, sent by a client or by a script.
#[derive(Debug, Clone)]
struct Step {
    words: Vec<&'static str>,
    in_script: bool,
}

/// Runs the words as they are: through `redis.pcall`, so that an error is a reply here too.
const RELAY: &str = "return redis.pcall(unpack(ARGV))";

const KEYS: [&str; 3] = ["a", "b", "c"];
/// Strings that are numbers to one parser and not to another, or that overflow.
const VALUES: [&str; 16] = [
    "0",
    "1",
    "-1",
    "2",
    "10",
    "-3",
    "",
    "x",
    "1.5",
    " 5",
    "+5",
    "01",
    "1e3",
    "nan",
    "9223372036854775807",
    "-9223372036854775808",
];
const INDEXES: [&str; 10] =
    ["0", "1", "2", "5", "-1", "-2", "-3", "-9", "x", "9223372036854775807"];
const SCORES: [&str; 12] =
    ["0", "1", "-1", "2.5", "0.1", "inf", "-inf", "nan", "1e400", "x", "", " 1"];
const ENDS: [&str; 11] = ["-inf", "+inf", "0", "1", "(1", "(0.1", "2.5", "(", "x", "1e400", " 1"];
/// Far off, so that the machine's clock does not matter, or so long ago that the key goes at once.
const SECONDS: [&str; 6] = ["4102444800", "4102444801", "1", "-5", "x", "9223372036854775807"];
const MILLISECONDS: [&str; 6] =
    ["4102444800000", "4102444800500", "1", "-5", "1.5", "-9223372036854775808"];

/// One word of a command's pattern.
#[derive(Debug, Clone, Copy)]
enum Slot {
    Key,
    Value,
    Index,
    Score,
    End,
    Seconds,
    Milliseconds,
    Word(&'static str),
}

use Slot::{End, Index, Key, Milliseconds, Score, Seconds, Value, Word};

/// A command's name, and the words that may follow in each place.
type Pattern = (&'static str, &'static [Slot]);

const STRINGS: &[Pattern] = &[
    ("GET", &[Key]),
    ("SET", &[Key, Value]),
    ("SET", &[Key, Value, Word("NX")]),
    ("SET", &[Key, Value, Word("XX"), Word("GET")]),
    ("SET", &[Key, Value, Word("keepttl")]),
    ("SET", &[Key, Value, Word("NX"), Word("XX")]),
    ("SET", &[Key, Value, Word("PX")]),
    ("SET", &[Key, Value, Word("PX"), Value, Word("EX"), Value]),
    ("SET", &[Key, Value, Word("EXAT"), Seconds]),
    ("SET", &[Key, Value, Word("PXAT"), Milliseconds]),
    ("SET", &[Key, Value, Word("PXAT"), Milliseconds, Word("KEEPTTL")]),
    ("SETEX", &[Key, Word("0"), Value]),
    ("PSETEX", &[Key, Word("-1"), Value]),
    ("SETNX", &[Key, Value]),
    ("INCR", &[Key]),
    ("INCRBY", &[Key, Value]),
    ("DECR", &[Key]),
    ("DECRBY", &[Key, Value]),
    ("STRLEN", &[Key]),
    ("APPEND", &[Key, Value]),
    ("GETRANGE", &[Key, Index, Index]),
    ("SETRANGE", &[Key, Index, Value]),
    ("GETEX", &[Key]),
    ("GET", &[]),
];

const KEYS_OF_ANY_TYPE: &[Pattern] = &[
    ("DEL", &[Key, Key]),
    ("UNLINK", &[Key]),
    ("EXISTS", &[Key, Key, Key]),
    ("TYPE", &[Key]),
    ("EXPIREAT", &[Key, Seconds]),
    ("EXPIREAT", &[Key, Seconds, Word("GT")]),
    ("PEXPIREAT", &[Key, Milliseconds]),
    ("PEXPIREAT", &[Key, Milliseconds, Word("NX")]),
    ("PEXPIREAT", &[Key, Milliseconds, Word("LT"), Word("XX")]),
    ("PEXPIREAT", &[Key, Milliseconds, Value]),
    ("EXPIRE", &[Key, Word("-1")]),
    ("EXPIRE", &[Key, Word("9223372036854775807")]),
    ("PEXPIRE", &[Key, Word("0")]),
    ("PEXPIRETIME", &[Key]),
    ("EXPIRETIME", &[Key]),
    ("PERSIST", &[Key]),
    ("NOSUCH", &[Key, Value]),
];

const LISTS: &[Pattern] = &[
    ("LPUSH", &[Key, Value]),
    ("RPUSH", &[Key, Value, Value]),
    ("LLEN", &[Key]),
    ("LRANGE", &[Key, Index, Index]),
    ("LINDEX", &[Key, Index]),
    ("LREM", &[Key, Index, Value]),
    ("LSET", &[Key, Index, Value]),
    ("LTRIM", &[Key, Index, Index]),
    ("LPOP", &[Key]),
    ("LPOP", &[Key, Index]),
    ("RPOP", &[Key]),
    ("RPOP", &[Key, Value, Value]),
    ("LSET", &[Key]),
];

const HASHES: &[Pattern] = &[
    ("HSET", &[Key, Value, Value]),
    ("HSET", &[Key, Value, Value, Value]),
    ("HMSET", &[Key, Value, Value, Value, Value]),
    ("HGET", &[Key, Value]),
    ("HMGET", &[Key, Value, Value]),
    ("HDEL", &[Key, Value, Value]),
    ("HGETALL", &[Key]),
    ("HINCRBY", &[Key, Value, Value]),
    ("HEXISTS", &[Key, Value]),
    ("HLEN", &[Key]),
];

const SORTED_SETS: &[Pattern] = &[
    ("ZADD", &[Key, Score, Value]),
    ("ZADD", &[Key, Score, Value, Score, Value]),
    ("ZADD", &[Key, Score, Value, Score]),
    ("ZCARD", &[Key]),
    ("ZCOUNT", &[Key, End, End]),
    ("ZRANGE", &[Key, Index, Index]),
    ("ZRANGE", &[Key, Index, Index, Word("withscores")]),
    ("ZRANGEBYSCORE", &[Key, End, End]),
    ("ZRANGEBYSCORE", &[Key, End, End, Word("LIMIT"), Index, Index, Word("WITHSCORES")]),
    ("ZREM", &[Key, Value, Value]),
    ("ZREMRANGEBYSCORE", &[Key, End, End]),
    ("ZREMRANGEBYRANK", &[Key, Index, Index]),
    ("ZSCORE", &[Key, Value]),
];

/// A script that shows the whole content of a key.
const DUMP: &str = "
    local all = {}
    for _, key in ipairs({'a', 'b', 'c'}) do
        local kind = redis.call('TYPE', key).ok
        local value = false
        if kind == 'string' then value = redis.call('GET', key)
        elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
        elseif kind == 'hash' then value = redis.call('HGETALL', key)
        elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end
        all[#all + 1] = {kind, value, redis.call('PEXPIRETIME', key)}
    end
    return all";

#[test]
fn random_commands_are_answered_as_a_real_server_answers() {
    let Some(server) = RealStore::start() else { return };
    let stores = RefCell::new((a_store_of_this_age(), server));
    let outcome = runner().run(&steps(), |steps| {
        let (sim, server) = &mut *stores.borrow_mut();
        server.execute(&[b"FLUSHALL"]);
        sim.flush_all();
        for (index, step) in steps.iter().enumerate() {
            let (simulated, real) = (run(sim, step), run(server, step));
            prop_assert_eq!(show(&simulated), show(&real), "step {}: {:?}", index, step);
        }
        prop_assert_eq!(show(&dump(sim)), show(&dump(server)));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// D12, for plain commands: an error reply means that nothing changed.
#[test]
fn a_command_that_fails_changes_nothing() {
    let sim = RefCell::new(a_store_of_this_age());
    let outcome = runner().run(&steps(), |steps| {
        let sim = &mut *sim.borrow_mut();
        sim.flush_all();
        for step in &steps {
            let before = dump(sim);
            if let RespValue::Error(_) = run(sim, step) {
                prop_assert_eq!(before, dump(sim), "{:?}", step);
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// As many cases as `PROPTEST_CASES` says, 256 without it.
fn runner() -> TestRunner {
    TestRunner::new(Config { failure_persistence: None, ..Config::default() })
}

fn run(store: &mut dyn Store, step: &Step) -> RespValue {
    let words: Vec<&[u8]> = step.words.iter().map(|word| word.as_bytes()).collect();
    if step.in_script { store.eval(RELAY, &[], &words) } else { store.execute(&words) }
}

fn dump(store: &mut dyn Store) -> RespValue {
    store.eval(DUMP, &[], &[])
}

/// Mostly commands on one type, so that keys hold what the commands expect; now and then those on
/// another, for WRONGTYPE.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    select(vec![STRINGS, LISTS, HASHES, SORTED_SETS]).prop_flat_map(|family| {
        let all = [STRINGS, LISTS, HASHES, SORTED_SETS].concat();
        let pattern =
            prop_oneof![8 => select(family), 2 => select(KEYS_OF_ANY_TYPE), 1 => select(all)];
        let step = (pattern, any::<bool>()).prop_flat_map(|((name, slots), in_script)| {
            let name = Just(name).boxed();
            let words: Vec<_> =
                std::iter::once(name).chain(slots.iter().map(|slot| word(*slot))).collect();
            words.prop_map(move |words| Step { words, in_script })
        });
        prop::collection::vec(step, 1..60)
    })
}

fn word(slot: Slot) -> BoxedStrategy<&'static str> {
    match slot {
        Key => select(&KEYS[..]).boxed(),
        Value => select(&VALUES[..]).boxed(),
        Index => select(&INDEXES[..]).boxed(),
        Score => select(&SCORES[..]).boxed(),
        End => select(&ENDS[..]).boxed(),
        Seconds => select(&SECONDS[..]).boxed(),
        Milliseconds => select(&MILLISECONDS[..]).boxed(),
        Word(word) => Just(word).boxed(),
    }
}
