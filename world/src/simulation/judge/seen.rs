//! The reports of programs: their calls and answers, and their work.

use lockage::locks::Loss;
use lockage_core::{Decision, Origin, Reservation, Settlement};
use serde::{Deserialize, Serialize};

use super::{Answer, HolderAnswer, LatchChange, Op};
use crate::simulation::by_part::ByPart;
use crate::simulation::plan::What;

/// A report of a program: an answer, or an action. All but decisions and losses can be serialized.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // each is named after its content
pub enum Seen {
    /// It asks for this cost, or for more of it.
    Asked {
        id: usize,
        cost: ByPart,
    },
    /// It asks right now, and no other job of its process asks for this id.
    Alone {
        id: usize,
    },
    /// It got the decision of a request from that time. A waiting request also reports the rest of
    /// its wait by its own clock.
    #[serde(skip)]
    Decided {
        id: usize,
        op: Op,
        cost: ByPart,
        since_us: u64,
        left_us: Option<u64>,
        /// Whether it asked under the other limit, not the plan's.
        is_other: bool,
        decision: Decision,
    },
    /// It got the denial of a request for several ids on several nodes, of which this one was reserved first.
    GaveBack {
        id: usize,
        since_us: u64,
    },
    /// It got an answer other than a decision.
    #[serde(skip)]
    Answered {
        id: usize,
        op: Op,
        cost: ByPart,
        since_us: u64,
        is_other: bool,
        answer: Box<Answer>,
    },
    /// The share of its process has charged this, by its own clock.
    Shared {
        id: usize,
        cost: ByPart,
        clock_us: u64,
    },
    /// It waits in line behind all callers of its process that joined before it.
    JoinsLine {
        id: usize,
        caller: usize,
    },
    LeavesLine {
        id: usize,
        caller: usize,
        is_admitted: bool,
    },
    /// Its guard holds this many places in flight, or is about to give them back.
    TakesPlaces {
        id: usize,
        cost: u64,
    },
    LeavesPlaces {
        id: usize,
        cost: u64,
    },
    /// It begins to change the charges of an id, or also its earlier grants.
    Changes {
        id: usize,
        is_key: bool,
    },
    /// It has ended the change, which may have happened or not.
    Changed {
        id: usize,
        is_key: bool,
    },
    /// It makes a call that a circuit breaker may refuse.
    Calls,
    /// It has begun that call at this time by its clock, and has sent a request or not.
    Called {
        call: usize,
        is_sent: bool,
        clock_us: u64,
    },
    /// The call was answered, or not.
    #[serde(skip)]
    CallEnds {
        call: usize,
        origin: Option<Origin>,
        clock_us: u64,
    },
    /// It asks under a limit: the plan's, or the other one.
    AsksUnder {
        id: usize,
        is_other: bool,
    },
    /// It begins to settle a reservation of this cost with the actual one.
    Settles {
        cost: ByPart,
        actual: ByPart,
    },
    /// It got this answer to the settlement of a reservation with that cost.
    #[serde(skip)]
    Settled {
        id: usize,
        reservation: Reservation,
        /// When the reservation was requested.
        since_us: u64,
        actual: ByPart,
        settlement: Settlement,
    },
    /// No request was made to a limiter for as long as a reservation is kept.
    Quiet,
    /// It has waited this much longer than its limit.
    Overdue {
        id: usize,
        by_us: u64,
    },
    /// It waits for this.
    Waits {
        job: usize,
        what: What,
    },
    /// It waits until the latch is open.
    WaitsForLatch {
        job: usize,
    },
    WaitsNoLonger {
        job: usize,
    },
    /// It has waited for a resource, or for the latch, from `since_us`, and would have until
    /// `until_us`. The denial is its last one, if any.
    Waited {
        what: Option<What>,
        since_us: u64,
        until_us: u64,
        at_us: u64,
        denial: Option<HolderAnswer>,
    },
    /// It got this answer for one of these keys, to a call that began then.
    Told {
        keys: Vec<String>,
        since_us: u64,
        answer: HolderAnswer,
    },
    /// This many servers have answered a release that began then.
    ReleasedOn {
        servers: usize,
        since_us: u64,
    },
    /// Enough replicas have the grant of a call that began then, or too few.
    Acknowledged {
        is_enough: bool,
        since_us: u64,
    },
    /// This many replicas have an answer of a store.
    Replicated {
        replicas: u32,
    },
    /// It holds this, and surely will until this true time.
    Holds {
        job: usize,
        what: What,
        token: u64,
        until_us: u64,
    },
    /// It works on its grant, and has not checked that it is still held.
    Works {
        job: usize,
        what: What,
    },
    /// It campaigns; leads by this token; goes on with that; or is about to step down.
    Campaigns {
        job: usize,
    },
    Leads {
        job: usize,
        token: u64,
    },
    Rules {
        job: usize,
    },
    StepsDown {
        job: usize,
    },
    /// It has a grant that is held for at least so long.
    Keeps {
        token: u64,
        least_us: u64,
    },
    /// It begins the work that one does for all, in a call that began then; goes on with it; or has
    /// done it.
    Begins {
        job: usize,
        of: Common,
        since_us: u64,
    },
    GoesOn {
        job: usize,
        of: Common,
    },
    Finishes {
        job: usize,
        of: Common,
    },
    /// It frees a lock by force.
    Forces,
    /// It no longer acts on the grant.
    Left {
        job: usize,
        what: What,
    },
    /// An observer panics.
    ObserverPanicked,
    /// It dropped its own locks, right after their grant.
    DroppedLocks,
    /// Its own locks were closed, which held this.
    ClosedLocks {
        what: What,
        token: u64,
    },
    #[serde(skip)]
    Lost {
        job: usize,
        what: What,
        loss: Loss,
    },
    /// It writes the value that the lock protects, or learns whether the value accepts that.
    Writes {
        job: usize,
        token: u64,
    },
    Wrote {
        job: usize,
        token: u64,
        is_accepted: bool,
    },
    Result {
        since_us: u64,
        result: String,
    },
    /// It changes a latch, learns that this is not done, or that the gate is open or was counted down.
    ChangesLatch(LatchChange),
    LatchIsAsBefore(LatchChange),
    CountedDown,
    Opened,
    /// It got a value whose construction began then, by itself or by another job.
    Got {
        since_us: u64,
        built_us: u64,
        is_own: bool,
    },
    Invalidated {
        since_us: u64,
    },
    Leaked {
        what: String,
    },
    /// A call of this cost got no answer, or was refused by a store that is not well.
    Failed {
        cost: ByPart,
        is_unknown: bool,
    },
    Ended {
        job: usize,
    },
    /// An answer that nothing in the world explains.
    Wrong {
        what: String,
    },
}

/// Work that one job does for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)] // each is named after its content
pub enum Common {
    /// It builds the cached value.
    Page,
    /// It does the work that runs once.
    Order,
}
