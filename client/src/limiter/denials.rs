//! The memory of a deny cache.

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use lockage_core::{ConfigError, Cost, Decision, DenialReason, Limit, Origin, Part, Verdict};

use super::ask::{Answer, Ask};
use super::deny_cache::{DenyCache, DenyCacheStats};
use super::limit_source::LimitSource;
use super::shards::{Recent, Shards, recent};
use crate::key::Key;
use crate::sync::{MutexGuard, lock};

/// The memory of one limiter and its clones.
pub(super) struct Denials {
    shards: Shards<Shard>,
    max_age: Duration,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl Denials {
    pub(super) fn new(
        cache: DenyCache,
        now: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Result<Self, ConfigError> {
        if cache.max_age.is_zero() {
            return Err(ConfigError::Zero { what: "longest age of a denial" });
        }
        let what = "number of keys with denials";
        Ok(Denials {
            shards: Shards::new(cache.max_keys, what, Shard::new)?,
            max_age: cache.max_age,
            now: Box::new(now),
        })
    }

    /// Returns the answer to requests all of which are known to be denied.
    pub(super) fn answer(&self, ask: &Ask<'_>) -> Option<Answer> {
        if !ask.takes_known_denial() {
            return None;
        }
        // Several costs are each for all parts.
        let least = ask.costs.iter().min_by_key(|cost| cost.most())?;
        self.known(ask.key, ask.source, least, ask.patience, |denial, now| {
            Answer::of(ask, ask.costs.iter().map(|cost| denial.answer(cost, now)))
        })
    }

    /// Returns the denial of `cost` under this limit that holds now, if there is one, for a caller that would wait for
    /// `patience`: see [`Shard::known`].
    pub(super) fn known<T>(
        &self,
        key: &Key,
        source: &LimitSource,
        cost: &Cost,
        patience: Duration,
        answer: impl FnOnce(&Denial, Duration) -> T,
    ) -> Option<T> {
        let now = (self.now)();
        let mut shard = self.shard(key);
        shard.known(key, source, cost, patience, now).map(|denial| answer(denial, now))
    }

    pub(super) fn ticket(&self, key: &Key) -> Ticket {
        Ticket { sent: (self.now)(), generation: self.shard(key).generation }
    }

    /// Learns from the store's answer. A denial for want of an early turn does not hold for callers that take a later
    /// one. That of a blocked key has no turn, and may be for want of one too.
    pub(super) fn learn_from(&self, ask: &Ask<'_>, ticket: Ticket, answer: &Answer) {
        for (cost, decision) in ask.costs.iter().zip(answer.decisions()) {
            if !ask.mode.charges() {
                self.correct(ask.key, cost, decision);
                continue;
            }
            let is_for_all = |latest| {
                decision.is_allowed() || !decision.is_blocked() && decision.turn_after <= latest
            };
            if ask.latest_turn.is_none_or(is_for_all) {
                self.learn(ask.key, ask.source, ticket, cost, decision);
            }
        }
    }

    /// Drops the denial that this decision of the store contradicts. The denial of a peek, or of several requests together,
    /// is not kept: it leaves a record of another limit as it is, which may admit before.
    pub(super) fn correct(&self, key: &Key, cost: &Cost, decision: &Decision) {
        self.shard(key).correct(key, cost, decision);
    }

    pub(super) fn learn(
        &self,
        key: &Key,
        source: &LimitSource,
        ticket: Ticket,
        cost: &Cost,
        decision: &Decision,
    ) {
        let now = (self.now)();
        let mut shard = self.shard(key);
        shard.correct(key, cost, decision);
        // A denial from before a refund or a change may be over.
        if ticket.generation != shard.generation {
            return;
        }
        // A place can be given back at any time.
        if source.with_known(key, Limit::has_places) == Some(true) {
            return;
        }
        if let Verdict::Denied { retry_after, reason } = decision.verdict {
            let until = not_after(ticket.sent, retry_after);
            let denial = Denial {
                cost: *cost,
                until,
                believed_until: until.min(ticket.sent.saturating_add(self.max_age)),
                reset_at: not_after(ticket.sent, decision.reset_after),
                turn_at: not_after(ticket.sent, decision.turn_after),
                reason,
                source: source.clone(),
                decision: decision.clone(),
            };
            shard.keep(key, denial, now);
        }
    }

    pub(super) fn forget(&self, key: &Key) {
        let mut shard = self.shard(key);
        shard.generation += 1;
        shard.denials.pop(key);
    }

    pub(super) fn stats(&self) -> DenyCacheStats {
        let mut sum = DenyCacheStats::default();
        for shard in self.shards.each() {
            let shard = lock(shard);
            sum.hits += shard.hits;
            sum.misses += shard.misses;
            sum.entries += shard.denials.len();
            sum.evictions += shard.evictions;
        }
        sum
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        self.shards.of(key)
    }
}

/// The state of the memory when the store was asked.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    sent: Duration,
    generation: u64,
}

struct Shard {
    denials: Recent<Denial>,
    /// Increases with each key of this shard that is forgotten.
    generation: u64,
    hits: u64,
    misses: u64,
    evictions: u64,
}

impl Shard {
    fn new(max_keys: NonZeroUsize) -> Self {
        Shard { denials: recent(max_keys), generation: 0, hits: 0, misses: 0, evictions: 0 }
    }

    /// Returns the remembered denial that denies `cost` now. For a caller that would wait for less than the denial
    /// lasts, it is as good as the store's. A caller that may wait longer gets no other cost's denial, because the
    /// store might reply at once that its own cost takes too long.
    fn known(
        &mut self,
        key: &Key,
        source: &LimitSource,
        cost: &Cost,
        patience: Duration,
        now: Duration,
    ) -> Option<&Denial> {
        let known = self.denials.get(key).filter(|denial| {
            let telling = denial.cost == *cost || denial.until.saturating_sub(now) > patience;
            denial.holds(now) && denial.cost.is_within(cost) && denial.source == *source && telling
        });
        match known {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        known
    }

    /// Drops the denial that this decision contradicts. If the decision is the older one, the store is asked once more
    /// than needed.
    fn correct(&mut self, key: &Key, cost: &Cost, decision: &Decision) {
        let left = |(at, part): (usize, &Part), known: &Cost| known.of_part(at) <= part.remaining;
        let fits = |known: &Cost| {
            let is_left = match &decision.parts[..] {
                _ if decision.is_blocked() => false,
                [] => known.is_within(&decision.remaining.into()),
                parts => parts.iter().enumerate().all(|part| left(part, known)),
            };
            is_left || decision.is_allowed() && known.is_within(cost)
        };
        if self.denials.peek(key).is_some_and(|known| fits(&known.cost)) {
            self.denials.pop(key);
        }
    }

    /// Keeps the denial of the smallest cost, and of equal costs the one that lasts longer; of costs by part neither of
    /// which is within the other, the latest.
    fn keep(&mut self, key: &Key, denial: Denial, now: Duration) {
        let better = |known: &Denial| {
            let longer = known.cost == denial.cost && known.believed_until >= denial.believed_until;
            let same = known.source == denial.source;
            let smaller = known.cost != denial.cost && known.cost.is_within(&denial.cost);
            same && known.holds(now) && (smaller || longer)
        };
        if !denial.holds(now) || self.denials.peek(key).is_some_and(better) {
            return;
        }
        let dropped = self.denials.push(key.clone(), denial);
        self.evictions += u64::from(dropped.is_some_and(|(other, _)| other != *key));
    }
}

/// Times are the runtime's.
pub(super) struct Denial {
    /// The smallest cost that is denied.
    cost: Cost,
    /// Not after the store admits the cost.
    until: Duration,
    /// `until`, or earlier, when the denial is too old.
    believed_until: Duration,
    /// Not after the store counts the limiter as never used.
    reset_at: Duration,
    /// Not after the turn of the next admitted request.
    turn_at: Duration,
    reason: DenialReason,
    /// The limit that denies it.
    source: LimitSource,
    decision: Decision,
}

impl Denial {
    /// Returns whether at least a whole microsecond is left. The store rounds its time down, so that less may be over
    /// there.
    fn holds(&self, now: Duration) -> bool {
        self.believed_until.saturating_sub(now) >= MICROSECOND
    }

    /// Returns the decision on `cost`, which is at least this one's.
    pub(super) fn answer(&self, cost: &Cost, now: Duration) -> Decision {
        let after = |time: Duration| whole_micros(time.saturating_sub(now));
        let (verdict, turn_after) = match cost.exceeds(&self.decision) {
            true => (Verdict::Never, Duration::ZERO),
            false => {
                let retry_after = after(self.until);
                (Verdict::Denied { retry_after, reason: self.reason }, after(self.turn_at))
            }
        };
        let mut decision = self.decision.clone();
        (decision.verdict, decision.turn_after) = (verdict, turn_after);
        // A peek of zero is denied on a blocked key.
        decision.remaining = self.cost.most().saturating_sub(1);
        decision.reset_after = after(self.reset_at);
        decision.origin = Origin::DenyCache;
        decision
    }
}

const MICROSECOND: Duration = Duration::from_micros(1);
/// The part taken off a span because clocks may differ: a thousandth. It covers two clocks that are off by 500 ppm
/// each, the most that ntpd can correct.
const DRIFT_PART: u32 = 1000;

/// Returns a time of this process that is not after the store's "`span` after it decided", for a call that was sent at
/// `sent`, except for the fraction of a microsecond that the store does not count.
pub(super) fn not_after(sent: Duration, span: Duration) -> Duration {
    sent.saturating_add(span - span / DRIFT_PART)
}

/// Rounded down, as all spans of decisions are whole microseconds.
pub(super) fn whole_micros(span: Duration) -> Duration {
    span - Duration::from_nanos(u64::from(span.subsec_nanos() % 1000))
}

impl fmt::Debug for Denials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denials").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
