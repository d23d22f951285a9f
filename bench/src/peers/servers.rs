//! The costs of decisions for two servers: one under callgrind, and one whose time is measured.

use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use lockage_sim::store::RespValue;
use lockage_world::museum::Seen;
use redis::{Cmd, Value};

use super::list::{Asked, Peer, Sent};
use crate::measure::median;
use crate::process::Server;
use crate::server::cases::{Case, case};
use crate::server::{Counted, MEASURED, prepare};
use crate::usage;

/// The period of all limits that are measured, in milliseconds.
const DAY: u64 = 24 * 3600 * 1000;

/// The lease of locks.
const LEASE: u64 = 30_000;

/// The costs of a decision.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    pub(super) instructions: Option<f64>,
    /// The number of decisions in a second of a processor.
    pub(super) per_second: f64,
    /// The bytes of all keys at the end.
    pub(super) bytes: f64,
}

pub(super) struct Servers {
    counted: Counted,
    timed: Server,
    rounds: usize,
    /// The start, in milliseconds since 1970.
    begin: u64,
}

impl Servers {
    pub(super) fn start(program: &str, rounds: usize) -> Result<Self> {
        let counted = Counted::start(program)?;
        let folder = tempfile::tempdir().context("a folder for the server")?;
        let timed = Server::start(Command::new(program), folder, false)?;
        let begin = SystemTime::UNIX_EPOCH.elapsed()?.as_millis() as u64;
        Ok(Servers { counted, timed, rounds, begin })
    }

    pub(super) fn version(&mut self) -> Result<String> {
        Ok(self.timed.info("server", "redis_version:")?.concat())
    }

    /// Makes a case of a peer, once a reply has shown that it has this outcome.
    pub(super) fn case(
        &mut self,
        peer: &Peer,
        scripts: &[String],
        outcome: &'static str,
    ) -> Result<Case> {
        let capacity = if outcome == "denied" { 1 } else { 1_000_000 };
        let is_lock = peer.trial.is_none();
        let period_ms = if is_lock { LEASE } else { DAY };
        let begin = self.begin;
        let asked = move |number: usize, owner| Asked {
            capacity,
            period_ms,
            cost: 1,
            now_ms: begin + number as u64,
            number,
            owner,
        };
        let (once, first) = peer.sent(scripts, &asked(0, 'A'));
        let mut before: Vec<Cmd> = once.iter().chain(&first).map(wire).collect();
        if outcome == "refused" {
            before.truncate(1);
        } else if is_lock {
            before.clear();
        }
        // Each case begins with scripts of ours alone.
        let load = scripts.iter().map(|script| cmd(&["SCRIPT", "LOAD", script]));
        before.splice(0..0, load);
        self.timed.send(&[redis::cmd("FLUSHALL")])?;
        self.timed.send(&before)?;
        let (_, calls) = peer.sent(scripts, &asked(1, 'B'));
        let mut replies = Vec::new();
        let seen = loop {
            let call = calls.get(replies.len()).context("no reply decides it")?;
            replies.push(reply(self.timed.query(&wire(call))?));
            if let Some(seen) = peer.told(&replies, &asked(1, 'B')) {
                break seen;
            }
        };
        let is_so = match outcome {
            "admitted" => matches!(seen, Seen::Admitted { .. }),
            "denied" => matches!(seen, Seen::Denied { .. }),
            "refused" => seen == Seen::Refused,
            _ => seen == Seen::Released(0),
        };
        ensure!(is_so, "{} is not {outcome}, but {seen}", peer.name);
        let (each, peer, scripts) = (replies.len(), peer.clone(), scripts.to_vec());
        let command = move |number: usize| {
            wire(&peer.sent(&scripts, &asked(2 + number / each, 'B')).1[number % each])
        };
        Ok(Case { each, before, ..case("a peer", outcome, command) })
    }

    pub(super) fn measure(&mut self, case: &Case) -> Result<Cost> {
        let commands = |round| case.commands(case.warm_up() + round * MEASURED, MEASURED);
        prepare(&mut self.counted.server, case)?;
        let instructions = self.counted.count(&commands(0))? as f64 / MEASURED as f64;
        prepare(&mut self.timed, case)?;
        let (mut took, mut bytes) = (Vec::new(), 0);
        for round in 0..self.rounds {
            let commands = commands(round);
            let before = usage::of_process(self.timed.id())?;
            self.timed.send(&commands)?;
            took.push((usage::of_process(self.timed.id())? - before).as_secs_f64());
            if round == 0 {
                let keys: Vec<String> = self.timed.ask(&["KEYS", "*"])?;
                for key in keys {
                    bytes += self.timed.ask::<u64>(&["MEMORY", "USAGE", &key, "SAMPLES", "0"])?;
                }
            }
        }
        let per_second = MEASURED as f64 / median(took);
        Ok(Cost { instructions: Some(instructions), per_second, bytes: bytes as f64 })
    }
}

fn cmd(words: &[&str]) -> Cmd {
    let mut cmd = Cmd::new();
    cmd.arg(words);
    cmd
}

fn wire(sent: &Sent) -> Cmd {
    let mut cmd = Cmd::new();
    match sent {
        Sent::Command(words) => cmd.arg(words),
        Sent::Script { source, keys, argv } => {
            let digest = redis::Script::new(source).get_hash().to_owned();
            cmd.arg("EVALSHA").arg(digest).arg(keys.len()).arg(keys).arg(argv)
        }
    };
    cmd
}

/// Converts a reply to the museum's type.
fn reply(value: Value) -> RespValue {
    match value {
        Value::Int(number) => RespValue::Integer(number),
        Value::BulkString(bytes) => RespValue::Bulk(bytes),
        Value::Array(all) => RespValue::Array(all.into_iter().map(reply).collect()),
        Value::Nil => RespValue::Nil,
        other => RespValue::Status(format!("{other:?}")),
    }
}
