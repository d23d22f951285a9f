//! Answers questions in JSON, with the objects that the command line prints with `--json`.
//!
//! | field of a question | meaning |
//! |---|---|
//! | `verb` | `replay` (also `explore`), `compare`, `worst`, `advise`; `verify`: a replay by the shipped scripts, each of whose decisions the machines make too; `form`: a scenario in TOML as JSON; or `rules` |
//! | `toml` | a scenario, as the text of its file |
//! | `log` | the requests of this file in place of traffic: `id`, which a later question about the same file repeats, `name`, and as of the command line `format`, `by`, `key`, `time`, `trust` (a list) and `ipv6_prefix` |
//! | `top` | as of the command line (5) |
//! | `limit`, `seed` (1), `budget` (20,000) | of `worst` |
//! | `deny_clients` (1%), `windows` | of `advise` |
//! | `rules` | of `rules`: the `name` and `text` of a file of rules, and `limits` to write into it: pairs of a name of the answer and a limit |
//!
//! The answer to `rules` has the limits that are `given` in the file, its `mistakes` as lines, and the `text` with the limits
//! written into it; without `text`, the mistakes are of the file as it was.
//!
//! Without an answer there is an object `error`: its `message`, the `field` of the question that is wrong, and in a
//! wrong `toml` the `span`, a range of bytes. But for `verify` the Rust machines decide.

#[cfg(feature = "rules")]
mod rules;

use std::error::Error;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use lockage_core::{Limit, parse_duration};
use serde::{Deserialize, Serialize};
use toml::Value;

use crate::advise::{Share, check_windows, fitting_windows, work};
use crate::engine::{EngineKind, ModelEngine};
use crate::input::{By, Format, Input, Network, ReadOptions, read_from};
use crate::report::{Report, Source, json};
use crate::scenario::{File, Given, Requests, Scenario};
use crate::study::{Build, Decider, Study, worst_of};
use crate::trace::Trace;

/// The world of a question.
pub trait Outside {
    /// Opens the file of this id.
    fn open(&mut self, id: u64) -> Box<dyn Read + '_>;

    /// Hears of the work that is done so far, and of all of it.
    fn progress(&mut self, done: u64, all: u64);
}

/// Answers questions, and keeps the requests of the last file for the next one.
#[derive(Debug, Default)]
pub struct Asked {
    /// Creates an engine of the shipped scripts, if there is a Lua.
    scripts: Option<Build>,
    kept: Option<(Log, Rc<Trace>, Source)>,
}

const MACHINES: Build = || Ok(Box::new(ModelEngine::default()));

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verb {
    #[serde(alias = "explore")]
    Replay,
    Verify,
    Compare,
    Worst,
    Advise,
    Form,
    #[cfg(feature = "rules")]
    Rules,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    verb: Verb,
    #[serde(default)]
    toml: String,
    log: Option<Log>,
    #[serde(default = "five")]
    top: usize,
    #[serde(default)]
    limit: String,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default = "budget")]
    budget: u32,
    #[serde(default = "one_percent")]
    deny_clients: String,
    #[serde(default)]
    windows: Vec<String>,
    #[cfg(feature = "rules")]
    #[serde(default)]
    rules: rules::RulesFile,
}

fn five() -> usize {
    5
}

fn one() -> u64 {
    1
}

fn budget() -> u32 {
    20_000
}

fn one_percent() -> String {
    "1%".to_owned()
}

/// A file, and how it is read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Log {
    id: u64,
    name: String,
    #[serde(default)]
    format: Format,
    #[serde(default)]
    by: By,
    key: Option<String>,
    time: Option<String>,
    #[serde(default)]
    trust: Vec<Network>,
    #[serde(default = "network")]
    ipv6_prefix: u8,
}

fn network() -> u8 {
    ReadOptions::default().ipv6_prefix
}

impl Log {
    fn options(&self) -> Result<ReadOptions, Failure> {
        let Log { format, by, ipv6_prefix, .. } = *self;
        if !(1..=128).contains(&ipv6_prefix) {
            let message = format!("a prefix of {ipv6_prefix} bits: expected 1 to 128");
            return Err(Failure { message, field: Some("ipv6_prefix"), span: None });
        }
        let Log { key, time, trust, .. } = self.clone();
        Ok(ReadOptions { format, by, key, time, trust, ipv6_prefix })
    }
}

/// No answer.
#[derive(Default, Serialize)]
struct Failure {
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<Range<usize>>,
}

impl Failure {
    fn of(message: &str) -> Failure {
        Failure { message: message.to_owned(), ..Failure::default() }
    }

    fn at(field: &'static str, error: &dyn Error) -> Failure {
        Failure { message: error.to_string(), field: Some(field), span: None }
    }
}

impl<E: Error> From<E> for Failure {
    /// Keeps all causes, as the command line prints them.
    fn from(error: E) -> Failure {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message += &format!(": {error}");
            cause = error.source();
        }
        Failure { message, field: None, span: None }
    }
}

impl Asked {
    /// Creates one that also answers `verify`, by the engines that `scripts` creates.
    pub fn with_scripts(scripts: Build) -> Asked {
        Asked { scripts: Some(scripts), kept: None }
    }

    /// Answers a question: one JSON object and a newline.
    pub fn ask(&mut self, question: &str, outside: &mut (dyn Outside + Send)) -> Vec<u8> {
        self.answer(question, outside).unwrap_or_else(|failure| {
            #[derive(Serialize)]
            struct Object {
                error: Failure,
            }
            let mut answer = serde_json::to_vec(&Object { error: failure })
                .expect("a text, a field and a range are JSON");
            answer.push(b'\n');
            answer
        })
    }

    fn answer(
        &mut self,
        question: &str,
        outside: &mut (dyn Outside + Send),
    ) -> Result<Vec<u8>, Failure> {
        let question: Question = serde_json::from_str(question)?;
        let mut answer = Vec::new();
        match question.verb {
            Verb::Replay | Verb::Verify | Verb::Compare => {
                json::write(&self.decide(question, outside)?, &mut answer)?;
            }
            Verb::Worst => {
                let limit = question.limit.parse();
                let limit: Given<Limit> = limit.map_err(|error| Failure::at("limit", &error))?;
                let report = worst_of(limit, MACHINES, question.seed, question.budget)?;
                json::worst::write(&report, &mut answer)?;
            }
            Verb::Advise => self.advise(question, outside, &mut answer)?,
            Verb::Form => {
                scenario_of(&question.toml, Requests::Traffic)?;
                let table = toml::from_str(&question.toml).map_err(|error| wrong_toml(&error))?;
                serde_json::to_writer(&mut answer, &without_dates(Value::Table(table)))?;
            }
            #[cfg(feature = "rules")]
            Verb::Rules => serde_json::to_writer(&mut answer, &question.rules.answer())?,
        }
        Ok(answer)
    }

    fn decide(
        &mut self,
        question: Question,
        outside: &mut (dyn Outside + Send),
    ) -> Result<Report, Failure> {
        let (verb, top) = (question.verb, question.top);
        let engine = match (verb, self.scripts) {
            (Verb::Verify, Some(scripts)) => (EngineKind::Lua, scripts),
            (Verb::Verify, None) => return Err(Failure::of("there is no Lua to run the scripts")),
            _ => (EngineKind::Model, MACHINES),
        };
        let (study, limits) = self.study(question, outside)?;
        let all = study.trace.requests().len() as u64 * limits.len() as u64;
        let mut done = 0;
        let progress = || {
            done += 1;
            tell(outside, done, all);
        };
        let (kind, build) = engine;
        let decider = Decider { kind, build, top };
        Ok(match verb {
            Verb::Compare => study.compare(&limits, decider, progress)?,
            _ => study.replay(&limits, decider, progress)?,
        })
    }

    fn advise(
        &mut self,
        question: Question,
        outside: &mut (dyn Outside + Send),
        answer: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let share: Result<Share, _> = question.deny_clients.parse();
        let share = share.map_err(|error| Failure::at("deny_clients", &error))?;
        let windows = question.windows.iter().map(|window| parse_duration(window));
        let windows: Result<Vec<Duration>, _> = windows.collect();
        let mut windows = windows.map_err(|error| Failure::at("windows", &error))?;
        check_windows(&windows).map_err(|error| Failure::at("windows", &error))?;
        let (study, _) = self.study(question, outside)?;
        if windows.is_empty() {
            windows = fitting_windows(&study.trace);
        }
        windows.sort_unstable();
        windows.dedup();
        let all = work(&study.trace, windows.len());
        let mut done = 0;
        let report = study.advise(&windows, share, || {
            done += 1;
            tell(outside, done, all);
        })?;
        json::advice::write(&report, answer)?;
        Ok(())
    }

    /// Returns the requests and the limits of a question.
    fn study(
        &mut self,
        question: Question,
        outside: &mut (dyn Outside + Send),
    ) -> Result<(Study, Vec<Given<Limit>>), Failure> {
        let requests = match question.log {
            Some(_) => Requests::Elsewhere,
            None => Requests::Traffic,
        };
        let scenario = scenario_of(&question.toml, requests)?;
        let Some(log) = question.log else {
            return Ok(Study::of(scenario)?);
        };
        let Scenario { limits, waiting, clocks, .. } = scenario;
        let (trace, source) = self.read(&log, outside)?;
        Ok((Study { trace, source, plans: Vec::new(), waiting, clocks }, limits))
    }

    fn read(
        &mut self,
        log: &Log,
        outside: &mut (dyn Outside + Send),
    ) -> Result<(Rc<Trace>, Source), Failure> {
        if let Some((_, trace, source)) = self.kept.as_ref().filter(|(kept, ..)| kept == log) {
            return Ok((Rc::clone(trace), source.clone()));
        }
        // The requests of one large file have room, and not those of two.
        self.kept = None;
        let file = BufReader::with_capacity(1 << 18, outside.open(log.id));
        let Input { trace, unparsed, reading, .. } =
            read_from(file, Path::new(&log.name), &log.options()?, |_| ())?;
        let (trace, name) = (Rc::new(trace), log.name.clone());
        let source = Source::File { name, unparsed, reading };
        self.kept = Some((log.clone(), Rc::clone(&trace), source.clone()));
        Ok((trace, source))
    }
}

/// Reports progress rarely: a call out of a page costs more than a decision.
fn tell(outside: &mut (dyn Outside + Send), done: u64, all: u64) {
    if done.is_multiple_of(4096) {
        outside.progress(done, all);
    }
}

fn scenario_of(text: &str, requests: Requests) -> Result<Scenario, Failure> {
    let file: File = toml::from_str(text).map_err(|error| wrong_toml(&error))?;
    file.scenario(requests)
        .map_err(|wrong| Failure { message: wrong.to_owned(), ..Failure::default() })
}

fn wrong_toml(error: &toml::de::Error) -> Failure {
    let (message, field) = (error.message().to_owned(), Some("toml"));
    Failure { message, field, span: error.span() }
}

/// Returns a value with dates as texts, which JSON has no other form for.
fn without_dates(value: Value) -> Value {
    match value {
        Value::Datetime(date) => Value::String(date.to_string()),
        Value::Array(values) => Value::Array(values.into_iter().map(without_dates).collect()),
        Value::Table(table) => {
            let fields = table.into_iter().map(|(name, value)| (name, without_dates(value)));
            Value::Table(fields.collect())
        }
        value => value,
    }
}
