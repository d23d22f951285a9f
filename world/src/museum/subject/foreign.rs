//! Scripts and clients of other projects, on the simulated store.

use std::collections::{BTreeMap, BTreeSet};

use lockage_sim::store::{RespValue, SimStore};

use super::{Clocks, since_epoch, timestamp};
use crate::museum::stage::Subject;
use crate::museum::step::{Deed, Seen, Step, seconds};

/// A client's deed, and its time.
pub struct Ask {
    /// The time of the client's clock, in microseconds since 1970.
    pub now_us: u64,
    /// The client.
    pub who: char,
    /// The deed.
    pub deed: Deed,
}

/// The store, and the memory of each client.
pub struct World {
    store: SimStore,
    keys: BTreeSet<String>,
    pub(in crate::museum) memory: BTreeMap<char, i64>,
}

/// Does a deed of a client; returns nothing if the client has no such deed.
type Client = Box<dyn Fn(&mut World, &Ask) -> Option<Seen>>;

/// A store that another project's client uses.
pub(in crate::museum) struct Foreign {
    world: World,
    client: Client,
    /// How many microseconds the clocks of these clients are ahead.
    clocks: Clocks,
    /// The last deed of each client, for repetitions.
    latest: BTreeMap<char, Deed>,
}

impl Foreign {
    pub(in crate::museum) fn by(
        client: impl Fn(&mut World, &Ask) -> Option<Seen> + 'static,
    ) -> Box<dyn Subject> {
        Foreign::by_clocks(&[], client)
    }

    /// Creates a store whose clients use clocks that are ahead by these microseconds.
    pub(in crate::museum) fn by_clocks(
        clocks: Clocks,
        client: impl Fn(&mut World, &Ask) -> Option<Seen> + 'static,
    ) -> Box<dyn Subject> {
        let store = SimStore::new().expect("Lua gets its memory");
        let world = World { store, keys: BTreeSet::new(), memory: BTreeMap::new() };
        Box::new(Foreign { world, client: Box::new(client), clocks, latest: BTreeMap::new() })
    }

    fn run(&mut self, at_us: u64, who: char, deed: Deed) -> Option<Seen> {
        let ahead = self.clocks.iter().find(|(client, _)| *client == who);
        let ahead = ahead.map_or(0, |(_, ahead)| *ahead);
        let now_us = since_epoch(at_us).saturating_add_signed(ahead);
        (self.client)(&mut self.world, &Ask { now_us, who, deed })
    }
}

impl Subject for Foreign {
    fn reset(&mut self) {
        self.world.store.flush_all();
        self.world.keys.clear();
        self.world.memory.clear();
        self.latest.clear();
    }

    fn step(&mut self, at_us: u64, step: Step) -> Option<Seen> {
        let (who, deed) = match step {
            Step::Wait(span) => {
                self.world.store.set_now(timestamp(at_us + span));
                return Some(Seen::Nothing);
            }
            Step::By(who, Deed::Repeat) => (who, *self.latest.get(&who)?),
            Step::By(who, deed) => (who, deed),
        };
        self.world.store.set_now(timestamp(at_us));
        self.latest.insert(who, deed);
        let Deed::AcquireTimes(times) = deed else { return self.run(at_us, who, deed) };
        let mut admitted = 0;
        for _ in 0..times {
            match self.run(at_us, who, Deed::Acquire(1))? {
                Seen::Admitted { .. } => admitted += 1,
                failed @ Seen::Failed(_) => return Some(failed),
                _ => {}
            }
        }
        Some(Seen::AdmittedOf(admitted))
    }

    fn stored(&mut self) -> String {
        let keys: Vec<String> = self.world.keys.iter().cloned().collect();
        let all = keys.iter().filter_map(|key| self.world.shown(key));
        all.collect::<Vec<String>>().join(", ")
    }
}

impl World {
    /// Runs a script; keys and arguments are words.
    pub(in crate::museum) fn eval(&mut self, source: &str, keys: &str, argv: &str) -> RespValue {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        self.call(source, &words(keys), &words(argv))
    }

    /// Runs a script on these keys with these arguments.
    pub fn call(&mut self, source: &str, keys: &[String], argv: &[String]) -> RespValue {
        self.keys.extend(keys.iter().cloned());
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let argv: Vec<&[u8]> = argv.iter().map(String::as_bytes).collect();
        self.store.eval(source, &keys, &argv).expect("Lua gets its memory")
    }

    /// Runs one command, split into words: its name, its key, and its arguments.
    pub fn command(&mut self, command: &str) -> RespValue {
        let words: Vec<&[u8]> = command.split_whitespace().map(str::as_bytes).collect();
        self.keys.extend(command.split_whitespace().nth(1).map(str::to_owned));
        self.store.execute(&words)
    }

    /// Returns the last instant of a key, in microseconds from the beginning of the trace.
    pub fn ends_at(&self, key: &str) -> Option<u64> {
        let millis = u64::try_from(self.store.expires_at_ms(key)?).ok()?;
        (millis * 1000).checked_sub(since_epoch(0))
    }

    /// Returns a key with its value and expiry, if it exists.
    fn shown(&mut self, key: &str) -> Option<String> {
        let RespValue::Status(kind) = self.command(&format!("TYPE {key}")) else { return None };
        let held = match kind.as_str() {
            "string" => self.command(&format!("GET {key}")),
            "hash" => self.command(&format!("HGETALL {key}")),
            "zset" => self.command(&format!("ZRANGE {key} 0 -1 WITHSCORES")),
            _ => return None,
        };
        let held = match held {
            RespValue::Array(all) if all.len() > 8 => format!("{} values", all.len()),
            RespValue::Array(all) => all.iter().map(text_of).collect::<Vec<String>>().join(" "),
            one => text_of(&one),
        };
        let ends = match self.ends_at(key) {
            Some(end) => format!("until {}", seconds(end)),
            None => "for ever".to_owned(),
        };
        Some(format!("{key} = {held} {ends}"))
    }
}

fn text_of(reply: &RespValue) -> String {
    match reply {
        RespValue::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    }
}
