//! Scripts with the replies of Redis 7.0.

use super::server::RealStore;
use super::{Store, a_store_of_this_age, show};

/// The arguments of each script, which gets the key `k` too.
const ARGV: [&[u8]; 3] = [b"10", b"9", b"\0\xff"];

/// Scripts that run one after the other on one keyspace, each with its reply.
type Scenario = (&'static str, &'static [(&'static str, &'static str)]);

const SCENARIOS: &[Scenario] = &[
    (
        "Lua values become replies",
        &[
            ("return 3.9", "3"),
            ("return -3.9", "-3"),
            ("return 9007199254740991", "9007199254740991"),
            ("return {1, 2, nil, 4}", "[1 2]"),
            ("return {1, {2, {}}, 'x', true, false}", "[1 [2 []] \"x\" 1 nil]"),
            ("return true", "1"),
            ("return false", "nil"),
            ("return nil", "nil"),
            ("return", "nil"),
            ("return 'a', 'b'", "\"a\""),
            ("return function() end", "nil"),
            ("return {a = 1}", "[]"),
            ("return {ok = 'fine'}", "+fine"),
            ("return {err = 'MY mistake'}", "-MY mistake"),
            ("return {ok = 'fine', err = 'MY mistake'}", "-MY mistake"),
            ("return {ok = 3}", "[]"),
            ("return {{err = 'MY mistake'}, {ok = 'fine'}}", "[-MY mistake +fine]"),
            ("return {KEYS[1], ARGV[3], #ARGV, KEYS[2]}", "[\"k\" \"\\x00\\xff\" 3]"),
            ("return redis.status_reply('two\\nlines')", "+two lines"),
        ],
    ),
    (
        "replies become Lua values",
        &[
            ("return type(redis.call('GET', 'nothing'))", "\"boolean\""),
            (
                "local r = redis.call('SET', KEYS[1], '5') return {type(r), r.ok}",
                "[\"table\" \"OK\"]",
            ),
            ("local r = redis.call('GET', KEYS[1]) return {type(r), r}", "[\"string\" \"5\"]"),
            ("local r = redis.call('INCR', KEYS[1]) return {type(r), r}", "[\"number\" 6]"),
            (
                "local r = redis.call('TYPE', KEYS[1]) return {type(r), r.ok}",
                "[\"table\" \"string\"]",
            ),
            (
                "redis.call('RPUSH', 'l', 'a', 'b') return redis.call('LRANGE', 'l', 0, -1)",
                "[\"a\" \"b\"]",
            ),
            ("return #redis.call('LRANGE', 'nothing', 0, -1)", "0"),
            (
                "redis.call('HSET', 'h', 'f', 'v') return redis.call('HMGET', 'h', 'x', 'f')",
                "[nil \"v\"]",
            ),
            ("local t = redis.call('TIME') return {type(t[1]), #t, #t[1]}", "[\"string\" 2 10]"),
        ],
    ),
    (
        "what nobody listens to is published all the same",
        &[
            ("return redis.call('PUBLISH', KEYS[1], '')", "0"),
            ("return redis.call('SPUBLISH', KEYS[1], 'x')", "0"),
            ("return redis.REDIS_VERSION_NUM >= 0x70000", "1"),
            (
                "return redis.pcall('SPUBLISH', KEYS[1])",
                "-ERR Wrong number of args calling Redis command from script",
            ),
        ],
    ),
    (
        "arguments are strings or numbers, and numbers keep their digits",
        &[
            (
                "redis.call('SET', 'n', 1763700000123456) return redis.call('GET', 'n')",
                "\"1763700000123456\"",
            ),
            (
                "redis.call('SET', 'n', 9007199254740991) return redis.call('GET', 'n')",
                "\"9007199254740991\"",
            ),
            (
                "redis.call('SET', 'n', '' .. 1763700000123456) return redis.call('GET', 'n')",
                "\"1.7637000001235e+15\"",
            ),
            (
                "redis.call('SET', 'n', 2^60) return redis.call('GET', 'n')",
                "\"1.152921504606847e+18\"",
            ),
            ("redis.call('SET', 'n', 0.5) return redis.call('GET', 'n')", "\"0.5\""),
            ("redis.call('SET', 'n', -0) return redis.call('GET', 'n')", "\"-0\""),
            ("redis.call('SET', 'n', 1/0) return redis.call('GET', 'n')", "\"inf\""),
            (
                "return redis.call('SET', 'n', true)",
                "-ERR Lua redis lib command arguments must be strings or integers",
            ),
            (
                "return redis.call('SET', 'n', nil)",
                "-ERR Lua redis lib command arguments must be strings or integers",
            ),
            (
                "return redis.call({'GET', 'n'})",
                "-ERR Lua redis lib command arguments must be strings or integers",
            ),
            (
                "return redis.call()",
                "-ERR Please specify at least one argument for this redis lib call",
            ),
        ],
    ),
    (
        "errors of commands",
        &[
            ("return redis.call('NOSUCH')", "-ERR Unknown Redis command called from script"),
            (
                "return redis.call('GET')",
                "-ERR Wrong number of args calling Redis command from script",
            ),
            ("return redis.call('gEt', 'nothing')", "nil"),
            ("return redis.pcall('NOSUCH')", "-ERR Unknown Redis command called from script"),
            (
                "return redis.pcall('NOSUCH').err",
                "\"ERR Unknown Redis command called from script\"",
            ),
            (
                "return {redis.pcall('NOSUCH'), 1}",
                "[-ERR Unknown Redis command called from script 1]",
            ),
            (
                "return {pcall(redis.call, 'GET')}",
                "[nil \"ERR Wrong number of args calling Redis command from script\"]",
            ),
            ("redis.call('RPUSH', 'l', 'a') return 1", "1"),
            (
                "return redis.call('GET', 'l')",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            (
                "return redis.call('INCR', 'l')",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("return redis.call('SET', 'l', 'now a string')", "+OK"),
            (
                "return redis.call('HSET', 'h', 'a', '1', 'b')",
                "-ERR wrong number of arguments for 'hset' command",
            ),
        ],
    ),
    (
        "an error does not roll back (D12 is a property of scripts, not of Redis)",
        &[
            (
                "redis.call('SET', KEYS[1], 'written') redis.call('INCR', KEYS[1])",
                "-ERR value is not an integer or out of range",
            ),
            ("return redis.call('GET', KEYS[1])", "\"written\""),
            (
                "redis.call('SET', KEYS[1], '1') redis.call('PEXPIRE', KEYS[1], 1.5)",
                "-ERR value is not an integer or out of range",
            ),
            ("return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}", "[\"1\" -1]"),
        ],
    ),
    (
        "errors of scripts",
        &[
            ("error('boom')", "-ERR user_script:1: boom"),
            ("error('boom', 0)", "-ERR boom"),
            ("error({err = 'MY mistake'})", "-MY mistake"),
            ("error()", "-ERR nil"),
            ("local t return t.x", "-ERR user_script:1: attempt to index local 't' (a nil value)"),
            ("return ARGV[1] >= 9", "-ERR user_script:1: attempt to compare number with string"),
            ("return ARGV[1] >= ARGV[2]", "nil"),
            ("return redis.error_reply('mistake')", "-ERR mistake"),
            ("return redis.error_reply('MY mistake')", "-MY mistake"),
            ("return redis.error_reply('-MY mistake')", "-MY mistake"),
            ("return redis.error_reply('a\\nb')", "-ERR a b"),
            ("return redis.error_reply(3)", "-ERR wrong number or type of arguments"),
            ("return redis.status_reply()", "-ERR wrong number or type of arguments"),
            ("return {pcall(function() error('x') end)}", "[nil \"user_script:1: x\"]"),
            ("return {pcall(error, {err = 'MY mistake'})}", "[nil \"MY mistake\"]"),
            ("local _, e = pcall(error, {code = 7}) return e.code", "7"),
            (
                "return 1 +",
                "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'",
            ),
            (
                "local t = {} for i = 1, 9000 do t[i] = i end return #{unpack(t)}",
                "-ERR user_script:1: too many results to unpack",
            ),
            ("local t = {} for i = 1, 7999 do t[i] = i end return #{unpack(t)}", "7999"),
        ],
    ),
    (
        "the sandbox",
        &[
            ("x = 1", "-ERR user_script:1: Attempt to modify a readonly table"),
            (
                "return x",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'x'",
            ),
            (
                "return io",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'io'",
            ),
            (
                "return os",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'os'",
            ),
            (
                "print('x')",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'print'",
            ),
            (
                "return require",
                "-ERR user_script:1: Script attempted to access nonexistent global variable 'require'",
            ),
            ("redis.call = nil", "-ERR user_script:1: Attempt to modify a readonly table"),
            ("string.len = nil", "-ERR user_script:1: Attempt to modify a readonly table"),
            ("rawset(_G, 'x', 1)", "-ERR Attempt to modify a readonly table"),
            ("setmetatable(_G, nil)", "-ERR Attempt to modify a readonly table"),
            (
                "getmetatable('').__index = nil",
                "-ERR user_script:1: Attempt to modify a readonly table",
            ),
            ("return getmetatable('').__index == string", "1"),
            ("KEYS = 1", "-ERR user_script:1: Attempt to modify a readonly table"),
            ("KEYS[1] = 'other' ARGV[9] = 1 return KEYS", "[\"other\"]"),
            ("return {KEYS[1], ARGV[9]}", "[\"k\"]"),
            ("return loadstring('return 1 + 1')()", "2"),
            ("return ('%s'):format(KEYS[1])", "\"k\""),
            ("return redis.sha1hex('')", "\"da39a3ee5e6b4b0d3255bfef95601890afd80709\""),
            ("return redis.sha1hex()", "-ERR wrong number of arguments"),
            (
                "return tostring(1e15) .. ' ' .. tostring(tonumber('0x10')) .. ' ' .. tostring(tonumber(' 5 '))",
                "\"1e+15 16 5\"",
            ),
            ("return {string.match('T1 10 20', '^(%a)1 (%d+) (%d+)$')}", "[\"T\" \"10\" \"20\"]"),
            ("return string.format('%.0f', 1763700000123456)", "\"1763700000123456\""),
            (
                "local ok, e = coroutine.resume(coroutine.create(function() return redis.call('GET', 'nothing') end)) return {ok, e}",
                "[1 nil]",
            ),
        ],
    ),
    (
        "what other projects ship: a counter that is a string, a log in a sorted set",
        &[
            (
                "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], 60) end return n",
                "1",
            ),
            (
                "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], 60) end return n",
                "2",
            ),
            ("return redis.call('TTL', KEYS[1])", "60"),
            ("redis.call('SET', KEYS[1], 'x') return redis.call('TTL', KEYS[1])", "-1"),
            (
                "return redis.call('ZADD', 'z', 1763700000123456, 1763700000123456, 1763700000123457, 1763700000123457)",
                "2",
            ),
            ("redis.call('DEL', 'z') return 1", "1"),
            (
                "local t = 1763700000123456 redis.call('ZADD', 'z', t, '' .. t) return redis.call('ZADD', 'z', t + 1, '' .. t + 1)",
                "0",
            ),
            (
                "return redis.call('ZRANGE', 'z', 0, -1, 'WITHSCORES')",
                "[\"1.7637000001235e+15\" \"1763700000123457\"]",
            ),
            ("return redis.call('ZREMRANGEBYSCORE', 'z', '-inf', '(1763700000123457')", "0"),
            ("return redis.call('ZREMRANGEBYSCORE', 'z', 0, 1763700000123457)", "1"),
            ("return redis.call('EXISTS', 'z')", "0"),
        ],
    ),
];

#[test]
fn scripts_get_the_replies_that_redis_gives() {
    check(&mut a_store_of_this_age());
}

#[test]
fn the_table_matches_a_real_server() {
    if let Some(mut server) = RealStore::start() {
        check(&mut server);
    }
}

fn check(store: &mut dyn Store) {
    let mut wrong = Vec::new();
    for (name, steps) in SCENARIOS {
        store.execute(&[b"FLUSHALL"]);
        for (script, expected) in *steps {
            let reply = show(&store.eval(script, &[b"k"], &ARGV));
            if reply != *expected {
                wrong.push(format!("{name}: {script}\n  expected {expected}\n  replied  {reply}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
