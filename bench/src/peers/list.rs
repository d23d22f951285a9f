//! The peers of `bench/peers.json`: the calls of their clients, and the meaning of their replies.

use std::cell::Cell;
use std::path::Path;

use anyhow::Result;
use lockage_sim::store::RespValue;
use lockage_world::museum::{Ask, Deed, Finding, Seen, Trial, World};
use serde::Deserialize;

use super::published::{Absent, Published};

/// A limiter or a lock of another project on Redis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// The museum's name of the project.
    pub(super) project: &'static str,
    /// The row of lockage that does the same.
    pub(super) beside: &'static str,
    told: Told,
    /// The repository of its scripts; nothing where its arithmetic is `bench/lua/gcra.lua`.
    pub(super) repository: Option<&'static str>,
    #[serde(default)]
    pub(super) licence: &'static str,
    #[serde(default)]
    pub(super) scripts: Vec<Published>,
    /// The call that its user sends once.
    before: Option<&'static str>,
    /// The calls of a decision, until a reply decides it; of a lock the first one acquires it, and the others
    /// release it. Each is a command, or `SCRIPT`, its number, keys, `:` and arguments. [`Asked::fill`] has the
    /// words in capitals.
    pub(super) calls: Vec<&'static str>,
    /// The museum's trial for it, if it is a limiter.
    pub(super) trial: Option<Trial>,
}

/// The meaning of replies.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    /// Whether it is admitted, the remainder, and when to ask again, in seconds as text.
    Gcra,
    /// Whether it is denied, the burst, the remainder, and when to ask again, in seconds.
    Cell,
    /// The remainder, below zero where it is denied.
    Left,
    /// The usage, and the limit.
    UsedAndLimit,
    /// The usage, and for how many milliseconds more.
    UsedAndTtl,
    /// The usage before; then nothing that matters.
    Used,
    /// The milliseconds for which it is denied, or nothing.
    Wait,
    /// The milliseconds for which the lock is held, or nothing; then nothing that matters.
    Lock,
}

/// A request, and the limit that it is under.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) capacity: u64,
    pub(super) period_ms: u64,
    pub(super) cost: u64,
    pub(super) now_ms: u64,
    pub(super) number: usize,
    pub(super) owner: char,
}

impl Asked {
    /// Returns the words of a call.
    fn fill(&self, call: &str) -> Vec<String> {
        let window = self.now_ms / self.period_ms;
        let values = [
            ("CAPACITY", self.capacity.to_string()),
            ("COST", self.cost.to_string()),
            ("MILLIS", self.period_ms.to_string()),
            ("MICROS", (self.period_ms * 1000).to_string()),
            ("SECONDS", (self.period_ms / 1000).to_string()),
            ("NOW", self.now_ms.to_string()),
            ("WINDOW", window.to_string()),
            ("PREVIOUS", (window - 1).to_string()),
            // The same length as the random bytes that a client sends, and as the names of its threads.
            ("NUMBER", format!("{:016}", self.number)),
            ("OWNER", format!("{:036}:{}", 0, self.owner)),
            ("INTERVAL", (self.period_ms as f64 / 1000.0 / self.capacity as f64).to_string()),
            ("ID", "user:1234567".to_owned()),
            ("NONE", String::new()),
        ];
        let filled = |word: &str| {
            values.iter().fold(word.to_owned(), |word, (name, value)| word.replace(name, value))
        };
        call.split(' ').map(filled).collect()
    }
}

/// A call: a script with its keys and arguments, or a command.
pub(super) enum Sent {
    Script { source: String, keys: Vec<String>, argv: Vec<String> },
    Command(Vec<String>),
}

impl Peer {
    /// Returns all peers.
    pub(super) fn all() -> Result<Vec<Peer>> {
        Ok(serde_json::from_str(include_str!("../../peers.json"))?)
    }

    /// Returns its scripts.
    pub(super) fn read(&self, folder: &Path) -> Result<Vec<String>, Absent> {
        let Some(repository) = self.repository else {
            return Ok(vec![include_str!("../../lua/gcra.lua").to_owned()]);
        };
        self.scripts.iter().map(|script| script.read(folder, repository)).collect()
    }

    /// Returns where its scripts are published, and their digests.
    pub(super) fn published(&self, scripts: &[String]) -> String {
        let digest = |text: &String| redis::Script::new(text).get_hash()[..8].to_owned();
        let digests: Vec<String> = scripts.iter().map(digest).collect();
        let (name, digests) = (self.name, digests.join(" and "));
        match (self.repository, self.scripts.first()) {
            (Some(repository), Some(Published { file, .. })) => {
                format!("{name}: `{file}` of <{repository}> ({}), SHA-1 {digests}", self.licence)
            }
            _ => format!("{name}: `bench/lua/gcra.lua`, SHA-1 {digests}"),
        }
    }

    /// Returns the call that its user sends once, and then the calls of a decision.
    pub(super) fn sent(&self, scripts: &[String], asked: &Asked) -> (Option<Sent>, Vec<Sent>) {
        let sent = |call: &&str| {
            let words = asked.fill(call);
            if words[0] != "SCRIPT" {
                return Sent::Command(words);
            }
            let source = scripts[words[1].parse::<usize>().expect("a number")].clone();
            let mut parts = words[2..].split(|word| word == ":").map(<[String]>::to_vec);
            let mut part = || parts.next().unwrap_or_default();
            Sent::Script { source, keys: part(), argv: part() }
        };
        (self.before.as_ref().map(sent), self.calls.iter().map(sent).collect())
    }

    /// Returns the meaning of the replies until now; nothing where it takes another call.
    pub(super) fn told(&self, replies: &[RespValue], asked: &Asked) -> Option<Seen> {
        let at = |place: usize| match replies.last()? {
            RespValue::Array(told) => told.get(place),
            one => Some(one),
        };
        let number = |place| at(place).and_then(whole);
        let capacity = asked.capacity as i64;
        let left = |left: i64, retry_us| if left < 0 { denied(retry_us) } else { admitted(left) };
        if let Some(RespValue::Error(error)) = replies.last() {
            return Some(Seen::Failed(error.clone()));
        }
        Some(match self.told {
            Told::Gcra => {
                let RespValue::Bulk(retry) = at(2)? else { return None };
                let retry: f64 = String::from_utf8_lossy(retry).parse().ok()?;
                if number(0)? == 0 {
                    denied((retry * 1e6).round() as i64)
                } else {
                    admitted(number(1)?)
                }
            }
            Told::Cell if number(0)? == 1 => denied(number(3)? * 1_000_000),
            Told::Cell => admitted(number(2)?),
            Told::Left => left(number(0)?, -1),
            Told::UsedAndLimit => left(number(1)? - number(0)?, -1),
            Told::UsedAndTtl => left(capacity - number(0)?, number(1)? * 1000),
            Told::Used if replies.len() == 1 => {
                let used = number(0).unwrap_or(0) + asked.cost as i64;
                return (used > capacity).then(|| denied(-1));
            }
            Told::Used => admitted(-1),
            Told::Wait => number(0).map_or(admitted(-1), |millis| denied(millis * 1000)),
            Told::Lock if replies.len() == 1 => return number(0).map(|_| Seen::Refused),
            Told::Lock if replies.len() < self.calls.len() => return None,
            Told::Lock => Seen::Released(0),
        })
    }

    /// Returns its violations in the museum's trial, unless it is a lock.
    pub(super) fn tried(&self, scripts: &[String]) -> Option<Result<Vec<Finding>, String>> {
        let trial = self.trial?;
        let (peer, scripts, number) = (self.clone(), scripts.to_vec(), Cell::new(0));
        let takes_costs = self.calls.iter().any(|call| call.contains("COST"));
        let client = move |world: &mut World, ask: &Ask| {
            let Deed::Acquire(cost) = ask.deed else { return None };
            if cost > 1 && !takes_costs {
                return None;
            }
            number.set(number.get() + 1);
            let (capacity, period_ms, now_ms) =
                (trial.capacity, trial.period_us / 1000, ask.now_us / 1000);
            let asked =
                Asked { capacity, period_ms, cost, now_ms, number: number.get(), owner: ask.who };
            let (once, calls) = peer.sent(&scripts, &asked);
            once.map(|sent| send(world, sent));
            let mut replies = Vec::new();
            let seen = calls.into_iter().find_map(|call| {
                replies.push(send(world, call));
                peer.told(&replies, &asked)
            })?;
            // The remainder cannot be asked for at once.
            let is_unusable = !takes_costs && matches!(seen, Seen::Admitted { .. });
            Some(if is_unusable { admitted(-1) } else { seen })
        };
        Some(trial.of(client))
    }
}

fn send(world: &mut World, sent: Sent) -> RespValue {
    match sent {
        Sent::Script { source, keys, argv } => world.call(&source, &keys, &argv),
        Sent::Command(words) => world.command(&words.join(" ")),
    }
}

/// Returns an admission with this remainder; below zero, the reply does not say it.
fn admitted(left: i64) -> Seen {
    Seen::Admitted { remaining: u64::try_from(left).ok() }
}

/// Returns a denial for this number of microseconds; below zero, the reply does not say it.
fn denied(retry_us: i64) -> Seen {
    Seen::Denied { retry_after_us: u64::try_from(retry_us).ok() }
}

fn whole(reply: &RespValue) -> Option<i64> {
    match reply {
        RespValue::Integer(number) => Some(*number),
        RespValue::Bulk(text) => String::from_utf8_lossy(text).parse().ok(),
        _ => None,
    }
}
