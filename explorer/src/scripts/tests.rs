//! The shipped scripts give the same results in rilua and in C Lua: each reply, and after it every
//! key with its bytes and its expiry, every message, and how often each command ran. The Rust
//! machine runs in parallel with both.

use std::cell::RefCell;

use lockage_core::{Command, Encoded, ScriptId, Timestamp, key_beside};
use lockage_oracle::every::{Keys, play_every_kind};
use lockage_oracle::key::{Held, Holds, Key};
use lockage_oracle::place::Time;
use lockage_redis::Reply;
use lockage_sim::store::{RespValue, SimError, SimStore, run_command};

use super::Scripts;

/// The number of sequences of each kind by default: a few hundred in all.
const OF_EACH_KIND: u32 = 24;

#[test]
fn drawn_sequences_of_every_kind_come_to_the_same_as_in_c_lua() {
    let asked = std::env::var("PROPTEST_CASES").ok();
    let of_each_kind = asked.map_or(OF_EACH_KIND, |asked| asked.parse().expect("a number"));
    let both =
        Both { c: SimStore::new().expect("C Lua"), rust: Scripts::new().expect("rilua"), calls: 0 };
    let mut twins = Twins { both: &RefCell::new(both), sequences: 0 };
    play_every_kind(of_each_kind, &mut twins);
    let both = twins.both.borrow();
    println!("{} sequences, {} calls", twins.sequences, both.calls);
    let run: Vec<ScriptId> = both.c.scripts_run().collect();
    assert_eq!(run, ScriptId::ALL, "every script was called");
}

/// Two stores that get the same calls.
struct Both {
    c: SimStore,
    rust: Scripts,
    calls: u64,
}

struct Twins<'b> {
    both: &'b RefCell<Both>,
    sequences: u64,
}

impl<'b> Keys for Twins<'b> {
    type Key = Twin<'b>;

    fn key(&mut self, time: Time, is_slow: bool) -> Twin<'b> {
        let both = &mut *self.both.borrow_mut();
        both.c.flush_all();
        both.rust.host.flush_all();
        Twin { both: self.both, time, is_slow, latest: Default::default() }
    }

    fn done(&mut self, _: Twin<'b>) {
        self.sequences += 1;
    }
}

/// A key in both stores.
struct Twin<'b> {
    both: &'b RefCell<Both>,
    time: Time,
    is_slow: bool,
    /// The values of the key and of its side key.
    latest: [Held; 2],
}

const KEY: &str = "lockage:{one}";

impl Key for Twin<'_> {
    fn execute<C: Command>(&mut self, command: &C, now: Timestamp) -> Result<C::Outcome, String> {
        let both = &mut *self.both.borrow_mut();
        both.set_now(self.time.store_us(now.as_micros()));
        let time = self.time.sent(now);
        let beside = command.beside().map(|id| key_beside(KEY, id));
        let outcome = if self.is_slow {
            let call = Encoded::Text(command.encode_text()).at(time);
            let keys: Vec<&str> = [KEY].into_iter().chain(beside.as_deref()).collect();
            let arguments: Vec<&[u8]> = call.arguments().collect();
            let reply = both.call(call.script(), &keys, &arguments).map(Reply::from);
            reply.and_then(|reply| Ok(command.outcome(&reply.integers()?)?))
        } else {
            run_command(KEY, command, time, |script, keys, argv| both.call(script, keys, argv))
        };
        self.latest = [both.held(KEY), beside.and_then(|key| both.held(&key))];
        outcome.map_err(|error| error.to_string())
    }

    fn forget(&mut self) {
        let both = &mut *self.both.borrow_mut();
        let delete: [&[u8]; 2] = [b"DEL", KEY.as_bytes()];
        assert_eq!(both.c.execute(&delete), both.rust.host.execute(&delete));
        self.latest = [both.held(KEY), None];
    }
}

impl Holds for Twin<'_> {
    fn held(&mut self) -> Held {
        self.latest[0].clone()
    }

    fn held_beside(&mut self) -> Held {
        self.latest[1].clone()
    }
}

impl Both {
    fn set_now(&mut self, now_us: u64) {
        let now = Timestamp::from_micros(now_us).expect("within the range of time");
        self.c.set_now(now);
        self.rust.host.set_now(now);
    }

    fn call(
        &mut self,
        script: ScriptId,
        keys: &[&str],
        argv: &[&[u8]],
    ) -> Result<RespValue, SimError> {
        self.calls += 1;
        let (one, other) = (self.c.call_on(script, keys, argv), self.rust.call(script, keys, argv));
        assert_eq!(one, other, "the reply of {} to {argv:?}", script.name());
        assert!(
            *self.c.host() == self.rust.host,
            "{} leaves in C Lua {:?}, and in rilua {:?}",
            script.name(),
            *self.c.host(),
            self.rust.host
        );
        one
    }

    fn held(&self, key: &str) -> Held {
        let expire_ms = self.c.expires_at_ms(key).map(|ms| u64::try_from(ms).expect("after 1970"));
        self.c.stored(key).map(|stored| (stored, expire_ms.unwrap_or(u64::MAX)))
    }
}
