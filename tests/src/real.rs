//! The shipped scripts on a real server whose clock is injected.

use std::cell::RefCell;

use lockage_core::{
    Command, Encoded, ScriptCall, ScriptId, Stored, Timestamp, read_integer_reply,
    read_packed_reply,
};
use redis::{Connection, Value};

use crate::key::{Held, Holds, Key};
use crate::server::{Server, VirtualClock};
use crate::stores::Time;

/// What a key holds, a string or a list: its record may change from one to the other.
const LOOK: &str = "
if redis.call('TYPE', KEYS[1]).ok == 'list' then return redis.call('LRANGE', KEYS[1], 0, -1) end
return redis.call('GET', KEYS[1])";

/// A fresh key of a real server, which it may share with others; dropped when this is.
pub struct Real<'s> {
    session: &'s RefCell<Session>,
    time: Time,
    key: String,
    held: Held,
}

/// One connection to one server, for as many keys as there are cases.
pub struct Session {
    connection: Connection,
    clock: VirtualClock,
    keys: u64,
    server: Server,
}

impl Session {
    /// Starts a server that knows every shipped script.
    pub fn start() -> Self {
        let clock = VirtualClock::new(0);
        let server = Server::with_clock(&clock);
        let mut connection = server.connection();
        for id in ScriptId::ALL {
            let script = lockage_lua::script(id);
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script.source());
            let digest: String =
                load.query(&mut connection).expect("the server takes every script");
            assert_eq!(digest, script.digest(), "the digest that is shipped with {}", id.name());
        }
        Session { connection, clock, keys: 0, server }
    }

    /// The server that is called.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The script, and in the same round trip what the key then holds.
    fn call(&mut self, key: &str, call: &ScriptCall) -> Result<(Value, Held), String> {
        let digest = lockage_lua::script(call.script()).digest();
        let mut calls = redis::pipe();
        calls.cmd("EVALSHA").arg(digest).arg(1).arg(key);
        for argument in call.arguments() {
            calls.arg(argument);
        }
        calls.cmd("EVAL").arg(LOOK).arg(1).arg(key);
        calls.cmd("PTTL").arg(key);
        let (reply, value, ttl_ms): (Value, Value, i64) =
            calls.query(&mut self.connection).map_err(|error| error.to_string())?;
        Ok((reply, stored(value).map(|stored| (stored, self.expire_ms(ttl_ms)))))
    }

    /// The clock stands still between the calls, so what is left tells when the key expires.
    fn expire_ms(&self, ttl_ms: i64) -> u64 {
        let now_ms = self.clock.now_us() / 1000;
        // A record without an expiry (-1) shows as one that lives for ever.
        u64::try_from(ttl_ms).map_or(u64::MAX, |left_ms| now_ms + left_ms)
    }

    fn drop_key(&mut self, key: &str) -> redis::RedisResult<()> {
        redis::cmd("DEL").arg(key).exec(&mut self.connection)
    }
}

impl<'s> Real<'s> {
    /// A key that was never used.
    pub fn new(session: &'s RefCell<Session>, time: Time) -> Self {
        let mut open = session.borrow_mut();
        open.keys += 1;
        let key = format!("lockage:{{{}}}", open.keys);
        Real { session, time, key, held: None }
    }
}

impl Key for Real<'_> {
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        let mut session = self.session.borrow_mut();
        session.clock.set(self.time.store_us(now.as_micros()));
        let time = self.time.sent(now);
        let call = command.encode().at(time);
        let mut called = session.call(&self.key, &call);
        if let (Err(error), Encoded::Packed(_)) = (&called, call.encoded())
            && error.contains(lockage_lua::NEEDS_SLOW_PATH)
        {
            let call = Encoded::Text(command.encode_text()).at(time);
            called = session.call(&self.key, &call);
        }
        let (reply, held) = called?;
        self.held = held;
        command.outcome(&integers(reply)).map_err(|error| error.to_string())
    }

    fn forget(&mut self) {
        self.session.borrow_mut().drop_key(&self.key).expect("the server is up");
        self.held = None;
    }
}

impl Holds for Real<'_> {
    fn held(&mut self) -> Held {
        self.held.clone()
    }
}

impl Drop for Real<'_> {
    fn drop(&mut self) {
        // A failure here only leaves a key behind on a server that is about to go.
        let _ = self.session.borrow_mut().drop_key(&self.key);
    }
}

/// A reply as commands read it; an empty list where it is none of these.
fn integers(reply: Value) -> Vec<i64> {
    match reply {
        Value::Int(integer) => read_integer_reply(integer).to_vec(),
        Value::BulkString(numbers) => read_packed_reply(&numbers).unwrap_or_default(),
        reply => redis::from_redis_value(reply).unwrap_or_default(),
    }
}

fn stored(value: Value) -> Option<Stored> {
    match value {
        Value::BulkString(string) => Some(Stored::of_string(&string)),
        Value::Array(elements) if !elements.is_empty() => {
            let bytes = elements.iter().map(|element| match element {
                Value::BulkString(bytes) => &bytes[..],
                other => panic!("a list holds strings, not {other:?}"),
            });
            Some(Stored::of_list(bytes))
        }
        Value::Nil | Value::Array(_) => None,
        other => panic!("a record is a string or a list, not {other:?}"),
    }
}
