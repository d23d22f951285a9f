//! What must hold, told from what programs were told and what the store has done.

mod accounts;
mod answers;
mod breaker;
mod exempt;
mod holders;
mod lines;
mod local;
mod replies;
mod values;
mod waits;

use std::fmt;

use lockage::locks::Loss;
use lockage_core::{Decision, Origin, Reservation, Settlement, Verdict};
use serde::{Deserialize, Serialize};

use super::jobs::IDS;
use super::plan::{Plan, What};
use accounts::Accounts;
pub(super) use accounts::Ran;
use answers::Told;
pub use answers::{Answer, Op};
use breaker::Breakers;
pub use exempt::{Exempt, Exemptions};
use holders::{Holders, Known};
use lines::Lines;
pub(in crate::simulation) use replies::HolderAnswer;
use replies::Replies;
use values::Values;
pub(super) use waits::Need;
use waits::{Stood, Waited, Waits};

/// What a program was told, or did. All but decisions and losses can be written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // each is what it holds
pub enum Seen {
    /// It asks for this, or for more of it.
    Asked {
        id: usize,
        cost: u64,
    },
    /// It asks right now, and no other job of its process does so for this id.
    Alone {
        id: usize,
    },
    /// What it has asked for since then: of one that waits, with the time that was left of its wait by its own clock.
    #[serde(skip)]
    Decided {
        id: usize,
        op: Op,
        cost: u64,
        since_us: u64,
        left_us: Option<u64>,
        /// Whether it has asked under the limit that is not the plan's.
        is_other: bool,
        decision: Decision,
    },
    /// It got an answer that is no decision.
    #[serde(skip)]
    Answered {
        id: usize,
        op: Op,
        cost: u64,
        since_us: u64,
        is_other: bool,
        answer: Box<Answer>,
    },
    /// The share of its process has charged this, by its own clock.
    Shared {
        id: usize,
        cost: u64,
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
    /// It begins to change what is charged to an id; or also what was granted before.
    Changes {
        id: usize,
        is_key: bool,
    },
    /// It has ended to, whether that was done or not.
    Changed {
        id: usize,
        is_key: bool,
    },
    /// It makes a call that a circuit breaker may refuse.
    Calls,
    /// It has begun that at this time by its clock, and has sent something or not.
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
        cost: u64,
        actual: u64,
    },
    /// It was told this of a reservation that it settles with that cost.
    #[serde(skip)]
    Settled {
        id: usize,
        reservation: Reservation,
        /// When it was asked for.
        since_us: u64,
        actual: u64,
        settlement: Settlement,
    },
    /// Nothing was asked of a limiter for as long as a reservation is kept.
    Quiet,
    /// It has waited for so much longer than it said that it would.
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
    /// It has asked for something, or for the latch, since then; until then it would wait. It was denied at last, if so.
    Waited {
        what: Option<What>,
        since_us: u64,
        until_us: u64,
        at_us: u64,
        denial: Option<HolderAnswer>,
    },
    /// It was told this about one of these keys by a call that began then.
    Told {
        keys: Vec<String>,
        since_us: u64,
        answer: HolderAnswer,
    },
    /// So many servers have answered a release that began then.
    ReleasedOn {
        servers: usize,
        since_us: u64,
    },
    /// So many replicas have what it was granted by a call that began then, or too few.
    Acknowledged {
        is_enough: bool,
        since_us: u64,
    },
    /// So many replicas have what a store has answered.
    Replicated {
        replicas: u32,
    },
    /// It holds this, and will until this true time at least.
    Holds {
        job: usize,
        what: What,
        token: u64,
        until_us: u64,
    },
    /// It works on what it holds, and has not asked whether it is held yet.
    Works {
        job: usize,
        what: What,
    },
    /// It begins what one does for all, in a call that began then; goes on with it; or has done it.
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
    /// It does not act on it any more.
    Left {
        job: usize,
        what: What,
    },
    /// An observer panics.
    ObserverPanicked,
    /// Locks of its own are gone, right after what it held.
    DroppedLocks,
    /// Locks of its own were closed, which held this.
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
    /// It writes the value that the lock protects, and was told whether that is accepted.
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
    /// It sets the latch, counts it down, or was told that it is open.
    SetsLatch,
    CountsDown {
        count: u64,
    },
    CountedDown,
    Opened,
    /// It got the value that began to be built then, by itself or another one.
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
    /// A call for so much was not answered, or refused by a store that is not well.
    Failed {
        cost: u64,
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

/// What one does for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)] // each is what it is called
pub enum Common {
    /// It builds the cached value.
    Page,
    /// It does the work that runs once.
    Order,
}

/// What did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of thing it is.
    pub kind: Kind,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n{}", self.kind.property(), self.kind, self.what)
    }
}

/// Declares what can be wrong: the property that does not hold, and what it says here.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $property:literal, $statement:literal;)*) => {
        /// What can be wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind),*
        }

        impl Kind {
            /// The name of the property that does not hold.
            pub fn property(self) -> &'static str {
                match self {
                    $(Kind::$kind => $property),*
                }
            }
        }

        impl fmt::Display for Kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Kind::$kind => $statement),*
                })
            }
        }
    };
}

kinds! {
    /// More was told to be admitted than the store has charged.
    Uncharged: "E1 to E8", "no more is told to be admitted than the store has charged";
    /// More was charged than was asked for: a request was charged twice, or was said not to be done.
    ChargedTwice: "D11", "each request is charged once at most, and one that is not done is not charged";
    /// The store has admitted more than the limit allows (E1 to E5), or a share of it.
    Envelope: "E1 to E8", "what is admitted is within the envelope of its limit";
    /// A caller was told what the store has not decided.
    Untold: "D11", "callers are told what the store has decided for them, once";
    /// A caller in line was admitted before another one that had joined before it.
    Overtaken: "D16", "callers of one process are admitted in the order in which they came";
    /// A request was denied here that the store would admit.
    FalseDenial: "D1", "what is denied without the store, the store denies";
    /// A permit was spent that was taken ahead longer ago than its lease.
    SpentLate: "E7", "permits are spent within their lease";
    /// A caller has waited for longer than it said, or holds for longer than it may.
    TooLong: "D10", "nobody waits or holds for longer than was said";
    /// A caller was denied before the end of its wait, which would have been long enough.
    TooSoon: "D10", "no wait is given up that would be long enough";
    /// A circuit breaker asks the store when it should not, or does not when it should.
    Circuit: "D17", "a store that is away is asked by probes alone, and one that answers by all";
    /// A call goes on that no job waits for any more.
    Abandoned: "D10", "a call that all of its callers have left is given up";
    /// A request is not sent, and nothing is in its way.
    Unsent: "D10", "a request waits for no calls but those that fill all the room";
    /// Two hold what one can, by their own clocks (L1, L6).
    Exclusion: "L1", "nobody holds what another one holds, until its own deadline";
    /// The store's lease is shorter than its holder believes (L6).
    Lease: "L6", "the lease of the store lasts until the holder's own deadline";
    /// Something was lost without a cause, or while nothing went wrong.
    Lost: "L6", "nothing is lost without a cause, or while all is well";
    /// The lock was free, and a waiter was not told, or did not come.
    Idle: "L12", "no lock is free for long while somebody waits for it";
    /// A caller in line, or a writer, was passed by one that came after it.
    Jumped: "L9", "nobody passes a caller in line, and no reader a writer that waits";
    /// A caller was told what no store has answered.
    Unanswered: "L3", "callers are told what their store has answered, by that call";
    /// A wait was given up before its time.
    Early: "L8", "a caller that waits is denied when its time is over, not before";
    /// A value was built while there is a fresh one.
    Rebuilt: "L7", "no value is built while there is a fresh one";
    /// A value took what was written by an older grant, or refused the newest (L7).
    Fencing: "L7", "a value accepts the newest grant, and nothing of an older one";
    /// One result became two.
    RanTwice: "L10", "what runs once has one result";
    /// A latch was open too early.
    Latch: "L12", "a latch is open once it is counted down, and not before";
    /// A value was given out after it was invalidated.
    Stale: "L7", "no value is given out that was built before it was invalidated";
    /// Something stays taken without a holder.
    Leak: "L8", "what nobody holds is free";
    /// A job does not end.
    Starved: "L8", "every job ends once all is well";
    /// A reservation is not settled, or not as its caller was told.
    Unsettled: "D15", "a reservation is settled as its caller was told";
    /// Something goes on for ever.
    Endless: "L8", "every world comes to rest";
    /// An error that nothing explains.
    Error: "D12", "errors are the store's";
    /// The client panicked.
    Panic: "D12", "nothing panics";
    /// A script answers or stores otherwise than its machine.
    Script: "D12", "scripts answer and store what their machines do";
}

/// A node, and which of its lives.
pub(super) type Life = (usize, u32);

/// When a program was told something: since its task was polled, until now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) polled_us: u64,
    pub(super) now_us: u64,
}

impl Times {
    /// A process that does not stand still within a step.
    pub(super) fn at(now_us: u64) -> Times {
        Times { polled_us: now_us, now_us }
    }
}

/// What the store would say now.
pub(super) trait Oracle {
    /// Whether it would deny a request for a key.
    fn would_deny(&self, key: &str, cost: u64) -> bool;

    /// Returns what it would answer if a reservation were settled with this cost.
    fn settle(&self, id: usize, reservation: &Reservation, actual: u64) -> Settlement;

    /// How many reservations of an id are kept.
    fn reservations(&self, id: usize) -> usize;

    /// Until when the grant of this token lasts, if there is one.
    fn granted_until_us(&self, what: What, token: u64) -> Option<u64>;

    /// How many servers of the quorum have granted its lock to one owner until then.
    fn granted_by(&self, until_us: u64) -> usize;

    /// How long a value is kept, if there is one.
    fn kept_for_us(&self, key: &str) -> Option<u64>;

    /// Since when a lock is held, if it is.
    fn held_since_us(&self, key: &str) -> Option<u64>;
}

pub(super) struct Judge {
    pub(super) accounts: Accounts,
    pub(super) holders: Holders,
    /// What was not judged, and why.
    pub(super) exempt: Exemptions,
    pub(super) waits: Waits,
    pub(super) replies: Replies,
    pub(super) stood: Stood,
    pub(super) values: Values,
    /// How many replicas have what stores have answered to a node, and when.
    replicated: Vec<(usize, u64, u32)>,
    lines: Lines,
    breakers: Breakers,
    /// When the store last forgot something, or its clock was set.
    shaken_us: Option<u64>,
}

impl Judge {
    pub(super) fn new(plan: &Plan) -> Self {
        Judge {
            accounts: Accounts::new(plan),
            holders: Holders::new(plan),
            exempt: Exemptions::default(),
            waits: Waits::new(plan),
            replies: Replies::default(),
            stood: Stood::default(),
            values: Values::new(plan),
            replicated: Vec::new(),
            lines: Lines::new(plan),
            breakers: Breakers::new(plan),
            shaken_us: None,
        }
    }

    /// The store forgets something until then, or its clock was set: what was begun before is excused.
    pub(super) fn shaken(&mut self, until_us: u64) {
        self.shaken_us = self.shaken_us.max(Some(until_us));
        self.accounts.shaken(until_us);
        self.values.shaken();
    }

    /// A program of a life of a node was told something.
    pub(super) fn saw(
        &mut self,
        life: Life,
        seen: Seen,
        Times { polled_us, now_us }: Times,
        store: &impl Oracle,
    ) -> Result<(), Fault> {
        let (shaken_us, node, times) = (self.shaken_us, life.0, Times { polled_us, now_us });
        let Judge { replies, exempt, stood, .. } = self;
        let known = &Known { store, replies, exempt, shaken_us };
        match seen {
            Seen::Asked { id, cost } => self.accounts.asked(id, cost),
            Seen::Decided { id, op, cost, since_us, left_us, is_other, decision } => {
                let is_other = is_other && self.accounts.is_told_apart();
                let waits = left_us.is_some();
                let told =
                    Told { life, id, op, cost, is_other, waits, since_us, polled_us, now_us };
                has_to_end(left_us.unwrap_or_default(), &decision)?;
                if !waits {
                    self.accounts.overdue(id, now_us - since_us, &self.exempt)?;
                }
                if decision.origin == Origin::Line && !waits {
                    self.lines.is_there((life.0, life.1, id))?;
                }
                return self.accounts.decided(&told, &decision, store, &self.exempt);
            }
            Seen::Answered { id, op, cost, since_us, is_other, answer } => {
                self.accounts.overdue(id, now_us - since_us, &self.exempt)?;
                let (is_other, waits) = (is_other && self.accounts.is_told_apart(), false);
                let told =
                    Told { life, id, op, cost, is_other, waits, since_us, polled_us, now_us };
                return self.accounts.answered(&told, *answer, &self.exempt);
            }
            Seen::Shared { id, cost, clock_us } => {
                return self.accounts.shared((life, id), cost, clock_us, &self.exempt);
            }
            Seen::JoinsLine { id, caller } => {
                self.accounts.waits(life, true, now_us);
                self.lines.joins((life.0, life.1, id), caller);
            }
            Seen::LeavesLine { id, caller, is_admitted } => {
                self.accounts.waits(life, false, now_us);
                return self.lines.leaves((life.0, life.1, id), caller, is_admitted, now_us);
            }
            Seen::Overdue { id, by_us } => return self.accounts.overdue(id, by_us, &self.exempt),
            Seen::Called { call, is_sent, clock_us } => {
                return self.breakers.called(life, call, is_sent, clock_us);
            }
            Seen::CallEnds { call, origin, clock_us } => {
                return self.breakers.ended(life, call, origin, clock_us);
            }
            Seen::Changes { id, is_key } | Seen::Changed { id, is_key } => {
                self.accounts.changes(life, id, is_key, now_us);
            }
            Seen::AsksUnder { id, is_other } => self.accounts.asks_under(life, id, is_other),
            Seen::Settled { id, reservation, since_us, actual, settlement } => {
                let store = |actual| store.settle(id, &reservation, actual);
                let of = (id, since_us);
                if !self.accounts.is_settled(of, actual, &settlement, store, &self.exempt) {
                    let what = format!("{reservation:?} with {actual}: {settlement:?}");
                    return fault(Kind::Unsettled, what);
                }
            }
            Seen::Quiet => {
                let kept = |id: &usize| shaken_us.is_none() && store.reservations(*id) > 0;
                if let Some(id) = (0..IDS.len()).find(kept) {
                    return fault(Kind::Leak, format!("reservations of `{}` are kept", IDS[id]));
                }
            }
            Seen::Waits { job, what } => self.waits.begins(job, Some(what), times),
            Seen::WaitsForLatch { job } => self.waits.begins(job, None, times),
            Seen::WaitsNoLonger { job } => self.waits.ends(job),
            Seen::Waited { what, since_us, until_us, at_us, denial } => {
                let waited = Waited { what, since_us, until_us, at_us };
                return self.waits.waited(node, &waited, denial.as_ref(), replies, (stood, exempt));
            }
            Seen::Told { keys, since_us, answer } => {
                return replies.told(&keys, node, since_us, &answer);
            }
            Seen::ReleasedOn { servers, since_us } => {
                return replies.released_on(servers, node, since_us);
            }
            Seen::Replicated { replicas } => self.replicated.push((node, now_us, replicas)),
            Seen::Acknowledged { is_enough, since_us } => {
                let is_told = |(of, at_us, replicas): &(usize, u64, u32)| {
                    *of == node && *at_us >= since_us && (*replicas > 0) == is_enough
                };
                // Nor has one what the store has lost.
                if !self.replicated.iter().any(is_told) && !known.is_shaken(since_us) {
                    let what = format!("since {since_us} us, a replica has it: {is_enough}");
                    return fault(Kind::Unanswered, what);
                }
            }
            Seen::Holds { job, what, token, until_us } => {
                let begun_us = self.waits.begun_us(job).unwrap_or(now_us);
                let grant = holders::Grant { job, what, token, until_us };
                self.holders.holds(grant, begun_us, now_us, known)?;
                return self.waits.got(job, what);
            }
            Seen::ClosedLocks { what: What::Quorum, .. } => {}
            Seen::ClosedLocks { what, token } => {
                let until_us = store.granted_until_us(what, token);
                if until_us.is_some_and(|until_us| until_us > now_us) && shaken_us.is_none() {
                    let what = format!("{what:?} was closed, and is held until {until_us:?} us");
                    return fault(Kind::Leak, what);
                }
            }
            Seen::Works { job, what } => return self.holders.works(job, what, times, known),
            Seen::Lost { job, what, loss } => {
                return self.holders.lost((job, what), loss, now_us, node, known);
            }
            Seen::Left { job, what } => self.holders.left(job, what),
            Seen::Begins { job, of, since_us } => {
                return self.values.begins(job, of, since_us, times, known);
            }
            Seen::GoesOn { job, of } => return self.values.goes_on(job, of, times, known),
            Seen::Finishes { job, of } => self.values.ends(job, of),
            Seen::Forces => self.values.forces(now_us),
            Seen::Writes { job, token } => self.values.writes(job, token, now_us),
            Seen::Wrote { job, token, is_accepted } => {
                return self.values.wrote(job, token, is_accepted, known);
            }
            Seen::Result { since_us, result } => {
                return self.values.result(since_us, result, known);
            }
            Seen::SetsLatch => self.values.sets_latch(now_us),
            Seen::CountsDown { count } => self.values.counts_down(count),
            Seen::Opened => return self.values.opened(known),
            Seen::Got { since_us, built_us, is_own } => {
                return self.values.got(node, (since_us, built_us, is_own), times, known);
            }
            Seen::Invalidated { since_us } => {
                return self.values.invalidated(node, since_us, now_us, known);
            }
            Seen::Leaked { what } => return fault(Kind::Leak, format!("{what} is taken")),
            Seen::Wrong { what } => return fault(Kind::Error, what),
            Seen::Failed { cost, is_unknown: false } => {
                return self.accounts.not_done(cost, now_us, &self.exempt);
            }
            Seen::Alone { .. }
            | Seen::Settles { .. }
            | Seen::Calls
            | Seen::ObserverPanicked
            | Seen::DroppedLocks
            | Seen::CountedDown
            | Seen::Failed { .. }
            | Seen::Ended { .. } => {}
        }
        Ok(())
    }

    /// The store has run a command of a limiter.
    pub(super) fn ran(&mut self, ran: &Ran<'_>) -> Result<(), Fault> {
        self.accounts.ran(ran, &self.exempt)
    }

    /// The future of a job was dropped, and its guard with it.
    pub(super) fn cancelled(&mut self, job: usize) {
        self.holders.cancelled(job);
        self.waits.ends(job);
        self.values.cancelled(job);
    }
}

/// A wait is given up before its end only where no longer than that would have helped.
fn has_to_end(left_us: u64, decision: &Decision) -> Result<(), Fault> {
    match decision.verdict {
        Verdict::Denied { retry_after, .. }
            if left_us > 0
                && retry_after.max(decision.turn_after).as_micros() <= u128::from(left_us) =>
        {
            fault(Kind::TooSoon, format!("{left_us} us before its end, with {decision:?}"))
        }
        _ => Ok(()),
    }
}

pub(super) fn fault<T>(kind: Kind, what: String) -> Result<T, Fault> {
    Err(Fault { kind, what })
}
