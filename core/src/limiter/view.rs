//! The records of limiters and reservations, for people.

use alloc::vec::Vec;

use super::cost::Cost;
use super::key_state::LimitState;
use super::peek::Peek;
use super::reservations::{ReservationRecord, Stage};
use super::stored::{Policy, StoredLimit, limit_of};
use super::with_stored_limit::run::Run;
use super::{Requests, Scope};
use crate::decision::Decision;
use crate::error::RecordError;
use crate::lease::time;
use crate::limit::{CalendarWindow, Limit};
use crate::record::{Head, Record};
use crate::time::Timestamp;

/// A limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimiterView {
    /// The limit of the latest write. A stored record has rates in lowest terms: 60 in a minute is 1 in a second.
    pub limit: Limit,
    /// The limit with its terms, if it is stored for all callers.
    pub stored: Option<StoredLimit>,
    /// The end of a block, if the key is blocked.
    pub blocked_until: Option<Timestamp>,
    /// The number of admitted requests and adjustments whose ids are remembered.
    pub remembered: usize,
    /// The decision of a peek of cost 1. `None` for a limit per client, whose clients have keys of their own, and for
    /// [the head of a list](LimiterView::of_list_head).
    pub decision: Option<Decision>,
}

/// A reservation, under the second key of its limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReservationView {
    /// The limit that it was made under.
    pub limit: Limit,
    /// The estimate that was charged.
    pub cost: Cost,
    /// The true cost, once it is settled.
    pub settled: Option<Cost>,
    /// The latest time to settle it; once it is settled, until when the answer is remembered.
    pub until: Timestamp,
}

impl LimiterView {
    /// Reads the first element of a list, which is the record of a log without its entries, however long it is. `None`
    /// if its stored limit has ended. A [`Peek`] adds the decision.
    ///
    /// # Errors
    /// As [`Record::read`].
    pub fn of_list_head(first: &[u8], now: Timestamp) -> Result<Option<Self>, RecordError> {
        let (policy, Head { parts, blocked_until, requests, .. }) = Record::read_list_head(first)?;
        if policy.is_some_and(|policy| policy.is_over(now)) {
            return Ok(None);
        }
        let view = LimiterView::new(&parts, blocked_until, &requests, policy, now);
        view.map(Some).ok_or(RecordError::Damaged)
    }

    /// Returns the view of a limiter's record that has not ended.
    pub(crate) fn of(
        record: &Record,
        now: Timestamp,
        bound: impl FnMut(CalendarWindow) -> CalendarWindow,
    ) -> Result<Option<Self>, RecordError> {
        let Some(parts) = record.body.limits().filter(|_| !record.is_over(now)) else {
            return Ok(None);
        };
        let Record { blocked_until, requests, policy, .. } = record;
        let view = LimiterView::new(parts, *blocked_until, requests, *policy, now);
        let mut view = view.ok_or(RecordError::Damaged)?;
        if view.stored.is_none_or(|stored| stored.scope() == Scope::Overall) {
            let peek = Peek::new(view.limit.with_calendar(bound), 1);
            view.decision = Some(peek.run(&mut Some(record.clone()), now)?);
        }
        Ok(Some(view))
    }

    fn new(
        parts: &[LimitState],
        blocked_until: Option<u64>,
        requests: &Requests,
        policy: Option<Policy>,
        now: Timestamp,
    ) -> Option<Self> {
        let limit = limit_of(parts)?;
        Some(LimiterView {
            limit,
            stored: policy.map(|policy| {
                StoredLimit::from_parts(StoredLimit::new(limit).limit(), policy.terms)
            }),
            blocked_until: blocked_until.map(time).filter(|until| *until > now),
            remembered: requests.count(now),
            decision: None,
        })
    }
}

impl ReservationView {
    pub(crate) fn of(record: &ReservationRecord) -> Option<Self> {
        let limits: Vec<Limit> = record.limits.iter().map(|limit| (*limit).into()).collect();
        let (cost, settled) = match record.stage {
            Stage::Open { cost, .. } => (cost, None),
            Stage::Settled { actual, cost } => (cost, Some(actual)),
        };
        Some(ReservationView {
            limit: Limit::all(&limits).ok()?,
            cost,
            settled,
            until: record.until,
        })
    }
}
