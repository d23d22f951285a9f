//! An application of one route, alone and behind limits for each client's address.

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use lockage::store::HasTimeout;
use lockage::{Limiter, Store};
use lockage_memory::{KeyedLimiter, MemoryStore};
use lockage_rules::{Format, RuleLimiter, Rules};
use lockage_tower::{Fields, RateLimit, ip};
use tower::util::MapRequestLayer;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

/// Whether requests are admitted or denied, however many there are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Admit,
    Deny,
}

impl Outcome {
    fn limit(self) -> &'static str {
        match self {
            Outcome::Admit => "token-bucket 15000/day burst 300000000",
            Outcome::Deny => "token-bucket 1/day burst 1",
        }
    }

    /// Returns such a limit of tower_governor: a burst, and the seconds after which one of it comes back.
    fn burst(self) -> (u32, u64) {
        match self {
            Outcome::Admit => (300_000_000, 6),
            Outcome::Deny => (1, 86_400),
        }
    }
}

pub(super) fn bare() -> Router {
    // As a server has it, which makes all routes once.
    Router::new().route("/", get(async || "hello\n")).with_state(())
}

/// Returns an app with a layer that does nothing: the cost of any layer.
pub(super) fn with_idle_layer() -> Router {
    bare().layer(MapRequestLayer::new(|request: Request| request)).with_state(())
}

pub(super) fn limiter<S: Store>(store: S, outcome: Outcome) -> Result<Limiter<S>> {
    Ok(Limiter::new(store, outcome.limit().parse()?).with_prefix("http")?)
}

pub(super) fn lockage<S: Store + Clone + 'static>(
    limiter: Limiter<S>,
    fields: Fields,
) -> Result<Router> {
    Ok(bare().layer(RateLimit::per_ip(limiter).fields(fields).build()?).with_state(()))
}

/// Returns the app behind the same limit of this process alone.
pub(super) fn in_process(outcome: Outcome, fields: Fields) -> Result<Router> {
    let limiter = KeyedLimiter::new(outcome.limit().parse()?)?;
    Ok(bare().layer(RateLimit::in_process(ip(), limiter).fields(fields).build()?).with_state(()))
}

/// Returns the app behind the same limit by rules, of which each request is matched against so many.
pub(super) fn by_rules<S: HasTimeout + Clone + 'static>(store: S, others: usize) -> Result<Router> {
    let other = |number| {
        format!(
            "[[rules]]\nname = 'other-{number}'\nwhen = {{ route = '/other/{number}/*' }}\n\
             id = 'other-{number}:{{address}}'\nlimit = 'fixed-window 9/s'\n"
        )
    };
    let own = format!(
        "[[rules]]\nname = 'http'\nid = 'ip:{{address}}'\nlimit = '{}'\n",
        Outcome::Admit.limit()
    );
    let rules = Rules::parse(&((0..others).map(other).collect::<String>() + &own), Format::Toml)?;
    let limiter = RuleLimiter::new(store, MemoryStore::new());
    Ok(bare().layer(RateLimit::rules(rules, limiter).build()?).with_state(()))
}

pub(super) fn governor(outcome: Outcome) -> Result<Router> {
    let (burst, seconds) = outcome.burst();
    let mut config = GovernorConfigBuilder::default();
    let config = config.burst_size(burst).per_second(seconds).finish().context("no zeros")?;
    Ok(bare().layer(GovernorLayer::new(config)).with_state(()))
}

pub(super) fn governor_with_headers(outcome: Outcome) -> Result<Router> {
    let (burst, seconds) = outcome.burst();
    let mut config = GovernorConfigBuilder::default();
    let mut config = config.burst_size(burst).per_second(seconds).use_headers();
    Ok(bare().layer(GovernorLayer::new(config.finish().context("no zeros")?)).with_state(()))
}
