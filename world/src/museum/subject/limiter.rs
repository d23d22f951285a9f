//! The shipped limiters: their scripts on the simulated store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockage_core::{
    Acquire, Adjust, CallTime, Command, Decision, Encoded, Limit, Peek, RequestId, Verdict,
};
use lockage_sim::store::{RespValue, SimError, SimStore};

use super::{Clocks, timestamp};
use crate::museum::stage::Subject;
use crate::museum::step::{Deed, Seen, Step};

const KEY: &str = "lockage:{museum}";

/// How long requests with an id are remembered.
const REMEMBER: Duration = Duration::from_secs(60);

/// One key under one limit.
pub(in crate::museum) struct Limiter {
    store: SimStore,
    limit: Limit,
    /// How many microseconds the clocks of these clients are ahead. If any are given, clients use
    /// their own clocks.
    clocks: Clocks,
    has_ids: bool,
    requests: u128,
    latest: BTreeMap<char, Acquire>,
    /// The clients that have begun a request.
    begun: BTreeSet<char>,
}

impl Limiter {
    pub(in crate::museum) fn under(spec: &str) -> Box<dyn Subject> {
        Box::new(Limiter::of(spec))
    }

    /// Creates a limiter that gives each request an id.
    pub(in crate::museum) fn with_ids(spec: &str) -> Box<dyn Subject> {
        Box::new(Limiter { has_ids: true, ..Limiter::of(spec) })
    }

    /// Creates a limiter whose clients use clocks that are ahead by these microseconds.
    pub(in crate::museum) fn by_clocks(spec: &str, clocks: Clocks) -> Box<dyn Subject> {
        Box::new(Limiter { clocks, ..Limiter::of(spec) })
    }

    fn of(spec: &str) -> Self {
        Limiter {
            store: SimStore::new().expect("Lua gets its memory"),
            limit: spec.parse().expect("entries have limits that parse"),
            clocks: &[],
            has_ids: false,
            requests: 0,
            latest: BTreeMap::new(),
            begun: BTreeSet::new(),
        }
    }

    fn acquire(&mut self, who: char, cost: u64) -> Seen {
        let mut acquire = match Acquire::new(self.limit, cost) {
            Ok(acquire) => acquire,
            Err(error) => return Seen::Failed(error.to_string()),
        };
        if self.has_ids {
            self.requests += 1;
            let id = RequestId::from_u128(self.requests);
            acquire = acquire.with_request(id, REMEMBER).expect("in range");
        }
        self.latest.insert(who, acquire);
        told(self.store.run(KEY, &acquire))
    }

    /// Runs the script that takes text, with any text for the cost.
    fn acquire_text(&mut self, cost: &str) -> Seen {
        let acquire = Acquire::new(self.limit, 1).expect("a cost of 1 is one");
        let call = Encoded::Text(acquire.encode_text()).at(CallTime::Store);
        let mut argv: Vec<&[u8]> = call.arguments().collect();
        *argv.last_mut().expect("the cost is the last one") = cost.as_bytes();
        let source = lockage_lua::script(call.script()).source();
        match self.store.eval(source, &[KEY.as_bytes()], &argv) {
            Ok(RespValue::Error(error)) => Seen::Failed(error),
            Ok(_) => Seen::Admitted { remaining: None },
            Err(error) => Seen::Failed(error.to_string()),
        }
    }
}

impl Subject for Limiter {
    fn reset(&mut self) {
        self.store.flush_all();
        self.requests = 0;
        self.latest.clear();
        self.begun.clear();
    }

    fn step(&mut self, at_us: u64, step: Step) -> Option<Seen> {
        let (who, deed) = match step {
            Step::Wait(span) => {
                self.store.set_now(timestamp(at_us + span));
                return Some(Seen::Nothing);
            }
            Step::By(who, deed) => (who, deed),
        };
        self.store.set_now(timestamp(at_us));
        if !self.clocks.is_empty() {
            let ahead = self.clocks.iter().find(|(client, _)| *client == who);
            let own = at_us.saturating_add_signed(ahead.map_or(0, |(_, ahead)| *ahead));
            self.store.set_call_time(CallTime::Caller { now: timestamp(own), skew_ms: 0 });
        }
        Some(match deed {
            Deed::Acquire(cost) => self.acquire(who, cost),
            Deed::AcquireTimes(times) => {
                let admitted = |_: &u64| matches!(self.acquire(who, 1), Seen::Admitted { .. });
                Seen::AdmittedOf((0..times).filter(admitted).count() as u64)
            }
            Deed::AcquireText(cost) => self.acquire_text(cost),
            Deed::AcquireAndCrash => {
                // The whole request is one script: there is no half of it.
                self.acquire(who, 1);
                Seen::Nothing
            }
            Deed::Peek(cost) => told(self.store.run(KEY, &Peek::new(self.limit, cost))),
            Deed::GiveBack(cost) => {
                let refund = Adjust::refund(self.limit, cost).expect("entries give something back");
                match self.store.run(KEY, &refund) {
                    Ok(adjusted) => Seen::GivenBack(adjusted.amount),
                    Err(error) => Seen::Failed(error.to_string()),
                }
            }
            Deed::Repeat => told(self.store.run(KEY, self.latest.get(&who)?)),
            Deed::Evict => {
                self.store.execute(&[b"DEL", KEY.as_bytes()]);
                Seen::Nothing
            }
            Deed::Read if self.begun.insert(who) => Seen::Nothing,
            Deed::Write if self.begun.remove(&who) => self.acquire(who, 1),
            _ => return None,
        })
    }

    fn stored(&mut self) -> String {
        match (self.store.stored(KEY), self.store.expires_at_ms(KEY)) {
            (None, _) => String::new(),
            (Some(stored), until_ms) => format!("{stored:?} until {until_ms:?}"),
        }
    }
}

fn told(decided: Result<Decision, SimError>) -> Seen {
    match decided {
        Ok(Decision { verdict: Verdict::Allowed, remaining, .. }) => {
            Seen::Admitted { remaining: Some(remaining) }
        }
        Ok(decision) => {
            let micros = |wait: Duration| u64::try_from(wait.as_micros()).expect("below MAX_SPAN");
            Seen::Denied { retry_after_us: decision.retry_after().map(micros) }
        }
        Err(error) => Seen::Failed(error.to_string()),
    }
}
