//! The permits that a limiter holds ahead, by key.

use std::fmt;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lockage_core::flow::{self, Next, Prefetch as Held, PrefetchConfig};
use lockage_core::{ConfigError, Decision, FixedWindow, Limit, Origin, Verdict};

use super::ask::Ask;
use super::denials::{not_after, whole_micros};
use super::limit_source::LimitSource;
use super::prefetch::{Prefetch, PrefetchStats};
use super::shards::{Recent, Shards, recent};
use crate::key::Key;
use crate::runtime::{Runtime, within};
use crate::sync::{Mutex, lock};

/// The permits that one limiter and its clones hold.
pub(super) struct Permits {
    shards: Shards<Shard>,
    prefetch: Prefetch,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
    wait: Box<Wait>,
}

/// Waits for the answer to another request, for as long as a polled call can take.
type Wait =
    dyn Fn(oneshot::Receiver<Decision>) -> BoxFuture<'static, Option<Decision>> + Send + Sync;

struct Shard {
    keys: Recent<Node>,
    stats: PrefetchStats,
}

/// One key.
#[derive(Default)]
struct Node {
    /// The limit of the held permits, and its prefetch: `None` for a queue, whose turns belong to requests, or if the
    /// limit is too small.
    limit: Option<(Limit, Option<PrefetchConfig>)>,
    held: Held,
    /// Not after the store counts the limiter as never used. A time of the runtime's.
    reset_at: Duration,
    /// The waiters of the last call for permits ahead.
    waiters: Arc<Waiters>,
}

/// The requests that wait for one call, in order. The call keeps them too, as the key may be dropped before its answer.
/// Locked under the lock of the shard only.
type Waiters = Mutex<Vec<Waiter>>;

/// A request that the call's permits suffice for. Once this is dropped, the request goes on by itself.
struct Waiter {
    cost: u64,
    answer: oneshot::Sender<Decision>,
}

/// The next step of a request.
pub(super) enum Step<'a> {
    /// It is admitted.
    Spent(Decision),
    /// Another request is asking, for enough to cover it too. Without an answer it goes on by itself.
    Wait(oneshot::Receiver<Decision>),
    /// It is sent by itself.
    Alone,
    /// It is sent together with a request for permits ahead.
    Ask(Asking<'a>),
}

impl Permits {
    pub(super) fn new(
        prefetch: Prefetch,
        now: impl Fn() -> Duration + Send + Sync + 'static,
        wait: Box<Wait>,
    ) -> Result<Self, ConfigError> {
        let what = "number of keys with permits ahead";
        Ok(Permits {
            shards: Shards::new(prefetch.max_keys, what, Shard::new)?,
            prefetch,
            now: Box::new(now),
            wait,
        })
    }

    /// Creates them for a limiter whose calls have this timeout. `limit` is the limiter's own, if it has one.
    pub(super) fn of_calls(
        prefetch: Prefetch,
        limit: Option<Limit>,
        runtime: impl Runtime,
        timeout: Duration,
    ) -> Result<Self, ConfigError> {
        let Prefetch { permits, lease, .. } = prefetch;
        let roomy = || FixedWindow::new(permits.saturating_add(1), Duration::from_secs(1));
        let limit = match limit {
            Some(limit) => limit,
            None => roomy()?.into(),
        };
        PrefetchConfig::new(&limit, permits, lease)?;
        let clock = runtime.clone();
        let wait = move |answer| -> BoxFuture<'static, Option<Decision>> {
            let runtime = runtime.clone();
            async move { within(&runtime, timeout, answer).await.and_then(Result::ok) }.boxed()
        };
        Permits::new(prefetch, move || clock.now(), Box::new(wait))
    }

    /// Returns the answer to a waiting request; `None` if it is to go on by itself. The caller that asks may not be
    /// polled, in a runtime that is blocked, so its call is waited for as long as it can take.
    pub(super) async fn answer(&self, answered: oneshot::Receiver<Decision>) -> Option<Decision> {
        (self.wait)(answered).await
    }

    /// Returns the next step of a plain acquire of `cost`.
    pub(super) fn next<'a>(&'a self, ask: &Ask<'a>, cost: u64, may_wait: bool) -> Step<'a> {
        let under = |limit: &Limit| self.next_under(ask.key, limit, cost, may_wait);
        ask.source.with_known(ask.key, under).unwrap_or(Step::Alone)
    }

    /// Returns the next step of a request under this limit that is made now.
    pub(super) fn next_under<'a>(
        &'a self,
        key: &'a Key,
        limit: &Limit,
        cost: u64,
        may_wait: bool,
    ) -> Step<'a> {
        let mut shard = self.shards.of(key);
        // Read under the lock, so that no faster caller has seen a later time.
        let now = (self.now)();
        let node = shard.keys.get_or_insert_mut_ref(key, Node::default);
        let Some(config) = node.under(limit, &self.prefetch) else { return Step::Alone };
        match node.held.next(&config, cost, may_wait, now) {
            Next::Spent { left } => {
                let decision = node.spent(limit, left, now);
                shard.stats.count(cost);
                Step::Spent(decision)
            }
            Next::Wait => {
                let (answer, answered) = oneshot::channel();
                lock(&node.waiters).push(Waiter { cost, answer });
                Step::Wait(answered)
            }
            Next::Ask(ask) if ask.ahead() == 0 => Step::Alone,
            Next::Ask(ask) => {
                node.waiters = Arc::default();
                let waiters = Arc::clone(&node.waiters);
                shard.stats.calls += 1;
                let (permits, limit, sent, is_over) = (self, Box::new(*limit), now, false);
                Step::Ask(Asking { permits, key, limit, ask, config, sent, waiters, is_over })
            }
        }
    }

    /// Spends held permits and asks for nothing, to look for permits that should not be there.
    #[cfg(all(test, loom))]
    pub(super) fn spend(&self, key: &Key, cost: u64) -> Option<u64> {
        let mut shard = self.shards.of(key);
        let now = (self.now)();
        shard.keys.get_mut(key)?.held.spend(cost, now)
    }

    /// Drops held permits, and those under way.
    pub(super) fn forget(&self, key: &Key) {
        if let Some(node) = self.shards.of(key).keys.peek_mut(key) {
            node.held.forget();
        }
    }

    pub(super) fn stats(&self) -> PrefetchStats {
        let mut sum = PrefetchStats::default();
        for shard in self.shards.each() {
            let shard = lock(shard);
            sum.hits += shard.stats.hits;
            sum.spent += shard.stats.spent;
            sum.calls += shard.stats.calls;
            sum.granted += shard.stats.granted;
            sum.denied += shard.stats.denied;
            sum.lost += shard.stats.lost;
            sum.keys += shard.keys.len();
        }
        sum
    }
}

impl Node {
    /// Returns the prefetch under this limit. Permits that were granted under another one are dropped.
    fn under(&mut self, limit: &Limit, prefetch: &Prefetch) -> Option<PrefetchConfig> {
        match &self.limit {
            Some((known, config)) if known == limit => *config,
            _ => {
                let config = PrefetchConfig::new(limit, prefetch.permits, prefetch.lease).ok();
                self.held.forget();
                self.limit = Some((*limit, config));
                config
            }
        }
    }

    /// Admits a request by held permits, if they suffice.
    fn serve(&mut self, cost: u64, stats: &mut PrefetchStats, now: Duration) -> Option<Decision> {
        let (limit, _) = self.limit.as_ref()?;
        let left = self.held.spend(cost, now)?;
        stats.count(cost);
        Some(self.spent(limit, left, now))
    }

    fn spent(&self, limit: &Limit, left: u64, now: Duration) -> Decision {
        let reset_after = whole_micros(self.reset_at.saturating_sub(now));
        let mut decision = Decision::new(Verdict::Allowed, limit.capacity(), left, reset_after);
        decision.origin = Origin::Prefetch;
        decision
    }
}

impl Shard {
    fn new(max_keys: NonZeroUsize) -> Self {
        Shard { keys: recent(max_keys), stats: PrefetchStats::default() }
    }
}

impl PrefetchStats {
    fn count(&mut self, cost: u64) {
        self.hits += 1;
        self.spent += cost;
    }
}

/// A call that asks for permits ahead. If it is dropped without an answer, its permits are lost, and its waiters go on.
pub(super) struct Asking<'a> {
    permits: &'a Permits,
    key: &'a Key,
    /// The limit under which it asks.
    limit: Box<Limit>,
    ask: flow::Ask,
    config: PrefetchConfig,
    sent: Duration,
    waiters: Arc<Waiters>,
    is_over: bool,
}

impl Asking<'_> {
    pub(super) fn ahead(&self) -> u64 {
        self.ask.ahead()
    }

    /// Records the decision on the whole call, and returns the one on its own request; `None` if that is to be sent
    /// alone. A grant is wasted unless the key is still under its limit.
    pub(super) fn answered(self, decision: Decision, source: &LimitSource) -> Option<Decision> {
        let is_under = || source.with_known(self.key, |known| *known == *self.limit) == Some(true);
        match decision.verdict {
            Verdict::Allowed if is_under() => Some(self.granted(decision)),
            Verdict::Allowed => Some(decision),
            // It never fits under another limit that the key has by now.
            Verdict::Denied { .. } | Verdict::Never => {
                self.denied(decision.retry_after().unwrap_or(Duration::MAX));
                None
            }
        }
    }

    /// Records a grant of the whole call, and returns the decision on its own request.
    pub(super) fn granted(mut self, mut decision: Decision) -> Decision {
        let reset_at = not_after(self.sent, decision.reset_after);
        let left = self.end(|node, config, ask, stats, now| {
            node.reset_at = reset_at;
            let granted = node.held.granted(config, ask, now);
            match granted {
                0 => stats.lost += 1,
                _ => stats.granted += granted,
            }
            granted > 0
        });
        decision.remaining = decision.remaining.max(left);
        decision
    }

    /// Records that the store has no room for the whole call.
    fn denied(mut self, retry_after: Duration) {
        self.end(|node, config, ask, stats, now| {
            node.held.denied(config, ask, retry_after, now);
            stats.denied += 1;
            false
        });
    }

    /// Records the result of the call, serves its waiters if it is a grant, and returns the permits that are then held.
    fn end(
        &mut self,
        report: impl FnOnce(
            &mut Node,
            &PrefetchConfig,
            &flow::Ask,
            &mut PrefetchStats,
            Duration,
        ) -> bool,
    ) -> u64 {
        self.is_over = true;
        let mut shard = self.permits.shards.of(self.key);
        let Shard { keys, stats } = &mut *shard;
        // A key that was dropped meanwhile holds nothing, and is not added again.
        let mut dropped = Node::default();
        let node = keys.peek_mut(self.key).unwrap_or(&mut dropped);
        let now = (self.permits.now)();
        let is_granted = report(node, &self.config, &self.ask, stats, now);
        let waiters = mem::take(&mut *lock(&self.waiters));
        let serve = |waiter: &Waiter| match is_granted && !waiter.answer.is_canceled() {
            true => node.serve(waiter.cost, stats, now),
            false => None,
        };
        let answers: Vec<_> = waiters.iter().map(serve).collect();
        let left = node.held.held(now);
        // Others are woken without the lock, which their wakers may need.
        drop(shard);
        for (waiter, answer) in waiters.into_iter().zip(answers) {
            if let Some(decision) = answer {
                // The waiter may have left.
                _ = waiter.answer.send(decision);
            }
        }
        left
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(|node, config, ask, stats, now| {
                node.held.lost(config, ask, now);
                stats.lost += 1;
                false
            });
        }
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits")
            .field("prefetch", &self.prefetch)
            .field("stats", &self.stats())
            .finish()
    }
}
