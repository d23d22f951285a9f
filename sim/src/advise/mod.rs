//! Proposes limits that real traffic would hardly have noticed, and counts the denials of smaller ones.
//!
//! A larger limit of a kind admits everything that a smaller one admits (D8). So each client has a smallest limit that
//! never denies it, and the sorted list of these shows how many clients any limit denies.

mod client;
mod parallel;
mod share;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lockage_core::{
    ConfigError, FixedWindow, Limit, MAX_SPAN, SlidingLog, SlidingWindow, TokenBucket,
};
use thiserror::Error;

use crate::trace::Trace;
use client::Client;
pub use share::{ParseShareError, Share};

/// A kind of advised limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// See [`FixedWindow`].
    FixedWindow,
    /// See [`SlidingLog`].
    SlidingLog,
    /// See [`SlidingWindow`].
    SlidingWindow,
    /// See [`TokenBucket`]: with a burst of one window's amount.
    TokenBucket,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] =
        [Kind::FixedWindow, Kind::SlidingLog, Kind::SlidingWindow, Kind::TokenBucket];

    /// Returns its name, as in the string of a limit.
    pub fn name(self) -> &'static str {
        match self {
            Kind::FixedWindow => "fixed-window",
            Kind::SlidingLog => "sliding-log",
            Kind::SlidingWindow => "sliding-window",
            Kind::TokenBucket => "token-bucket",
        }
    }

    /// Returns the limit of this kind that admits `amount` per window.
    fn limit(self, amount: u64, window: Duration) -> Result<Limit, ConfigError> {
        Ok(match self {
            Kind::FixedWindow => FixedWindow::new(amount, window)?.into(),
            Kind::SlidingLog => SlidingLog::new(amount, window)?.into(),
            Kind::SlidingWindow => SlidingWindow::new(amount, window)?.into(),
            Kind::TokenBucket => TokenBucket::new(amount, window, amount)?.into(),
        })
    }
}

/// No limits can be advised.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdviseError {
    /// There is no window.
    #[error("no window: expected at least one")]
    NoWindow,
    /// No limit can have this window.
    #[error("window {window:?}: expected a window from 1us to {} days", LONGEST.as_secs() / 86_400)]
    Window {
        /// The window.
        window: Duration,
    },
    /// Most clients have one request.
    #[error(
        "{once} of {clients} clients have one request each: a limit for them would be a guess; is the key the client? (--key, --by), or does the log reach too short a time?"
    )]
    MostOnce {
        /// The clients with one request.
        once: u64,
        /// All clients.
        clients: u64,
    },
    /// The traffic needs a limit that cannot be built.
    #[error("no {} that is large enough: {source}", kind.name())]
    Limit {
        /// Its kind.
        kind: Kind,
        /// The reason.
        source: ConfigError,
    },
}

/// The longest window: a sliding window of it needs twice as long.
const LONGEST: Duration = MAX_SPAN.checked_div(2).expect("two is not zero");

const WINDOWS: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(3600),
];

/// Checks that limits can have these windows.
///
/// # Errors
/// [`AdviseError::Window`] with the first that none can have.
pub fn check_windows(windows: &[Duration]) -> Result<(), AdviseError> {
    let wrong = windows.iter().find(|window| window.is_zero() || **window > LONGEST);
    wrong.map_or(Ok(()), |&window| Err(AdviseError::Window { window }))
}

/// Returns 1s, 10s, 1min and 1h, as far as a trace reaches, and always the first.
pub fn fitting_windows(trace: &Trace) -> Vec<Duration> {
    let length = trace.span().map_or(Duration::ZERO, |(from, to)| to.saturating_since(from));
    let (first, others) = (WINDOWS[0], &WINDOWS[1..]);
    let longer = others.iter().copied().filter(|window| *window <= length);
    std::iter::once(first).chain(longer).collect()
}

/// Advised limits.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The number of clients, which are keys.
    pub clients: u64,
    /// The number of requests.
    pub requests: u64,
    /// The number of clients that may be denied.
    pub may_deny: u64,
    /// One family per window and kind.
    pub families: Vec<Family>,
    /// The one to deploy: the token bucket of the last window but one, or of the only one. A bucket never admits twice
    /// its burst at a boundary, the longest window shows little of bursts, and the shortest little of rates.
    pub deploy: Denies,
    /// Token buckets that deny as few, the slowest refill first, with rates per the last window but one. A smaller
    /// rate needs a larger burst.
    pub buckets: Vec<Denies>,
}

/// The limits of one kind and one window.
#[derive(Clone, Debug)]
pub struct Family {
    /// The kind.
    pub kind: Kind,
    /// The window.
    pub window: Duration,
    /// The smallest limit that denies no more clients than allowed; of token buckets, with the smallest burst.
    pub advised: Denies,
    /// The denials of limits of this kind, from 1 to the smallest that denies none.
    pub curve: Vec<Denies>,
    /// The smallest amount for each client, in ascending order.
    needs: Vec<u64>,
}

/// The denials of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denies {
    /// The limit.
    pub limit: Limit,
    /// Its amount per window.
    pub amount: u64,
    /// The clients that it would have denied at least once.
    pub clients: u64,
    /// The requests that it would have denied.
    pub requests: u64,
}

impl Family {
    /// Returns the smallest amount that denies fewer than this share of the clients.
    pub fn smallest(&self, share: Share) -> u64 {
        smallest(&self.needs, share.fewer_of(self.needs.len() as u64))
    }
}

/// Advises limits that would have denied fewer than this share of the clients, for each of these windows.
///
/// `progress` is called after each of [`work`] steps, on any of several threads.
///
/// # Errors
/// [`AdviseError`] if no limit can have a window, if most clients have one request, or if one that the traffic needs cannot be built, but for a sliding
/// log, which is then left out.
pub fn advise(
    trace: &Trace,
    windows: &[Duration],
    share: Share,
    progress: impl FnMut() + Send,
) -> Result<Advice, AdviseError> {
    check_windows(windows)?;
    let clients = Client::all(trace);
    let count = clients.len() as u64;
    let once = clients.iter().filter(|client| client.is_once()).count() as u64;
    if once > count / 2 {
        return Err(AdviseError::MostOnce { once, clients: count });
    }
    let may_deny = share.fewer_of(count);
    let of_window = |&window: &Duration| Kind::ALL.map(|kind| (kind, window));
    let kinds: Vec<(Kind, Duration)> = windows.iter().flat_map(of_window).collect();
    let progress = Mutex::new(progress);
    let step = || (progress.lock().unwrap_or_else(PoisonError::into_inner))();
    let families =
        parallel::each(&kinds, |&(kind, window)| family(&clients, kind, window, may_deny, &step));
    // If a log cannot hold the traffic, the other kinds are advised.
    let is_log =
        |error: &AdviseError| matches!(error, AdviseError::Limit { kind: Kind::SlidingLog, .. });
    let families = families.into_iter().filter(|family| !family.as_ref().is_err_and(is_log));
    let families = families.collect::<Result<Vec<Family>, AdviseError>>()?;
    let mut with_buckets = families.iter().rev().filter(|family| family.kind == Kind::TokenBucket);
    let (longest, next) = (with_buckets.next(), with_buckets.next());
    let family = next.or(longest).ok_or(AdviseError::NoWindow)?;
    let (deploy, buckets) = (family.advised, buckets(&clients, family, may_deny)?);
    let requests = trace.requests().len() as u64;
    Ok(Advice { clients: count, requests, may_deny, deploy, families, buckets })
}

/// Returns how many steps [`advise`] takes for this many windows.
pub fn work(trace: &Trace, windows: usize) -> u64 {
    (trace.key_count() * windows * Kind::ALL.len()) as u64
}

fn family(
    clients: &[Client],
    kind: Kind,
    window: Duration,
    may_deny: u64,
    progress: &dyn Fn(),
) -> Result<Family, AdviseError> {
    let of_kind = |amount| kind.limit(amount, window);
    let wrong = |source| AdviseError::Limit { kind, source };
    let needs = clients.iter().map(|client| {
        let need = client.smallest(&of_kind);
        progress();
        need
    });
    let needs = needs.collect::<Result<Vec<u64>, ConfigError>>().map_err(wrong)?;
    let denies = |limit, amount| denies(clients, &needs, amount, limit, amount);
    let mut sorted = needs.clone();
    sorted.sort_unstable();
    let amount = smallest(&sorted, may_deny);
    let advised = match kind {
        // With fewer tokens at once more clients may be denied than by the amount alone.
        Kind::TokenBucket => bucket(clients, amount, window, may_deny).map_err(wrong)?,
        _ => denies(of_kind(amount).map_err(wrong)?, amount),
    };
    let mut curve = Vec::new();
    for amount in amounts(sorted.last().copied().unwrap_or(1)) {
        curve.push(denies(of_kind(amount).map_err(wrong)?, amount));
    }
    Ok(Family { kind, window, advised, curve, needs: sorted })
}

/// Returns the denials of a limit for clients with these needs.
fn denies(clients: &[Client], needs: &[u64], number: u64, limit: Limit, amount: u64) -> Denies {
    // The others are admitted always.
    let denied = clients.iter().zip(needs).filter(|(_, need)| **need > number);
    let denied: Vec<u64> = denied.map(|(client, _)| client.denied(&limit)).collect();
    let clients = denied.iter().filter(|requests| **requests > 0).count() as u64;
    Denies { limit, amount, clients, requests: denied.iter().sum() }
}

/// Returns the smallest amount that denies no more clients than allowed, of these ascending needs.
fn smallest(needs: &[u64], may_deny: u64) -> u64 {
    let most_modest = needs.len().saturating_sub(1).saturating_sub(may_deny as usize);
    needs.get(most_modest).copied().unwrap_or(1)
}

/// Returns 1, 2, 3, 5, 7, 10, 20 and so on below `last`, then `last`.
fn amounts(last: u64) -> impl Iterator<Item = u64> {
    let powers = (0..19).map(|power| 10u64.pow(power));
    let round = powers.flat_map(|power| [1, 2, 3, 5, 7].map(|step| step * power));
    round.take_while(move |amount| *amount < last).chain([last])
}

/// Returns the bucket of this rate with the smallest burst that denies no more clients than allowed.
fn bucket(
    clients: &[Client],
    amount: u64,
    window: Duration,
    may_deny: u64,
) -> Result<Denies, ConfigError> {
    let of_burst = |burst| TokenBucket::new(amount, window, burst).map(Limit::from);
    let needs = clients.iter().map(|client| client.smallest(&of_burst));
    let needs = needs.collect::<Result<Vec<u64>, ConfigError>>()?;
    let mut sorted = needs.clone();
    sorted.sort_unstable();
    let burst = smallest(&sorted, may_deny);
    Ok(denies(clients, &needs, burst, of_burst(burst)?, amount))
}

/// Returns buckets from an eighth to eight times the rate advised for a window.
fn buckets(clients: &[Client], family: &Family, may_deny: u64) -> Result<Vec<Denies>, AdviseError> {
    let amount = family.advised.amount;
    let slower = [8, 4, 2].map(|part| amount / part);
    let faster = [1, 2, 4, 8].map(|times| amount.saturating_mul(times));
    let mut amounts = [&slower[..], &faster].concat();
    amounts.retain(|amount| *amount > 0);
    amounts.dedup();
    let wrong = |source| AdviseError::Limit { kind: Kind::TokenBucket, source };
    let bucket = |&amount: &u64| bucket(clients, amount, family.window, may_deny).map_err(wrong);
    parallel::each(&amounts, bucket).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use lockage_core::Timestamp;

    use super::*;
    use crate::engine::EngineKind;
    use crate::replay::{Tally, replay};
    use crate::trace::{Request, TraceBuilder};
    use crate::traffic::Plan;

    fn traffic(shape: &str) -> Trace {
        let plan = Plan {
            keys: "40 zipf 1".parse().unwrap(),
            costs: "1:90% 3:10%".parse().unwrap(),
            ..Plan::new(shape.parse().unwrap())
        };
        plan.generate().unwrap()
    }

    fn advice(trace: &Trace, share: &str) -> Advice {
        let windows = [Duration::from_secs(1), Duration::from_secs(60)];
        advise(trace, &windows, share.parse().unwrap(), || ()).unwrap()
    }

    fn replayed(trace: &Trace, limit: &Limit) -> (u64, u64) {
        let mut engine = EngineKind::Model.build().unwrap();
        let outcomes = replay(trace, limit, &mut *engine, || ()).unwrap();
        let tally = Tally::of(trace, &outcomes, 0);
        (tally.keys_denied, tally.denied)
    }

    #[test]
    fn advised_limits_meet_the_target_and_the_next_smaller_do_not() {
        for shape in ["poisson 5/s", "on-off 30/s for 2s, 0/s for 20s", "burst 30 every 20s"] {
            let trace = traffic(shape);
            for share in ["0%", "5%", "20%"] {
                let advice = advice(&trace, share);
                assert_eq!(advice.families.len(), 8);
                for family in &advice.families {
                    let Denies { limit, amount, clients, requests } = family.advised;
                    assert_eq!(replayed(&trace, &limit), (clients, requests), "{limit}");
                    assert!(clients <= advice.may_deny, "{limit}");
                    let smaller = amount.checked_sub(1).filter(|amount| *amount > 0);
                    let Some(smaller) = smaller else { continue };
                    let smaller = family.kind.limit(smaller, family.window).unwrap();
                    assert!(replayed(&trace, &smaller).0 > advice.may_deny, "{shape}: {smaller}");
                }
            }
        }
    }

    #[test]
    fn a_bucket_has_the_smallest_burst_for_its_rate() {
        let trace = traffic("poisson 5/s");
        let advice = advice(&trace, "5%");
        let bursts: Vec<u64> =
            advice.buckets.iter().map(|bucket| bucket.limit.capacity()).collect();
        assert!(bursts.is_sorted_by(|a, b| a >= b) && bursts.len() >= 5, "{bursts:?}");
        for bucket in &advice.buckets {
            assert_eq!(replayed(&trace, &bucket.limit), (bucket.clients, bucket.requests));
            assert!(bucket.clients <= advice.may_deny);
            let Limit::TokenBucket(limit) = bucket.limit else { panic!() };
            let Some(less) = limit.burst().checked_sub(1).filter(|burst| *burst > 0) else {
                continue;
            };
            let less = TokenBucket::new(limit.amount(), limit.period(), less).unwrap();
            assert!(replayed(&trace, &less.into()).0 > advice.may_deny, "{}", bucket.limit);
        }
    }

    #[test]
    fn curves_fall_to_zero_denied_clients() {
        let trace = traffic("poisson 5/s");
        let advice = advice(&trace, "5%");
        for family in &advice.families {
            assert!(family.curve.is_sorted_by(|a, b| a.clients >= b.clients));
            for Denies { limit, clients, requests, .. } in &family.curve {
                assert_eq!(replayed(&trace, limit), (*clients, *requests), "{limit}");
            }
            let last = family.curve[family.curve.len() - 1];
            assert_eq!((last.clients, last.requests), (0, 0));
            assert_eq!(last.amount, family.smallest("0%".parse().unwrap()));
            assert_eq!(family.advised.amount, family.smallest("5%".parse().unwrap()));
        }
    }

    /// Returns the requests of clients, each with this many at once, of this cost.
    fn at_once(clients: &[u64], cost: u64) -> Trace {
        let mut builder = TraceBuilder::default();
        for (client, &requests) in clients.iter().enumerate() {
            let key = builder.key(&client.to_string());
            for _ in 0..requests {
                builder.push(Request { at: Timestamp::from_micros(5).unwrap(), key, cost });
            }
        }
        builder.finish()
    }

    #[test]
    fn one_client_needs_the_cost_of_its_requests() {
        let advice = advice(&at_once(&[2], 7), "1%");
        assert_eq!((advice.clients, advice.requests, advice.may_deny), (1, 2, 0));
        assert!(advice.families.iter().all(|family| family.advised.amount == 14));
    }

    #[test]
    fn clients_of_one_request_are_no_reason_for_a_limit() {
        let windows = [Duration::from_secs(1)];
        let of =
            |clients: &[u64]| advise(&at_once(clients, 1), &windows, "1%".parse().unwrap(), || ());
        assert!(of(&[1, 2]).is_ok() && of(&[1, 1, 2, 2]).is_ok());
        assert_eq!(of(&[1, 1, 2]).unwrap_err(), AdviseError::MostOnce { once: 2, clients: 3 });
        assert_eq!(of(&[1]).unwrap_err(), AdviseError::MostOnce { once: 1, clients: 1 });
    }

    #[test]
    fn a_log_that_would_be_too_large_is_left_out() {
        let trace = Plan {
            costs: "2000000".parse().unwrap(),
            ..Plan::new("constant 1/s".parse().unwrap())
        };
        let windows = [Duration::from_secs(1)];
        let advice = advise(&trace.generate().unwrap(), &windows, "1%".parse().unwrap(), || ());
        let kinds: Vec<Kind> = advice.unwrap().families.iter().map(|family| family.kind).collect();
        assert_eq!(kinds, [Kind::FixedWindow, Kind::SlidingWindow, Kind::TokenBucket]);
    }

    #[test]
    fn unattainable_targets_are_reported() {
        let trace =
            Plan { costs: "100000".parse().unwrap(), ..Plan::new("constant 1/s".parse().unwrap()) };
        let windows = [Duration::from_micros(1 << 50)];
        let refused = advise(&trace.generate().unwrap(), &windows, "1%".parse().unwrap(), || ());
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("no sliding-window that is large enough"), "{text}");
    }
}
