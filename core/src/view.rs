//! The contents of any record at one time, for people and tools that know no configuration.
//!
//! ```
//! use lockage_core::view::View;
//! use lockage_core::{Acquire, Command, Limit, Timestamp};
//!
//! let limit: Limit = "token-bucket 100/min burst 20".parse()?;
//! let (mut slot, now) = (None, Timestamp::from_micros(1_763_700_000_000_000)?);
//! _ = Acquire::new(limit, 3)?.apply(&mut slot, now)?;
//! let record = slot.expect("it was written"); // a store returns it by `Record::read`
//! let Some(View::Limiter(limiter)) = View::of(&record, now, |window| window)? else { panic!() };
//! assert_eq!(limiter.limit, limit);
//! assert_eq!(limiter.decision.map(|decision| decision.remaining), Some(17));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! **Limitations.** A denial writes nothing, so records do not count them. A lock's record has the owners in line, but
//! not the other waiters: of those, records only have the latest time until which one of them announced to wait.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::command::Command;
use crate::error::RecordError;
use crate::fenced::{FencedPeek, Kept};
use crate::latch;
use crate::lease::{Granted, time};
use crate::limit::CalendarWindow;
use crate::lock::{self, HoldId, OwnerId};
use crate::record::{Body, Record};
use crate::rw_lock::{GrantRecord, Hold, Holder};
use crate::semaphore::{Grant, PermitId, Permits};
use crate::time::Timestamp;
use crate::wake::Wake;

pub use crate::limiter::{LimiterView, ReservationView};

/// The contents of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum View {
    /// A limiter.
    Limiter(Box<LimiterView>),
    /// A reservation.
    Reservation(Box<ReservationView>),
    /// A lock.
    Lock(LockView),
    /// A semaphore.
    Semaphore(SemaphoreView),
    /// A read-write lock.
    RwLock(RwLockView),
    /// A latch.
    Latch(latch::Inspection),
    /// A fenced value.
    Fenced(FencedView),
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockView {
    /// The holder, its label, and since when it holds the lock.
    pub inspection: lock::Inspection,
    /// The latest fencing token.
    pub token: u64,
    /// The owners in line and the ends of their places, the first one first.
    pub line: Vec<(OwnerId, Timestamp)>,
    /// The latest time until which a waiter announced to wait, if it is still to come.
    pub awaited_until: Option<Timestamp>,
}

/// A semaphore. Its record does not have the number of permits, which each caller brings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SemaphoreView {
    /// The grants, in order of their ends.
    pub grants: Vec<(PermitId, Grant)>,
    /// As of a [lock](LockView::awaited_until).
    pub awaited_until: Option<Timestamp>,
}

/// A read-write lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RwLockView {
    /// The holders with the ids of their holds, the oldest grant first.
    pub holders: Vec<(Holder, Vec<HoldId>)>,
    /// The time until which a waiting writer keeps new readers out, if there is one.
    pub kept_until: Option<Timestamp>,
    /// As of a [lock](LockView::awaited_until).
    pub awaited_until: Option<Timestamp>,
}

/// A fenced value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FencedView {
    /// The newest token that was seen.
    pub token: u64,
    /// The end of the record.
    pub until: Timestamp,
    /// The value; `None` if it was only read, or was removed.
    pub kept: Option<Kept>,
}

impl View {
    /// Returns the contents of a record at `now`; `None` if it acts as if absent then. `bound` gives a calendar window
    /// its boundaries around `now`: see [`CalendarWindow::with_boundaries`].
    ///
    /// # Errors
    /// [`RecordError::ClockOff`] for a time after [`Timestamp::MAX`], or boundaries around another time.
    pub fn of(
        record: &Record,
        now: Timestamp,
        bound: impl FnMut(CalendarWindow) -> CalendarWindow,
    ) -> Result<Option<Self>, RecordError> {
        let now = now.accepted()?;
        if record.forget_at() <= now {
            return Ok(None);
        }
        let mut slot = Some(record.clone());
        let is_live = |deadline: u64| now.as_micros() < deadline;
        let awaited = |wake: Wake| wake.is_due(now.as_micros()).then(|| time(wake.0));
        Ok(Some(match &record.body {
            Body::Counter(_) | Body::Group(_) => {
                let view = LimiterView::of(record, now, bound)?;
                return Ok(view.map(|view| View::Limiter(Box::new(view))));
            }
            Body::Reservation(reservation) => {
                let view = ReservationView::of(reservation).ok_or(RecordError::Damaged)?;
                View::Reservation(Box::new(view))
            }
            Body::Lock(own) => View::Lock(LockView {
                inspection: lock::Inspect.apply(&mut slot, now)?,
                token: own.token,
                line: own.queue.places(now.as_micros()).collect(),
                awaited_until: awaited(Wake(own.wake)),
            }),
            Body::Semaphore(own) => {
                let grant = |it: &Granted<Permits>| {
                    let (token, deadline) = (it.token, time(it.deadline));
                    (it.what.id, Grant { count: it.what.count, token, deadline })
                };
                let live = own.grants.iter().filter(|it| is_live(it.deadline));
                let awaited_until = awaited(own.wake);
                View::Semaphore(SemaphoreView { grants: live.map(grant).collect(), awaited_until })
            }
            Body::RwLock(own) => {
                let live = own.leases.grants.iter().filter(|it| is_live(it.deadline));
                View::RwLock(RwLockView {
                    holders: live.map(holder).collect(),
                    kept_until: Some(own.kept_until).filter(|until| is_live(*until)).map(time),
                    awaited_until: awaited(own.leases.wake),
                })
            }
            Body::Latch(_) => View::Latch(latch::Inspect.apply(&mut slot, now)?),
            Body::Fenced(own) => View::Fenced(FencedView {
                token: own.token,
                until: time(own.until),
                kept: FencedPeek.apply(&mut slot, now)?,
            }),
        }))
    }

    /// Returns the name of the kind: `limiter`, `reservation`, `lock`, `semaphore`, `rw-lock`, `latch` or `fenced`.
    pub fn kind(&self) -> &'static str {
        match self {
            View::Limiter(_) => "limiter",
            View::Reservation(_) => "reservation",
            View::Lock(_) => "lock",
            View::Semaphore(_) => "semaphore",
            View::RwLock(_) => "rw-lock",
            View::Latch(_) => "latch",
            View::Fenced(_) => "fenced",
        }
    }
}

fn holder(granted: &Granted<GrantRecord>) -> (Holder, Vec<HoldId>) {
    let Granted { what, token, deadline } = granted;
    let holds = what.holds.len() as u64;
    let hold = Hold { mode: what.mode, token: *token, holds, deadline: time(*deadline) };
    (Holder { owner: what.owner, hold }, what.holds.clone())
}
