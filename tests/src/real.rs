//! The shipped scripts on a real server whose clock is injected.

use std::cell::RefCell;

use lockage_core::{Command, ScriptCall, ScriptId, Stored, Timestamp, key_beside};
use lockage_oracle::key::{Held, Holds, Key};
use lockage_oracle::place::{Place, Time};
use lockage_redis::{Call, Reply};
use lockage_redis_rs::read;
use redis::{Connection, ConnectionLike, Value};

use crate::server::{Server, VirtualClock};

/// Reads a key as a string or a list: its record may change from one to the other.
const LOOK: &str = "
if redis.call('TYPE', KEYS[1]).ok == 'list' then return redis.call('LRANGE', KEYS[1], 0, -1) end
return redis.call('GET', KEYS[1])";

/// A fresh key of a real server, which it may share with others; dropped when this is.
pub struct Real<'s> {
    session: &'s RefCell<Session>,
    time: Time,
    key: String,
    held: Held,
    held_beside: Held,
}

/// A real server that gives fresh keys.
pub struct RealPlace(RefCell<Session>);

impl RealPlace {
    /// Starts the server; returns `None` if it [follows no clock](Server::with_clock).
    pub fn start() -> Option<Self> {
        Some(RealPlace(RefCell::new(Session::start()?)))
    }
}

impl Place for RealPlace {
    type Key<'p> = Real<'p>;

    /// The simulated store runs all of them: here it is shown that a server's Lua runs the scripts likewise.
    fn one_case_in(&self) -> u32 {
        3
    }

    fn keys<const N: usize>(&self, time: Time) -> [Real<'_>; N] {
        std::array::from_fn(|_| Real::new(&self.0, time))
    }
}

/// One connection to one server, for as many keys as there are cases.
pub struct Session {
    connection: Connection,
    clock: VirtualClock,
    keys: u64,
    _server: Server,
}

impl Session {
    /// Starts a server that knows every shipped script; returns `None` if it
    /// [follows no clock](Server::with_clock).
    pub fn start() -> Option<Self> {
        let clock = VirtualClock::new(0);
        let server = Server::with_clock(&clock)?;
        let mut connection = server.connection();
        for id in ScriptId::ALL {
            let script = lockage_lua::script(id);
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script.source());
            let digest: String =
                load.query(&mut connection).expect("the server takes every script");
            assert_eq!(digest, script.digest(), "the digest that is shipped with {}", id.name());
        }
        Some(Session { connection, clock, keys: 0, _server: server })
    }

    /// Calls the script, and reads the keys in the same round trip.
    fn call(&mut self, keys: &[&str], call: &ScriptCall) -> Result<(Reply, Vec<Held>), String> {
        let digest = lockage_lua::script(call.script()).digest();
        let mut calls = redis::pipe();
        calls.cmd("EVALSHA").arg(digest).arg(keys.len()).arg(keys);
        for argument in call.arguments() {
            calls.arg(argument);
        }
        for key in keys {
            calls.cmd("EVAL").arg(LOOK).arg(1).arg(key);
            calls.cmd("PTTL").arg(key);
        }
        let count = 1 + 2 * keys.len();
        let replies = self.connection.req_packed_commands(&calls.get_packed_pipeline(), 0, count);
        let mut replies = replies.map_err(|error| error.to_string())?.into_iter();
        let reply = replies.next().expect("as many as commands");
        let mut held = Vec::new();
        while let (Some(value), Some(ttl)) = (replies.next(), replies.next()) {
            let Value::Int(ttl_ms) = ttl else { panic!("PTTL replies an integer") };
            held.push(stored(value).map(|stored| (stored, self.expire_ms(ttl_ms))));
        }
        Ok((read(Ok(reply)).map_err(|error| error.to_string())?, held))
    }

    /// Returns when the key expires. The clock stands still between the calls, so the time left gives it.
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
    /// Returns a key that was never used.
    pub fn new(session: &'s RefCell<Session>, time: Time) -> Self {
        let mut open = session.borrow_mut();
        open.keys += 1;
        let key = format!("lockage:{{{}}}", open.keys);
        Real { session, time, key, held: None, held_beside: None }
    }
}

impl Key for Real<'_> {
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        let mut session = self.session.borrow_mut();
        session.clock.set(self.time.store_us(now.as_micros()));
        let beside = command.beside().map(|id| key_beside(&self.key, id));
        let keys: Vec<&str> = [&*self.key].into_iter().chain(beside.as_deref()).collect();
        let (mut call, mut held) = (Call::new(command, self.time.sent(now)), Vec::new());
        let reply = call.settle(|call| {
            let (reply, then) = session.call(&keys, call.script_call())?;
            held = then;
            Ok::<_, String>(reply)
        })?;
        if let Reply::Error(error) = reply {
            return Err(error.to_string());
        }
        let mut held = held.into_iter();
        (self.held, self.held_beside) = (held.next().flatten(), held.next().flatten());
        command.outcome(&reply.integers().unwrap_or_default()).map_err(|error| error.to_string())
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

    fn held_beside(&mut self) -> Held {
        self.held_beside.clone()
    }
}

impl Drop for Real<'_> {
    fn drop(&mut self) {
        // A failure here only leaves a key behind on a server that is about to go.
        let _ = self.session.borrow_mut().drop_key(&self.key);
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
