//! Callers that go on while a store has its troubles, and the account of their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockage::runtime::Tokio;
use lockage::{Error, Limiter, RetryStore, Store, StoreError, Verdict};
use lockage_redis::Request;
use tokio::task::JoinHandle;

use crate::faults::RECOVERY;

/// A limit under which nothing is denied or refilled while a test runs.
pub const ROOMY: &str = "fixed-window 1000000/day";

/// The timeout of a call.
pub const TIMEOUT: Duration = Duration::from_millis(500);

/// The same where no caller is to notice anything, however busy the machine is.
pub const LONG_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of callers, and the pause of each after a call.
const CALLERS: usize = 8;
const PAUSE: Duration = Duration::from_millis(2);

/// A limiter that callers share.
pub type Shared<S> = Limiter<RetryStore<S, Tokio>>;

/// Makes a limiter on this store, with [`TIMEOUT`], under [`ROOMY`].
pub fn limiter<S: Store>(store: S) -> Shared<S> {
    limiter_of(store, ROOMY)
}

/// Makes a limiter with [`LONG_TIMEOUT`], under [`ROOMY`].
pub fn patient_limiter<S: Store>(store: S) -> Shared<S> {
    within(store, ROOMY, LONG_TIMEOUT)
}

/// Makes a limiter with [`TIMEOUT`], under another limit.
pub fn limiter_of<S: Store>(store: S, limit: &str) -> Shared<S> {
    within(store, limit, TIMEOUT)
}

/// Makes a limiter with this limit and timeout.
pub fn within<S: Store>(store: S, limit: &str, timeout: Duration) -> Shared<S> {
    Limiter::new(RetryStore::new(store, Tokio, timeout), limit.parse().expect("a test's limit"))
}

/// Callers that are under way.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Vec<Call>>>,
}

/// The answers of callers.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// All calls, in the order of their ends.
    pub calls: Vec<Call>,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The time of its beginning.
    pub began: Instant,
    /// The time of its answer.
    pub ended: Instant,
    /// The answer.
    pub told: Told,
}

/// The answer to one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Admitted, and charged.
    Admitted,
    /// Denied, and not charged.
    Denied,
    /// Certainly not charged.
    NotDone,
    /// Perhaps charged.
    Unknown,
}

impl Load {
    /// Starts callers that take one permit for `id` at a time, until they are stopped.
    pub fn start<S: Store + Clone + 'static>(limiter: &Shared<S>, id: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let caller = |_| {
            let (stop, limiter) = (Arc::clone(&stop), limiter.clone());
            tokio::spawn(async move {
                let mut calls = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    calls.push(call(&limiter, id).await);
                    tokio::time::sleep(PAUSE).await;
                }
                calls
            })
        };
        Load { callers: (0..CALLERS).map(caller).collect(), stop }
    }

    /// Stops them and waits for their last answers.
    pub async fn stop(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        let mut calls = Vec::new();
        for caller in self.callers {
            calls.extend(caller.await.expect("a caller does not panic"));
        }
        calls.sort_by_key(|call| call.ended);
        Tally { calls }
    }
}

/// Makes one call of one permit, and returns its answer.
///
/// # Panics
/// Where the store refuses the record or the input, which no trouble of a store explains.
pub async fn call<S: Store>(limiter: &Shared<S>, id: &str) -> Call {
    let began = Instant::now();
    let told = match limiter.try_acquire(id, 1).await {
        Ok(decision) => match decision.verdict {
            Verdict::Allowed => Told::Admitted,
            _ => Told::Denied,
        },
        Err(Error::Store(StoreError::NotDone(_))) => Told::NotDone,
        Err(Error::Store(StoreError::Unknown(_))) => Told::Unknown,
        Err(error) => panic!("{error}"),
    };
    Call { began, ended: Instant::now(), told }
}

impl Tally {
    /// Returns how many callers got this answer.
    pub fn count(&self, told: Told) -> u64 {
        self.calls.iter().filter(|call| call.told == told).count() as u64
    }

    /// Returns how many callers got "unknown" before their timeout. An attempt that is in flight at that moment
    /// ends so however a server refuses, the more often the busier the machine is.
    pub fn unknown_early(&self, timeout: Duration) -> usize {
        let early = |call: &&Call| call.ended - call.began < timeout - Request::LEAD;
        self.calls.iter().filter(|call| call.told == Told::Unknown).filter(early).count()
    }

    /// Returns the longest time without an admission.
    pub fn longest_gap(&self) -> Duration {
        let admitted: Vec<Instant> = self
            .calls
            .iter()
            .filter(|call| call.told == Told::Admitted)
            .map(|call| call.ended)
            .collect();
        let gaps = admitted.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().unwrap_or_default()
    }

    /// Returns the longest time of one call.
    pub fn longest_call(&self) -> Duration {
        self.calls.iter().map(|call| call.ended - call.began).max().unwrap_or_default()
    }

    /// Checks `used`, the charge by the store's account, against the answers of the callers: every admission once,
    /// no call that was answered as not done, and any of the unknown ones.
    ///
    /// `lost`: how many of the admissions the store may have forgotten. `timeout`: of each call.
    ///
    /// # Panics
    /// Where the account does not add up.
    pub fn check(&self, used: u64, lost: u64, timeout: Duration) {
        let (admitted, unknown) = (self.count(Told::Admitted), self.count(Told::Unknown));
        let account = format!("{used} charged, {self}");
        assert!(admitted <= used + lost, "an admission was not charged: {account}");
        assert!(used <= admitted + unknown, "charged twice, or in silence: {account}");
        let longest = self.longest_call();
        assert!(longest < timeout * 3, "a call took {longest:?}, and its timeout was {timeout:?}");
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} admitted, {} denied, {} not done, {} unknown; {} ms without an admission",
            self.count(Told::Admitted),
            self.count(Told::Denied),
            self.count(Told::NotDone),
            self.count(Told::Unknown),
            self.longest_gap().as_millis()
        )
    }
}

/// Returns the charge under [`ROOMY`] by the store's account. A busy machine may not answer within a call's
/// timeout; so the peek, which changes nothing, is repeated.
///
/// # Panics
/// Where the store does not answer within [`RECOVERY`].
pub async fn used<S: Store>(limiter: &Shared<S>, id: &str) -> u64 {
    let began = Instant::now();
    loop {
        match limiter.peek(id, 0).await {
            Ok(decision) => return decision.limit - decision.remaining,
            Err(error) => assert!(began.elapsed() < RECOVERY, "it has not recovered: {error:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(told: &[(Told, usize)], took: Duration) -> Tally {
        let began = Instant::now();
        let call = |told| Call { began, ended: began + took, told };
        let calls = told.iter().flat_map(|&(told, count)| vec![call(told); count]).collect();
        Tally { calls }
    }

    fn adds_up(tally: &Tally, used: u64, lost: u64) -> bool {
        std::panic::catch_unwind(|| tally.check(used, lost, TIMEOUT)).is_ok()
    }

    #[test]
    fn every_admission_counts_once_and_of_the_unknown_ones_any() {
        let told =
            [(Told::Admitted, 10), (Told::Unknown, 3), (Told::Denied, 50), (Told::NotDone, 50)];
        let tally = tally(&told, TIMEOUT);
        for used in 0..30 {
            assert_eq!(adds_up(&tally, used, 0), (10..=13).contains(&used), "{used}");
            assert_eq!(adds_up(&tally, used, 2), (8..=13).contains(&used), "{used}, 2 lost");
        }
    }

    #[test]
    fn an_unknown_answer_is_early_if_no_timer_explains_it() {
        let early = |told, took| tally(&[(told, 1)], took).unknown_early(TIMEOUT);
        assert_eq!(early(Told::Unknown, TIMEOUT), 0);
        assert_eq!(early(Told::Unknown, TIMEOUT - Request::LEAD), 0, "the client's own timer");
        assert_eq!(early(Told::Unknown, TIMEOUT - Request::LEAD * 2), 1);
        assert_eq!(early(Told::NotDone, Duration::ZERO), 0);
    }

    #[test]
    fn a_call_far_beyond_its_timeout_is_found() {
        assert!(adds_up(&tally(&[(Told::Unknown, 1)], TIMEOUT), 1, 0));
        assert!(!adds_up(&tally(&[(Told::Unknown, 1)], TIMEOUT * 3), 1, 0));
    }
}
