//! What others wrote: scripts and clients, on the simulated store.

use std::collections::{BTreeMap, BTreeSet};

use lockage_sim::store::{RespValue, SimStore};

use super::{since_epoch, timestamp};
use crate::museum::stage::Subject;
use crate::museum::step::{Deed, Seen, Step, seconds};

/// What a client does, and when.
pub(in crate::museum) struct Ask {
    /// Microseconds since 1970.
    pub(in crate::museum) now_us: u64,
    pub(in crate::museum) who: char,
    pub(in crate::museum) deed: Deed,
}

/// The store, and what each client remembers.
pub(in crate::museum) struct World {
    store: SimStore,
    keys: BTreeSet<String>,
    pub(in crate::museum) memory: BTreeMap<char, i64>,
}

/// How a client does a deed; nothing where it cannot.
type Client = fn(&mut World, &Ask) -> Option<Seen>;

/// A store that another project's client uses.
pub(in crate::museum) struct Foreign {
    world: World,
    client: Client,
    /// What each has done last, to be sent again.
    latest: BTreeMap<char, Deed>,
}

impl Foreign {
    pub(in crate::museum) fn by(client: Client) -> Box<dyn Subject> {
        let store = SimStore::new().expect("Lua gets its memory");
        let world = World { store, keys: BTreeSet::new(), memory: BTreeMap::new() };
        Box::new(Foreign { world, client, latest: BTreeMap::new() })
    }

    fn run(&mut self, at_us: u64, who: char, deed: Deed) -> Option<Seen> {
        (self.client)(&mut self.world, &Ask { now_us: since_epoch(at_us), who, deed })
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
        self.keys.extend(keys.split_whitespace().map(str::to_owned));
        let words = |text: &str| -> Vec<Vec<u8>> {
            text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
        };
        let (keys, argv) = (words(keys), words(argv));
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let argv: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
        self.store.eval(source, &keys, &argv).expect("Lua gets its memory")
    }

    /// Runs one command, in words: its name, its key, and what else it takes.
    pub(in crate::museum) fn command(&mut self, command: &str) -> RespValue {
        let words: Vec<&[u8]> = command.split_whitespace().map(str::as_bytes).collect();
        self.keys.extend(command.split_whitespace().nth(1).map(str::to_owned));
        self.store.execute(&words)
    }

    /// The last instant of a key, from the beginning of the trace.
    pub(in crate::museum) fn ends_at(&self, key: &str) -> Option<u64> {
        let millis = u64::try_from(self.store.expires_at_ms(key)?).ok()?;
        (millis * 1000).checked_sub(since_epoch(0))
    }

    /// A key, what it holds, and until when, where it lives.
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
