//! The steps of a trace, and their results.

use std::fmt;

/// One step of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time passes, in microseconds.
    Wait(u64),
    /// A client, by its letter, does a deed.
    By(char, Deed),
}

/// An action of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Asks a limiter for this cost.
    Acquire(u64),
    /// Asks for 1, this many times in a row.
    AcquireTimes(u64),
    /// Asks for a cost in these characters.
    AcquireText(&'static str),
    /// Asks for 1, and crashes after its first command.
    AcquireAndCrash,
    /// Asks whether this cost would be admitted.
    Peek(u64),
    /// Gives this cost back.
    GiveBack(u64),
    /// Repeats its latest request, whose answer was lost.
    Repeat,
    /// Does the first half of a request for 1, the read, if that is a command of its own.
    Read,
    /// Does the other half of the request.
    Write,
    /// Asks for the lock, with a lease in microseconds.
    Lock(u64),
    /// Asks for the lock, with a lease in microseconds, and waits in line.
    LineUp(u64),
    /// Renews its lease, for this many microseconds.
    Renew(u64),
    /// Releases the lock, or one hold of it.
    Unlock,
    /// Deletes all that is stored of the lock.
    Delete,
    /// Fills the store's memory, so that it evicts a key of the limiter.
    Evict,
    /// Sends a request for the lock, which is then under way.
    Send,
    /// The request that it sent reaches the store.
    Arrive,
    /// The client gets the answer.
    Hear,
    /// It stops waiting, and gives back any grant that it may have got.
    GiveUp,
}

/// A step and its time, in microseconds from the beginning.
pub(super) type Timed = (u64, Step);

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// No client learned anything.
    Nothing,
    /// A request was admitted, or would be.
    Admitted {
        /// The remaining permits at most, if reported.
        remaining: Option<u64>,
    },
    /// This many of several requests were admitted.
    AdmittedOf(u64),
    /// A request was denied, or would be.
    Denied {
        /// The time until a retry, in microseconds from now, if reported.
        retry_after_us: Option<u64>,
    },
    /// This cost was given back.
    GivenBack(u64),
    /// The lock is held.
    Held(Hold),
    /// A hold was released, and this many are left.
    Released(u64),
    /// Another owner has the lock, or none has.
    Refused,
    /// An error instead of an answer.
    Failed(String),
}

/// The view of a held lock. Unreported fields are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// The fencing token.
    pub token: Option<u64>,
    /// The number of holds.
    pub holds: Option<u64>,
    /// The end of the lease by the store's clock, in microseconds from the beginning.
    pub until_us: Option<u64>,
}

/// A step, its time, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time, in microseconds from the beginning.
    pub at_us: u64,
    /// The step.
    pub step: Step,
    /// The result of the step.
    pub seen: Seen,
}

impl Event {
    pub(super) fn timed(&self) -> Timed {
        (self.at_us, self.step)
    }

    /// Returns the cost that it asked a limiter for, if it did.
    pub(super) fn cost(&self) -> Option<u64> {
        match self.step {
            Step::By(_, Deed::Acquire(cost)) => Some(cost),
            Step::By(_, Deed::Write) => Some(1),
            _ => None,
        }
    }

    /// Returns whether time passed, and nothing else.
    pub fn is_wait(&self) -> bool {
        matches!(self.step, Step::Wait(_))
    }

    pub(super) fn is_admitted(&self) -> bool {
        matches!(self.seen, Seen::Admitted { .. })
    }

    pub(super) fn is_denied(&self) -> bool {
        matches!(self.seen, Seen::Denied { .. })
    }
}

/// Returns the steps with their times: a step that follows a deed does so `gap_us` later.
pub(super) fn timed(steps: &[Step], gap_us: u64) -> Vec<Timed> {
    let mut at = 0;
    let with_time = |&step: &Step| {
        let now = at;
        at += if let Step::Wait(span) = step { span } else { gap_us };
        (now, step)
    };
    steps.iter().map(with_time).collect()
}

/// Returns a span in seconds, without trailing zeros.
pub(super) fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Wait(span) => write!(f, "{} go by", seconds(*span)),
            Step::By(who, deed) => write!(f, "{who} {deed}"),
        }
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deed::Acquire(cost) => write!(f, "asks for {cost}"),
            Deed::AcquireTimes(times) => write!(f, "asks for 1, {times} times"),
            Deed::AcquireText(cost) => write!(f, "asks for {cost:?}"),
            Deed::AcquireAndCrash => write!(f, "asks for 1 and crashes after its first command"),
            Deed::Peek(cost) => write!(f, "asks whether there are {cost}"),
            Deed::GiveBack(cost) => write!(f, "gives {cost} back"),
            Deed::Repeat => write!(f, "had no answer, and sends the same again"),
            Deed::Read => write!(f, "asks for 1: its first command"),
            Deed::Write => write!(f, "goes on: its last command"),
            Deed::Lock(lease) => write!(f, "takes the lock for {}", seconds(*lease)),
            Deed::LineUp(_) => write!(f, "asks for the lock and waits in line"),
            Deed::Renew(lease) => write!(f, "renews for {}", seconds(*lease)),
            Deed::Unlock => write!(f, "unlocks"),
            Deed::Delete => write!(f, "deletes the lock's keys"),
            Deed::Evict => write!(f, "fills the memory: a key is evicted"),
            Deed::Send => write!(f, "sends: take the lock"),
            Deed::Arrive => write!(f, "is served: the request arrives"),
            Deed::Hear => write!(f, "hears the answer"),
            Deed::GiveUp => write!(f, "waits no longer, and unlocks"),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Nothing => Ok(()),
            Seen::Admitted { remaining: None } => write!(f, "admitted"),
            Seen::Admitted { remaining: Some(left) } => write!(f, "admitted, {left} left"),
            Seen::AdmittedOf(times) => write!(f, "{times} admitted"),
            Seen::Denied { retry_after_us: None } => write!(f, "denied"),
            Seen::Denied { retry_after_us: Some(us) } => write!(f, "denied for {}", seconds(*us)),
            Seen::GivenBack(cost) => write!(f, "{cost} given back"),
            Seen::Held(hold) => hold.fmt(f),
            Seen::Released(0) => write!(f, "free"),
            Seen::Released(left) => write!(f, "given back, {left} left"),
            Seen::Refused => write!(f, "refused"),
            Seen::Failed(error) => write!(f, "error: {error}"),
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "held")?;
        if let Some(holds) = self.holds.filter(|holds| *holds > 1) {
            write!(f, " {holds} times")?;
        }
        if let Some(token) = self.token {
            write!(f, ", token {token}")?;
        }
        if let Some(until) = self.until_us {
            write!(f, ", until {}", seconds(until))?;
        }
        Ok(())
    }
}
