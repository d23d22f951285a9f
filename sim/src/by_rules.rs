//! Puts a log through the rules of a file: each line's values are a request, which the shipped
//! [`RuleLimiter`] decides on the store in process, at the time of the line.

use std::collections::HashMap;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lockage::runtime::Runtime;
use lockage::{Error, Limiter, RetryStore, limit};
use lockage_core::{Decision, ManualClock, Timestamp, Verdict};
use lockage_memory::MemoryStore;
use lockage_rules::{Met, Request, RuleDecision, RuleLimiter, Rules};
use serde::Serialize;
use thiserror::Error as ThisError;

use crate::input::{By, Input, InputError, ReadOptions, read_values};

/// The key of the part of a line that is its key: see [`ReadOptions::by`].
const KEY: &str = "key";

/// A log, and the names that rules have for its values.
#[derive(Debug)]
pub struct Log {
    /// The log.
    pub input: Input,
    keys: Vec<String>,
}

impl Log {
    /// Reads a log, and of each line all values that the rules name. `key` is the key as the options name it.
    ///
    /// # Errors
    /// [`InputError`].
    pub fn read(
        path: &Path,
        options: &ReadOptions,
        rules: &Rules,
        progress: impl FnMut(u64),
    ) -> Result<Log, InputError> {
        let named = rules.keys().filter(|key| *key != KEY).map(str::to_owned);
        let costs = rules.costs().map(|name| format!("cost.{name}"));
        let mut keys: Vec<String> = named.chain(costs).collect();
        if !keys.iter().any(|key| key == "tier") {
            keys.push("tier".to_owned());
        }
        let values: Vec<ReadOptions> = keys.iter().map(|key| column(key, options)).collect();
        // A line needs no key that the rules do not name, but one that the options name.
        let is_used = rules.keys().any(|key| key == KEY);
        let is_used = is_used || options.by != By::Address || options.key.is_some();
        let own = match is_used {
            true => options.clone(),
            false => ReadOptions { by: By::All, ..options.clone() },
        };
        let mut input = read_values(path, &own, &values, progress)?;
        if !is_used {
            input.reading.key.clear();
        }
        let notes = &mut input.reading.notes;
        for (key, reading) in keys.iter().zip(&input.value_readings) {
            let Some(reading) = reading else { continue };
            notes.push(format!("`{key}` is {}", reading.key));
            for note in &reading.notes {
                if !notes.contains(note) {
                    notes.push(note.clone());
                }
            }
        }
        Ok(Log { input, keys })
    }

    /// Returns the keys that no line has, and that rules name.
    fn missing(&self) -> Vec<String> {
        let is_there = |column: usize| self.input.values.iter().any(|it| it[column].is_some());
        let missing = self.keys.iter().enumerate().filter(|(at, _)| !is_there(*at));
        missing.map(|(_, key)| key.clone()).filter(|key| key != "tier").collect()
    }

    /// Returns the request of a line.
    fn request(&self, index: usize) -> Request<'_> {
        let own = self.input.trace.requests()[index];
        let mut request = Request::new().with(KEY, self.input.trace.key(own.key));
        let values = self.keys.iter().zip(&self.input.values[index]);
        for (key, value) in values.filter_map(|(key, value)| Some((key, value.as_deref()?))) {
            // A host name is no address, and a text no cost: then the line has none.
            let value = value.strip_suffix("/128").filter(|_| key == "address").unwrap_or(value);
            if let Ok(with) = request.clone().with_text(key, value) {
                request = with;
            }
        }
        request
    }
}

/// Returns how the value of a key of rules is read.
fn column(key: &str, options: &ReadOptions) -> ReadOptions {
    let by = match key {
        "address" => Some(By::Address),
        "user" => Some(By::User),
        "method" => Some(By::Method),
        "route" | "path" => Some(By::Path),
        "status" => Some(By::Status),
        "header.referer" => Some(By::Referer),
        "header.user-agent" => Some(By::Agent),
        _ => None,
    };
    let field = key.strip_prefix("header.").or_else(|| key.strip_prefix("cost.")).unwrap_or(key);
    ReadOptions {
        by: by.unwrap_or_default(),
        key: by.is_none().then(|| field.to_owned()),
        // The whole address: rules have networks of their own.
        ipv6_prefix: 128,
        ..options.clone()
    }
}

/// The outcome of all requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RulesTally {
    /// The number of requests.
    pub requests: u64,
    /// The requests that were denied.
    pub denied: u64,
    /// The requests that meet no rule.
    pub unlimited: u64,
    /// The keys of rules that no line has.
    pub missing: Vec<String>,
    /// The rules, in the order of the file.
    pub rules: Vec<RuleTally>,
}

/// The outcome of the requests that meet a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleTally {
    /// The name of the rule.
    pub rule: String,
    /// The requests that meet it.
    pub requests: u64,
    /// The requests that it denied.
    pub denied: u64,
    /// The requests that it would have denied, if it was not on trial.
    pub would_deny: u64,
    /// The ids of those that meet it.
    pub ids: u64,
    /// The ids that it denied, or would have denied, at least once.
    pub ids_denied: u64,
    /// The ids that it denied most, or would have denied, most first; of equals the busier one, then by name.
    pub worst: Vec<IdTally>,
}

/// The outcome of the requests of an id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdTally {
    /// The id.
    pub id: String,
    /// Its requests.
    pub requests: u64,
    /// Those of them that were denied, or would have been.
    pub denied: u64,
}

/// A request without a decision.
#[derive(Debug, ThisError)]
#[error("request {number} of {total} meets {rules}")]
pub struct RulesError {
    number: usize,
    total: usize,
    rules: String,
    source: Box<Error>,
}

/// Puts a log through the rules. `progress` is called after each request; each rule has up to `top` ids.
///
/// # Errors
/// [`RulesError`] at the first request without a decision, such as under a stored limit without a default.
pub fn replay_rules(
    log: &Log,
    rules: &Rules,
    top: usize,
    mut progress: impl FnMut(),
) -> Result<RulesTally, RulesError> {
    let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
    let runtime = Still(Arc::default());
    let store = MemoryStore::with_clock(Arc::clone(&clock));
    let store = RetryStore::new(store, runtime, Duration::from_secs(1));
    let limiter = Limiter::new(store, limit!("fixed-window 1/s")).with_clock(Arc::clone(&clock));
    let limiter = RuleLimiter::of(limiter, MemoryStore::new());
    let mut counts: Vec<Counts> = rules.names().map(|_| Counts::default()).collect();
    let places: HashMap<&str, usize> = rules.names().zip(0..).collect();
    let requests = log.input.trace.requests();
    let mut tally = RulesTally { requests: requests.len() as u64, ..RulesTally::default() };
    for (index, request) in requests.iter().enumerate() {
        clock.set(request.at);
        let matched = rules.matches(&log.request(index));
        let names: Vec<_> = matched.iter().map(|it| it.rule.name.as_str()).collect();
        let names = names.join(", ");
        let decided = answer(limiter.decide(matched)).map_err(|source| RulesError {
            number: index + 1,
            total: requests.len(),
            rules: names,
            source: source.into(),
        })?;
        tally.unlimited += u64::from(decided.met.is_empty());
        tally.denied += u64::from(!decided.is_allowed());
        for (at, met) in decided.met.iter().enumerate() {
            counts[places[met.matched.rule.name.as_str()]].add(&decided, at, met);
        }
        progress();
    }
    tally.missing = log.missing();
    tally.rules = rules.names().zip(counts).map(|(name, counts)| counts.tally(name, top)).collect();
    Ok(tally)
}

/// The counts of one rule.
#[derive(Default)]
struct Counts {
    denied: u64,
    would_deny: u64,
    /// For each id its requests, and the denied ones.
    ids: HashMap<Rc<str>, (u64, u64)>,
}

impl Counts {
    fn add(&mut self, decided: &RuleDecision, at: usize, met: &Met) {
        let denies = |decision: &Decision| decision.verdict != Verdict::Allowed;
        let is_denied = !decided.is_allowed()
            && (decided.binding == Some(at) || met.decision.as_ref().is_some_and(denies));
        let would_deny = met.decision.as_ref().is_some_and(Decision::would_deny);
        self.denied += u64::from(is_denied);
        self.would_deny += u64::from(would_deny);
        let id = self.ids.entry(met.matched.id.as_str().into()).or_default();
        id.0 += 1;
        id.1 += u64::from(is_denied || would_deny);
    }

    fn tally(self, rule: &str, top: usize) -> RuleTally {
        let mut worst: Vec<IdTally> = self
            .ids
            .iter()
            .filter(|(_, (_, denied))| *denied > 0)
            .map(|(id, (requests, denied))| IdTally {
                id: id.to_string(),
                requests: *requests,
                denied: *denied,
            })
            .collect();
        worst.sort_by(|a, b| {
            (b.denied, b.requests).cmp(&(a.denied, a.requests)).then_with(|| a.id.cmp(&b.id))
        });
        let ids_denied = worst.len() as u64;
        worst.truncate(top);
        RuleTally {
            rule: rule.to_owned(),
            requests: self.ids.values().map(|(requests, _)| requests).sum(),
            denied: self.denied,
            would_deny: self.would_deny,
            ids: self.ids.len() as u64,
            ids_denied,
            worst,
        }
    }
}

/// Returns the answer of the store in process, which is there at once.
fn answer<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        // Invariant: the store waits for nothing.
        Poll::Pending => unreachable!("the store in process answers at once"),
    }
}

/// A runtime whose time stands still.
#[derive(Clone)]
struct Still(Arc<AtomicU64>);

impl Runtime for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }

    fn random(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}
