//! What clients and the store tell each other.

use std::time::Duration;

use lockage_core::fenced::{Access, FencedWrite};
use lockage_core::lock::{self, Lock, Operation, OperationId, OwnerId, Reply};
use lockage_core::{Acquire, Decision, Limit, RequestId, Timestamp};

/// One attempt at a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) from: Attempt,
    pub(super) ask: Ask,
    /// Whether it brings its script along.
    pub(super) with_script: bool,
}

/// Names an attempt: of which client, in which of its lives, at which of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) client: usize,
    pub(super) life: u32,
    pub(super) call: u32,
    pub(super) number: u32,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Lock(LockAsk),
    Permit(PermitAsk),
    /// Writes the value that the lock protects, for the holder of this token.
    Write {
        token: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockAsk {
    pub(super) owner: OwnerId,
    pub(super) id: OperationId,
    pub(super) action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Acquire { not_after: Timestamp },
    Renew { token: u64 },
    Release { token: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PermitAsk {
    pub(super) cost: u64,
    pub(super) id: Option<RequestId>,
    pub(super) patience: Duration,
}

/// What is answered.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Lock(Reply),
    Permit(Decision),
    Written {
        is_accepted: bool,
    },
    NoScript,
    /// There is no store to connect to.
    NotDone,
}

impl LockAsk {
    pub(super) fn operation(&self, lock: &Lock) -> Operation {
        match self.action {
            Action::Acquire { not_after } => lock.acquire(self.owner, self.id, not_after),
            Action::Renew { token } => lock.renew(self.owner, Some(token), self.id),
            Action::Release { token } => lock.release(self.owner, Some(token), self.id),
        }
    }
}

impl PermitAsk {
    pub(super) fn acquire(&self, limit: &Limit, remember_us: u64) -> Acquire {
        let acquire = Acquire::new(*limit, self.cost).expect("costs are at least 1");
        let acquire = acquire.within(self.patience);
        match self.id {
            Some(id) => acquire
                .with_request(id, Duration::from_micros(remember_us))
                .expect("far from its bounds"),
            None => acquire,
        }
    }
}

/// A write under this token, of a value that outlives the world.
pub(super) fn write(token: u64) -> FencedWrite {
    FencedWrite::new(token, "", Duration::from_secs(1_000_000)).expect("tokens are below 2^53")
}

pub(super) fn written(access: &Access<()>) -> Answer {
    Answer::Written { is_accepted: matches!(access, Access::Accepted(())) }
}

impl Ask {
    /// As the client says it: see [`lockage_core::Command::is_repeatable`].
    pub(super) fn is_repeatable(&self) -> bool {
        match self {
            Ask::Lock(_) => true,
            Ask::Permit(permit) => permit.id.is_some(),
            Ask::Write { .. } => false,
        }
    }

    /// In words, for a timeline.
    pub(super) fn words(&self) -> String {
        match self {
            Ask::Lock(LockAsk { action: Action::Acquire { not_after }, id, .. }) => {
                match *not_after == Timestamp::EPOCH {
                    true => format!("acquire {}, if it was done before", short(id.as_u128())),
                    false => format!("acquire {}", short(id.as_u128())),
                }
            }
            Ask::Lock(LockAsk { action: Action::Renew { token }, id, .. }) => {
                format!("renew {} (token {token})", short(id.as_u128()))
            }
            Ask::Lock(LockAsk { action: Action::Release { token }, id, .. }) => {
                format!("release {} (token {token})", short(id.as_u128()))
            }
            Ask::Permit(PermitAsk { cost, id: Some(id), .. }) => {
                format!("permit {} of cost {cost}", short(id.as_u128()))
            }
            Ask::Permit(PermitAsk { cost, id: None, .. }) => format!("permit of cost {cost}"),
            Ask::Write { token } => format!("write (token {token})"),
        }
    }
}

impl Answer {
    /// Whether it grants the lock to who asked.
    pub(super) fn is_grant_of(&self, ask: &Ask) -> bool {
        let Answer::Lock(Reply { answer: lock::Answer::Done(_), .. }) = self else { return false };
        matches!(ask, Ask::Lock(LockAsk { action: Action::Acquire { .. }, .. }))
    }

    /// In words, for a timeline.
    pub(super) fn words(&self) -> String {
        use lock::Answer::{Done, Queued, Refused, TooLate};
        match self {
            Answer::Lock(reply) => match reply.answer {
                Done(hold) if hold.holds == 0 => "done, it is free".to_owned(),
                Done(hold) => format!(
                    "done, token {}, held {} times, for {} us",
                    hold.token,
                    hold.holds,
                    hold.deadline.saturating_since(reply.now).as_micros()
                ),
                Refused(None) => "refused, nobody holds it".to_owned(),
                Refused(Some(holder)) => format!(
                    "refused, token {} holds it for {} us",
                    holder.hold.token,
                    holder.hold.deadline.saturating_since(reply.now).as_micros()
                ),
                TooLate => "refused, too late".to_owned(),
                Queued { ahead, .. } => format!("refused, {ahead} are ahead"),
            },
            Answer::Permit(decision) => {
                format!("{:?}, {} left", decision.verdict, decision.remaining)
            }
            Answer::Written { is_accepted: true } => "written".to_owned(),
            Answer::Written { is_accepted: false } => "refused, stale".to_owned(),
            Answer::NoScript => "no such script".to_owned(),
            Answer::NotDone => "no connection".to_owned(),
        }
    }
}

/// Enough of an id for people.
fn short(id: u128) -> String {
    format!("{:04x}", id >> 112)
}
