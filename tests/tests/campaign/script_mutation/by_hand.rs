//! The parts that no machine checks: `rewrite` writes a given record, `many` runs any script for each of several keys,
//! and `all` runs any scripts for all of them or none. Calls by hand must kill every mutant of theirs.

use std::collections::BTreeMap;

use lockage_sim::store::{RespValue, SimStore};
use lockage_tests::mutation::Living;
use lockage_tests::mutation::mutants::{self, Mutant, Part};

pub(super) const PARTS: [Part; 3] = [ALL, MANY, REWRITE];
const ALL: Part = Part { name: "all", text: include_str!("../../../../lua/templates/all.lua") };
const MANY: Part = Part { name: "many", text: include_str!("../../../../lua/templates/many.lua") };
const REWRITE: Part =
    Part { name: "rewrite", text: include_str!("../../../../lua/templates/rewrite.lua") };

/// More than any of these calls runs for, in instructions of Lua.
const LONGEST_RUN: u32 = 100_000;

/// A script that obeys its first argument, and writes down the others and the time.
const RUN: &str = "local function run(redis, KEYS, ARGV)
  redis.call('INCR', 'runs')
  if ARGV[1] == '91' then error('it broke', 0) end
  if ARGV[1] == '92' then redis.call('LINDEX', KEYS[1], 0) end
  if ARGV[1] == '93' then return redis.error_reply('LOCKAGE_KIND other') end
  if ARGV[1] == '94' then return {err = 'LOCKAGE_RECORD damaged - it is'} end
  if ARGV[1] == '95' then return {err = '-LOCKAGE_RECORD with its sign'} end
  if ARGV[1] == '96' then return 'text' end
  redis.call('TIME')
  local now = redis.call('TIME')[2]
  redis.call('SET', KEYS[1], table.concat(ARGV, ' ') .. ' at ' .. now)
  return {#ARGV, #KEYS}
end
";

/// Two scripts that obey their first argument, and write down all of them and the time.
const RUN_ALL: &str = "local run = {function(redis, KEYS, ARGV)
  local what = ARGV[1]
  if what == 'deny' then return 'denied' end
  if what == 'known' then return 'known before', true end
  if what == 'error' then return redis.error_reply('LOCKAGE_KIND other') end
  if what == 'break' then error('it broke', 0) end
  if what == 'refuse' then return {12, 0} end
  if what == 'none' then return {0, 1} end
  if what == 'read' then
    local list, own = redis.call('LRANGE', KEYS[1], 0, -1), redis.pcall('GET', KEYS[1])
    local first, size = redis.call('LINDEX', KEYS[1], 0), redis.call('LLEN', KEYS[1])
    return {#list, first, size, redis.call('TYPE', KEYS[1]).ok, own.err}, true
  end
  redis.call('TIME')
  local now = redis.call('TIME')[2]
  redis.call('SET', KEYS[1], table.concat(ARGV, ' ') .. ' at ' .. now, 'PX', 5000)
  if what == 'twice' then redis.call('PEXPIRE', KEYS[1], 7000) end
  if what == 'convert' then return 'denied and converted', false end
  if what == 'keep' then
    redis.call('PEXPIRE', KEYS[1], 9000)
    return 'for each client', 'kept'
  end
  if what == 'table' then return {#ARGV, #KEYS} end
  return #ARGV .. (redis.holds_writes and ' held' or ' sent')
end, function(redis, KEYS, ARGV)
  redis.call('RPUSH', KEYS[1], unpack(ARGV))
  return 5
end}
";

const OF_ALL: &[Asked] = &[
    (&["a"], &["\u{1}\u{1}", "once"]),
    (
        &["a", "b", "c"],
        &["\u{1}\u{2}\u{1}\u{1}\u{2}\u{3}", "twice", "of two", "table", "1", "2", "3"],
    ),
    (&["a", "b"], &["\u{2}\u{1}\u{1}\u{2}", "1", "known", "2"]),
    // One that is denied, or fails, leaves all as they are.
    (&["a", "b"], &["\u{1}\u{1}\u{1}\u{1}", "deny", "once"]),
    (&["a", "b"], &["\u{1}\u{1}\u{1}\u{1}", "once", "deny"]),
    (&["a", "b"], &["\u{1}\u{1}\u{1}\u{1}", "convert", "once"]),
    (&["a", "b", "c"], &["\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}", "once", "error", "once"]),
    (&["a", "b"], &["\u{1}\u{1}\u{1}\u{1}", "once", "break"]),
    (&["list", "b"], &["\u{1}\u{1}\u{1}\u{1}", "read", "once"]),
    // One that is kept leaves the others as they are, and is written unless one of them is refused.
    (&["a", "b"], &["\u{1}\u{1}\u{1}\u{1}", "keep", "once"]),
    (&["a", "b"], &["\u{1}\u{1}\u{1}\u{1}", "once", "keep"]),
    (&["a", "b"], &["\u{1}\u{1}\u{1}\u{1}", "keep", "table"]),
    (&["a", "b"], &["\u{1}\u{1}\u{1}\u{1}", "keep", "deny"]),
    (&["a", "b", "c"], &["\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}", "keep", "keep", "none"]),
    (&["a", "b"], &["\u{1}\u{1}\u{1}\u{1}", "keep", "refuse"]),
    (&["a", "b", "c"], &["\u{1}\u{1}\u{1}\u{1}\u{1}\u{1}", "refuse", "none", "keep"]),
];

/// A call of a script: the keys, and the arguments.
type Asked = (&'static [&'static str], &'static [&'static str]);

const OF_MANY: &[Asked] = &[
    (&["a"], &["1"]),
    // Without a time and with one.
    (&["a", "b", "c"], &["1", "2", "3"]),
    (&["a", "b"], &["1", "2", "time"]),
    // An error is its key's alone.
    (&["a", "b", "c"], &["1", "91", "2"]),
    (&["text", "b", "c"], &["92", "1", "93"]),
    (&["a", "b", "c", "d"], &["94", "95", "96", "1"]),
];

const OF_REWRITE: &[Asked] =
    &[(&["text"], &[]), (&["brief"], &[]), (&["list"], &[]), (&["none"], &[]), (&["hash"], &[])];

/// The observable outcome of a call: the reply, the record and the expiry of each key, and which commands ran.
type Seen = (RespValue, Vec<(RespValue, RespValue, Option<i64>)>, BTreeMap<&'static str, u64>);

fn seen(source: &str, (keys, arguments): Asked) -> Seen {
    let store = SimStore::new().and_then(|store| store.with_longest_run(LONGEST_RUN));
    let mut store = store.expect("Lua gets its memory");
    for words in
        ["SET text it", "SET brief it PX 5000", "RPUSH list one two three", "HSET hash field value"]
    {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        store.execute(&words);
    }
    let bytes = |words: &'static [&'static str]| -> Vec<&[u8]> {
        words.iter().map(|word| word.as_bytes()).collect()
    };
    let reply = store.eval(source, &bytes(keys), &bytes(arguments)).expect("Lua gets its memory");
    let commands = store.commands_run();
    let held = keys.iter().map(|key| {
        let text = store.execute(&[b"GET", key.as_bytes()]);
        let list = store.execute(&[b"LRANGE", key.as_bytes(), b"0", b"-1"]);
        (text, list, store.expires_at_ms(key))
    });
    (reply, held.collect(), commands)
}

#[test]
fn every_mutant_is_killed_by_a_call_or_has_a_reason() {
    let living = Living::read();
    for (part, before, asked) in
        [(ALL, RUN_ALL, OF_ALL), (MANY, RUN, OF_MANY), (REWRITE, "", OF_REWRITE)]
    {
        let of = |text: &str| -> Vec<Seen> {
            let source = [before, text].concat();
            asked.iter().map(|asked| seen(&source, *asked)).collect()
        };
        let shipped = of(part.text);
        let lives: Vec<[String; 3]> = mutants::of(part)
            .iter()
            .filter(|mutant| of(&mutant.text()) == shipped)
            .map(Mutant::line)
            .collect();
        let listed: Vec<[String; 3]> =
            living.all().filter(|it| it[0] == part.name).cloned().collect();
        assert_eq!(lives, listed, "those that live, and those with a reason to");
    }
}

/// A script's reply for one of several keys is an answer or an error of that key; it leaves all others untouched.
#[test]
fn an_error_is_its_keys_alone() {
    let text = |bytes: &str| RespValue::Array(vec![RespValue::Bulk(bytes.into())]);
    let done = RespValue::Array([1, 1].map(RespValue::Integer).into());
    let source = [RUN, MANY.text].concat();
    let (reply, held, _) = seen(&source, OF_MANY[3]);
    assert_eq!(reply, RespValue::Array(vec![done.clone(), text("ERR it broke"), done]));
    assert!(
        [0, 1, 2].map(|at: usize| held[at].0 == RespValue::Nil) == [false, true, false],
        "{held:?}"
    );
}
