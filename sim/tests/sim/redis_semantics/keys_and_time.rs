//! Expiry, the script cache, and the shipped commands' way through the store.

use lockage_core::{CallTime, Command, Limit, Peek, ReplyError, Stored, Timestamp};
use lockage_sim::store::{RespValue, SimError, SimStore};

const START_US: u64 = 1_763_700_000_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(START_US + micros).unwrap()
}

fn store_at(micros: u64) -> SimStore {
    let mut store = SimStore::new().unwrap();
    store.set_now(at(micros));
    store
}

fn integer(store: &mut SimStore, words: &[&[u8]]) -> i64 {
    match store.execute(words) {
        RespValue::Integer(number) => number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_key_with_px_1_lives_to_the_end_of_the_next_millisecond() {
    let mut store = store_at(999);
    store.execute(&[b"SET", b"k", b"v", b"PX", b"1"]);
    assert_eq!(store.expires_at_ms("k"), Some(1_763_700_000_001));
    store.set_now(at(1_999));
    assert_eq!(integer(&mut store, &[b"PTTL", b"k"]), 0);
    assert_eq!(integer(&mut store, &[b"EXISTS", b"k"]), 1);
    store.set_now(at(2_000));
    assert_eq!(store.stored("k"), None);
    assert_eq!(integer(&mut store, &[b"PTTL", b"k"]), -2);
}

#[test]
fn an_expiry_at_now_or_before_deletes_at_once() {
    for words in [
        [b"PEXPIREAT", &b"k"[..], b"1763700000000"],
        [b"PEXPIRE", b"k", b"0"],
        [b"EXPIRE", b"k", b"-1"],
    ] {
        let mut store = store_at(999);
        store.execute(&[b"SET", b"k", b"v"]);
        assert_eq!(integer(&mut store, &words), 1);
        assert_eq!(integer(&mut store, &[b"EXISTS", b"k"]), 0);
        store.set_now(at(0));
        assert_eq!(integer(&mut store, &[b"EXISTS", b"k"]), 0);
    }
}

#[test]
fn time_is_as_set_and_can_step_back() {
    let mut store = store_at(1_234_567);
    let time = |store: &mut SimStore| store.eval("return redis.call('TIME')", &[], &[]).unwrap();
    let bulks = |parts: [&str; 2]| {
        RespValue::Array(parts.map(|part| RespValue::Bulk(part.into())).to_vec())
    };
    assert_eq!(time(&mut store), bulks(["1763700001", "234567"]));
    store.set_now(at(5));
    assert_eq!(time(&mut store), bulks(["1763700000", "5"]));
}

#[test]
fn ttl_rounds_to_the_nearest_second() {
    let mut store = store_at(0);
    for (ms, seconds) in [("1499", 1), ("1500", 2), ("499", 0)] {
        store.execute(&[b"SET", b"k", b"v", b"PX", ms.as_bytes()]);
        assert_eq!(integer(&mut store, &[b"TTL", b"k"]), seconds);
    }
}

#[test]
fn records_show_as_they_are_stored() {
    let mut store = store_at(0);
    store.execute(&[b"SET", b"text", b"F1 10"]);
    store.execute(&[b"RPUSH", b"list", b"L1", b"5"]);
    store.execute(&[b"HSET", b"hash", b"f", b"v"]);
    assert_eq!(store.stored("text"), Some(Stored::Text("F1 10".to_owned())));
    assert_eq!(store.stored("list"), Some(Stored::List(vec!["L1".to_owned(), "?".to_owned()])));
    assert_eq!(
        (store.stored("hash"), store.stored("none"), store.expires_at_ms("text")),
        (None, None, None)
    );
    assert_eq!(store.live_keys(), 3);
}

#[test]
fn a_script_is_cached_by_its_sha1_until_the_cache_is_flushed() {
    let mut store = store_at(0);
    let (script, sha1) = ("return 1", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB");
    let no_script = RespValue::Error("NOSCRIPT No matching script. Please use EVAL.".to_owned());
    assert_eq!(store.evalsha(sha1, &[], &[]), Ok(no_script.clone()));
    assert_eq!(store.eval(script, &[], &[]), Ok(RespValue::Integer(1)));
    assert_eq!(store.evalsha(sha1, &[], &[]), Ok(RespValue::Integer(1)));
    store.script_flush();
    assert_eq!(store.evalsha(sha1, &[], &[]), Ok(no_script));
}

#[test]
fn random_numbers_begin_anew_in_every_script() {
    let mut store = store_at(0);
    let script = "local r = {} for i = 1, 3 do r[i] = math.random(1000000) end return r";
    let first = store.eval(script, &[], &[]);
    assert_eq!(first, store.eval(script, &[], &[]));
    // The first number of `lrand48` for the seed 0, as Redis 6.2 gives it.
    assert_eq!(
        store.eval("return math.random(1000000)", &[], &[]),
        Ok(RespValue::Integer(170_829))
    );
}

#[test]
fn a_replaced_script_runs_on_the_same_path_with_distinct_failures() {
    let limit: Limit = "fixed-window 10/60s".parse().unwrap();
    // Its script takes text.
    let peek = Peek::new(limit, 1);
    let script = peek.encode().script();
    let run = |source: &str| {
        let mut store = SimStore::new().unwrap().with_script(script, source);
        store.set_call_time(CallTime::Caller { now: at(7), skew_ms: 250 });
        let outcome = store.run("k", &peek);
        (outcome, store.stored("k"))
    };
    let (outcome, stored) = run(
        "redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2]) return redis.error_reply('MY mistake')",
    );
    assert_eq!(outcome, Err(SimError::Script { script, message: "MY mistake".to_owned() }));
    assert_eq!(stored, Some(Stored::Text("1763700000000007 250".to_owned())));
    assert_eq!(run("return 'no array'").0, Err(SimError::Reply(ReplyError::Unexpected)));
    assert_eq!(run("return {'no', 'integers'}").0, Err(SimError::Reply(ReplyError::Unexpected)));
    assert!(matches!(run("return +").0, Err(SimError::Script { .. })));
}
