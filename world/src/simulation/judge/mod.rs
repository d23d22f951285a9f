//! The judge of worlds: it compares the reports of programs with the runs of the store.

mod accounts;
mod answers;
mod asked;
mod breaker;
mod exempt;
mod holders;
mod kind;
mod latches;
mod leaders;
mod lines;
mod local;
mod places;
mod replies;
mod runtimes;
mod seen;
mod values;
mod waits;

use lockage_core::{AnyCommand, Decision, Origin, Reservation, Settlement, Verdict};

use super::by_part::ByPart;
use super::jobs::IDS;
use super::plan::{Plan, What};
use accounts::Accounts;
pub(super) use accounts::Ran;
pub use answers::Answer;
use answers::Told;
pub use asked::Op;
use breaker::Breakers;
pub use exempt::{Exempt, Exemptions};
use holders::{Holders, Known};
pub(in crate::simulation) use kind::fault;
pub use kind::{Fault, Kind};
pub(super) use latches::LatchChange;
use latches::Latches;
use leaders::Leaders;
use lines::Lines;
use places::Places;
pub(in crate::simulation) use replies::HolderAnswer;
use replies::Replies;
use runtimes::Runtimes;
pub(super) use seen::Common;
pub use seen::Seen;
use values::Values;
pub(super) use waits::Need;
use waits::{Stood, Waited, Waits};

/// A life of a node: the node, and the number of the life.
pub(super) type Life = (usize, u32);

/// When a program got something: between the poll of its task and now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) polled_us: u64,
    pub(super) now_us: u64,
    /// The executor of its task, if that is known.
    pub(super) executor: Option<u64>,
}

impl Times {
    /// Returns the times of a process that does not stand still within a step.
    pub(super) fn at(now_us: u64) -> Times {
        Times { polled_us: now_us, now_us, executor: None }
    }
}

/// The store's answers of this moment.
pub(super) trait Oracle {
    /// Returns whether the store would deny a request for a key.
    fn would_deny(&self, key: &str, cost: ByPart) -> bool;

    /// Returns the answer to the settlement of a reservation with this cost.
    fn settle(&self, id: usize, reservation: &Reservation, actual: ByPart) -> Settlement;

    /// Returns how many reservations of an id are kept.
    fn reservations(&self, id: usize) -> usize;

    /// Returns until when the grant of this token lasts, if there is one.
    fn granted_until_us(&self, what: What, token: u64) -> Option<u64>;

    /// Returns how many servers of the quorum have granted its lock to one owner until then.
    fn granted_by(&self, until_us: u64) -> usize;

    /// Returns how long a value is kept, if there is one.
    fn kept_for_us(&self, key: &str) -> Option<u64>;

    /// Returns the tokens of the grants of a lock, a semaphore or a read-write lock.
    fn tokens(&self, key: &str) -> Vec<u64>;

    /// Returns since when a lock is held, if it is.
    fn held_since_us(&self, key: &str) -> Option<u64>;
}

pub(super) struct Judge {
    pub(super) accounts: Accounts,
    pub(super) holders: Holders,
    /// The number of unjudged cases, by reason.
    pub(super) exempt: Exemptions,
    pub(super) waits: Waits,
    pub(super) replies: Replies,
    pub(super) stood: Stood,
    pub(super) values: Values,
    pub(super) latches: Latches,
    pub(super) leaders: Leaders,
    pub(super) runtimes: Runtimes,
    /// How many replicas have the store's answers to a node, and when.
    replicated: Vec<(usize, u64, u32)>,
    lines: Lines,
    places: Places,
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
            latches: Latches::default(),
            leaders: Leaders::new(plan),
            runtimes: Runtimes::new(plan),
            replicated: Vec::new(),
            lines: Lines::new(plan),
            places: Places::new(plan),
            breakers: Breakers::new(plan),
            shaken_us: None,
        }
    }

    /// The store forgets something until then, or its clock was set: anything begun earlier is
    /// excused.
    pub(super) fn shaken(&mut self, until_us: u64) {
        self.shaken_us = self.shaken_us.max(Some(until_us));
        self.accounts.shaken(until_us);
        self.values.shaken();
        self.leaders.shaken();
    }

    /// A program in a life of a node reports something.
    pub(super) fn saw(
        &mut self,
        life: Life,
        seen: Seen,
        times: Times,
        store: &impl Oracle,
    ) -> Result<(), Fault> {
        let (shaken_us, node, Times { polled_us, now_us, executor }) =
            (self.shaken_us, life.0, times);
        let longest_us = self.runtimes.longest_call_us(node, executor);
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
                    self.accounts.overdue(id, now_us - since_us, longest_us, &self.exempt)?;
                }
                if decision.origin == Origin::Line && !waits {
                    self.lines.is_there((life.0, life.1, id))?;
                }
                return self.accounts.decided(&told, &decision, store, &self.exempt);
            }
            Seen::GaveBack { id, since_us } => return self.accounts.gave_back(life, id, since_us),
            Seen::Answered { id, op, cost, since_us, is_other, answer } => {
                self.accounts.overdue(id, now_us - since_us, longest_us, &self.exempt)?;
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
            Seen::TakesPlaces { id, cost } => return self.places.takes(id, cost),
            Seen::LeavesPlaces { id, cost } => self.places.leaves(id, cost),
            Seen::Overdue { id, by_us } => {
                return self.accounts.overdue(id, by_us, longest_us, &self.exempt);
            }
            Seen::Called { call, is_sent, clock_us } => {
                return self.breakers.called(life, call, is_sent, clock_us);
            }
            Seen::CallEnds { call, origin, clock_us } => {
                return self.breakers.ended(life, call, origin, clock_us);
            }
            Seen::Changes { id, is_key } | Seen::Changed { id, is_key } => {
                self.accounts.changes(life, id, is_key, now_us);
            }
            Seen::AsksUnder { id, is_other } => {
                self.accounts.asks_under(life, id, is_other, now_us);
            }
            Seen::Settled { id, reservation, since_us, actual, settlement } => {
                let store = |actual| store.settle(id, &reservation, actual);
                let of = (id, since_us);
                if !self.accounts.is_settled(of, actual, &settlement, store, &self.exempt) {
                    let what = format!("{reservation:?} with {actual:?}: {settlement:?}");
                    return fault(Kind::Unsettled, what);
                }
            }
            Seen::Quiet => {
                let kept = |id: &usize| shaken_us.is_none() && store.reservations(*id) > 0;
                if let Some(id) = (0..IDS.len()).find(kept) {
                    return fault(Kind::Leak, format!("reservations of `{}` are kept", IDS[id]));
                }
            }
            Seen::Waits { job, what } => {
                if what != What::Quorum {
                    self.runtimes.uses_locks(node, executor, now_us);
                }
                self.waits.begins(job, Some(what), times);
            }
            Seen::WaitsForLatch { job } => self.waits.begins(job, None, times),
            Seen::WaitsNoLonger { job } => self.waits.answered(job, now_us),
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
                // A write that the store has lost is on no replica either.
                if !self.replicated.iter().any(is_told) && !known.is_shaken(since_us) {
                    let what = format!("since {since_us} us, a replica has it: {is_enough}");
                    return fault(Kind::Unanswered, what);
                }
            }
            Seen::Holds { job, what, token, until_us } => {
                let begun_us = self.waits.begun_us(job).unwrap_or(now_us);
                let granted_us = self.waits.granted_us(job).unwrap_or(now_us);
                let grant = holders::Grant { job, what, token, until_us };
                self.holders.holds(grant, (begun_us, granted_us), times, known)?;
                let (of, lease) = ((job, node, executor), (what, token));
                self.runtimes.holds(of, lease, until_us, now_us, exempt)?;
                return self.waits.got(job, what, now_us);
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
                self.runtimes.gives_up(job, Some(what), executor, now_us);
                return self.holders.lost((job, what), loss, now_us, node, known);
            }
            Seen::Left { job, what } => {
                self.runtimes.gives_up(job, Some(what), executor, now_us);
                self.holders.left(job, what);
            }
            Seen::Campaigns { job } => self.leaders.campaigns(job, now_us),
            Seen::Leads { job, token } => return self.leaders.leads((job, token), times, known),
            Seen::Rules { job } => return self.leaders.rules(job, times, known),
            Seen::StepsDown { job } => self.leaders.steps_down(job, now_us),
            Seen::Keeps { token, least_us } => {
                self.runtimes.keeps(token, least_us, now_us);
                self.leaders.keeps((token, least_us), now_us, node, known);
            }
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
            Seen::ChangesLatch(change) => {
                self.latches.asks(life, change);
                self.values.changes_latch(change, now_us);
            }
            Seen::LatchIsAsBefore(change) => return self.latches.not_done(life, change),
            Seen::Opened => return self.values.opened(known),
            Seen::Got { since_us, built_us, is_own } => {
                return self.values.got(node, (since_us, built_us, is_own), times, known);
            }
            Seen::Invalidated { since_us } => {
                return self.values.invalidated(node, since_us, now_us, known);
            }
            Seen::Leaked { what } => return fault(Kind::Leak, format!("{what} is taken")),
            Seen::Wrong { what } => return fault(Kind::Error, what),
            Seen::Failed { cost, is_unknown } => {
                self.runtimes.failed(node, executor)?;
                if is_unknown {
                    return Ok(());
                }
                return self.accounts.not_done(cost, now_us, &self.exempt);
            }
            Seen::Alone { .. }
            | Seen::Settles { .. }
            | Seen::Calls
            | Seen::ObserverPanicked
            | Seen::DroppedLocks
            | Seen::CountedDown
            | Seen::Ended { .. } => {}
        }
        Ok(())
    }

    /// The store has run a command of a limiter.
    pub(super) fn ran(&mut self, ran: &Ran<'_>) -> Result<(), Fault> {
        self.accounts.ran(ran, &self.exempt)
    }

    /// A store has changed a latch for a process.
    pub(super) fn changed_latch(
        &mut self,
        of: (Life, bool),
        command: &AnyCommand,
        now_us: u64,
    ) -> Result<(), Fault> {
        self.latches.made(of, command, now_us, (self.shaken_us, &self.exempt))
    }

    /// The store has run a command on a key of locks.
    pub(super) fn looks(
        &mut self,
        key: &str,
        store: &impl Oracle,
        now_us: u64,
    ) -> Result<(), Fault> {
        self.runtimes.looks(key, self.waits.has_half(), store, now_us);
        self.is_given_back(store, now_us)
    }

    /// Checks that what no job holds is given back.
    pub(super) fn is_given_back(&mut self, store: &impl Oracle, now_us: u64) -> Result<(), Fault> {
        self.runtimes.given_back(now_us, &self.replies, store, &self.exempt)
    }

    /// The future of a job was dropped, and its guard with it.
    pub(super) fn cancelled(&mut self, job: usize, now_us: u64) {
        self.runtimes.gives_up(job, None, None, now_us);
        self.holders.cancelled(job);
        self.waits.ends(job);
        self.values.cancelled(job);
        self.leaders.cancelled(job);
    }
}

/// A wait may be given up early only if the rest of it would not have helped.
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
