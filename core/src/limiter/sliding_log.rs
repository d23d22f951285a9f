//! The sliding log: one entry per admitted request, exact over every window.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::counter::is_time;
use super::{Fields, Machine};
use crate::command::{ScriptId, read_whole};
use crate::decision::{Decision, Verdict};
use crate::error::{ConfigError, RecordError, ReplyError};
use crate::exact::{config_count, config_micros};
use crate::record::{Body, Record, put};
use crate::time::Timestamp;

/// At most `limit` in every window, wherever it begins. An admitted request at t counts for every
/// time in [t, t + window).
///
/// Envelope (E2): in any span of one window at most `limit` is admitted. It costs one entry for
/// each admitted request, at most `limit` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    limit: u64,
    window_us: u64,
}

impl SlidingLog {
    /// At most `limit` (1 to 2^53 - 1) in every `window` (whole microseconds, at most
    /// [`MAX_SPAN`](crate::MAX_SPAN)).
    ///
    /// # Errors
    /// [`ConfigError`] for zero, a fraction of a microsecond, or a value out of range.
    pub fn new(limit: u64, window: Duration) -> Result<Self, ConfigError> {
        let limit = config_count("limit", limit)?;
        let window_us = config_micros("window", window)?;
        Ok(SlidingLog { limit, window_us })
    }

    /// The most that is admitted in any window.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The window's length.
    pub fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    pub(crate) fn window_us(&self) -> u64 {
        self.window_us
    }
}

impl Machine for SlidingLog {
    fn tag(&self) -> &'static str {
        "L1"
    }

    fn config(&self) -> Fields {
        [self.limit, self.window_us].into()
    }

    fn acquire_script(&self) -> ScriptId {
        ScriptId::SlidingLogAcquire
    }

    fn peek_script(&self) -> ScriptId {
        ScriptId::SlidingLogPeek
    }

    fn check(&self, record: &Record) -> Result<(), RecordError> {
        self.load(record).map(drop)
    }

    /// What is told is the total cost that counts after it, and when all of that has expired.
    fn acquire(
        &self,
        slot: &mut Option<Record>,
        now: Timestamp,
        costs: &[u64],
        decided: &mut dyn FnMut(Decision),
    ) -> Result<Option<Fields>, RecordError> {
        let mut live = self.live(slot, now)?;
        let mut admitted = VecDeque::new();
        for &cost in costs {
            let allowed = cost <= self.limit - live.used;
            if allowed {
                live.used += cost;
                live.last = live.now;
                admitted.push_back(Entry { at: live.now, cost });
            }
            decided(self.decide(slot, &live, &admitted, cost, allowed, now));
        }
        if admitted.is_empty() {
            return Ok(None);
        }
        self.store(slot, &live, admitted);
        Ok(Some([live.used, self.fresh_at(&live)].into()))
    }

    fn recall(&self, cost: u64, now: Timestamp, told: &[u64]) -> Option<Decision> {
        let &[used, fresh_at] = told else { return None };
        let possible =
            (cost..=self.limit).contains(&used) && Timestamp::computed(fresh_at).is_some();
        possible.then(|| self.decision(true, cost, used, 0, fresh_at, now))
    }

    fn peek(
        &self,
        slot: &Option<Record>,
        now: Timestamp,
        cost: u64,
    ) -> Result<Decision, RecordError> {
        let live = self.live(slot, now)?;
        let allowed = cost <= self.limit - live.used;
        Ok(self.decide(slot, &live, &VecDeque::new(), cost, allowed, now))
    }

    /// The log stays in the store: its script replies an outcome for each cost.
    fn read_acquire(
        &self,
        costs: &[u64],
        now: Timestamp,
        rest: &[i64],
        decided: &mut dyn FnMut(Decision),
    ) -> Result<(), ReplyError> {
        let (outcomes, []) = rest.as_chunks::<4>() else {
            return Err(ReplyError::Unexpected);
        };
        if outcomes.len() != costs.len() {
            return Err(ReplyError::Unexpected);
        }
        for (outcome, &cost) in outcomes.iter().zip(costs) {
            decided(self.read_outcome(outcome, cost, now)?);
        }
        Ok(())
    }

    fn read_peek(&self, cost: u64, now: Timestamp, rest: &[i64]) -> Result<Decision, ReplyError> {
        let outcome = rest.try_into().map_err(|_| ReplyError::Unexpected)?;
        self.read_outcome(outcome, cost, now)
    }
}

impl SlidingLog {
    /// What of the stored entries counts at `now`.
    fn live(&self, slot: &Option<Record>, now: Timestamp) -> Result<Live, RecordError> {
        let Some(record) = slot else {
            return Ok(Live { now: now.as_micros(), expired: 0, used: 0, last: 0 });
        };
        let record = self.load(record)?;
        let now = now.as_micros().max(record.last);
        let mut live = Live { now, expired: 0, used: record.used, last: record.last };
        for entry in &record.entries {
            if now < entry.at + self.window_us {
                break;
            }
            live.expired += 1;
            live.used -= entry.cost;
        }
        Ok(live)
    }

    fn decide(
        &self,
        slot: &Option<Record>,
        live: &Live,
        admitted: &VecDeque<Entry>,
        cost: u64,
        allowed: bool,
        now: Timestamp,
    ) -> Decision {
        let stored = match slot {
            Some(Record { body: Body::Log(record), .. }) => record.entries.iter(),
            _ => admitted.range(..0), // nothing stored
        };
        let freed_at = if allowed || cost > self.limit {
            0
        } else {
            let entries = stored.skip(live.expired).chain(admitted);
            self.freed_at(entries, live.used - (self.limit - cost))
        };
        self.decision(allowed, cost, live.used, freed_at, self.fresh_at(live), now)
    }

    fn decision(
        &self,
        allowed: bool,
        cost: u64,
        used: u64,
        freed_at: u64,
        fresh_at: u64,
        now: Timestamp,
    ) -> Decision {
        let after = |time: u64| Duration::from_micros(time.saturating_sub(now.as_micros()));
        let verdict = if allowed {
            Verdict::Allowed
        } else if cost > self.limit {
            Verdict::Never
        } else {
            Verdict::Denied { retry_after: after(freed_at) }
        };
        Decision::new(verdict, self.limit, self.limit - used, after(fresh_at))
    }

    /// One outcome of a script's reply: admitted (0 or 1), the total cost that counts after it,
    /// when enough has expired for it (0 where it was admitted or never can be), and when all has.
    fn read_outcome(
        &self,
        outcome: &[i64; 4],
        cost: u64,
        now: Timestamp,
    ) -> Result<Decision, ReplyError> {
        let [admitted, used, freed_at, fresh_at] = *outcome;
        let used = read_whole(used)?;
        if used > self.limit || !(0..=1).contains(&admitted) {
            return Err(ReplyError::Unexpected);
        }
        let (freed_at, fresh_at) = (read_whole(freed_at)?, read_whole(fresh_at)?);
        Ok(self.decision(admitted == 1, cost, used, freed_at, fresh_at, now))
    }

    /// When the smallest prefix of the live entries that frees `missing` has expired (D3).
    fn freed_at<'a>(&self, entries: impl Iterator<Item = &'a Entry>, missing: u64) -> u64 {
        let mut freed = 0;
        let mut at = 0;
        for entry in entries {
            freed += entry.cost;
            at = entry.at;
            if freed >= missing {
                break;
            }
        }
        at + self.window_us
    }

    fn fresh_at(&self, live: &Live) -> u64 {
        match live.used {
            0 => 0,
            _ => live.last + self.window_us,
        }
    }

    fn load<'a>(&self, record: &'a Record) -> Result<&'a LogRecord, RecordError> {
        match &record.body {
            Body::Log(record) if record.log == *self => Ok(record),
            Body::Log(_) => Err(RecordError::OtherLimit),
            _ => Err(RecordError::OtherKind),
        }
    }

    fn store(&self, slot: &mut Option<Record>, live: &Live, mut admitted: VecDeque<Entry>) {
        if let Some(Record { body: Body::Log(record), .. }) = slot {
            record.entries.drain(..live.expired);
            record.entries.append(&mut admitted);
            record.used = live.used;
            record.last = live.last;
        } else {
            let record =
                LogRecord { log: *self, used: live.used, last: live.last, entries: admitted };
            put(slot, Body::Log(record));
        }
    }
}

/// What of a log counts at `now`, which is never before its latest entry (D10).
struct Live {
    now: u64,
    /// How many of the oldest entries have expired.
    expired: usize,
    /// The total cost of the others.
    used: u64,
    /// When the latest request was admitted.
    last: u64,
}

/// What is stored under the key of a sliding log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogRecord {
    pub(crate) log: SlidingLog,
    /// The total cost of the entries.
    pub(crate) used: u64,
    pub(crate) last: u64,
    /// In the order of admission; expired ones go when the next is admitted.
    pub(crate) entries: VecDeque<Entry>,
}

impl LogRecord {
    /// Whether some sequence of admissions can have written it, so that no step can overflow.
    pub(crate) fn is_sound(&self) -> bool {
        let Some(newest) = self.entries.back() else { return false };
        let total = self.entries.iter().try_fold(0_u64, |sum, entry| sum.checked_add(entry.cost));
        self.entries.iter().all(|entry| entry.cost > 0)
            && self.entries.iter().is_sorted_by_key(|entry| entry.at)
            && total == Some(self.used)
            && self.used <= self.log.limit
            && newest.at == self.last
            && is_time(self.last)
    }

    pub(crate) fn forget_at(&self) -> Timestamp {
        Timestamp::computed(self.last + self.log.window_us)
            .expect("a window, at most MAX_SPAN, after an accepted time")
    }
}

/// One admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) cost: u64,
}
