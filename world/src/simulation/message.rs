//! What clients and the store tell each other.

use std::time::Duration;

use lockage_core::fenced::{Access, FencedWrite};
use lockage_core::latch::{self, OperationId};
use lockage_core::lock::{self, HoldId, OwnerId};
use lockage_core::rw_lock::{self, MAX_READERS, Mode};
use lockage_core::semaphore::{self, PermitId};
use lockage_core::{RequestId, Timestamp};

use super::limiter::{self, LimiterAsk};
use super::scenario::Machine;
use super::server::{Operation, Outcome};

/// What it takes of a read-write lock to write: all that readers could take together.
pub(super) use lockage_oracle::shared::WRITE;
const _: () = assert!(WRITE == MAX_READERS as u64);

/// One attempt at a call.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) from: Attempt,
    /// The key that it is for.
    pub(super) key: usize,
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
    /// Which of all requests of a world that a history has.
    pub(super) copy: usize,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Claim(ClaimAsk),
    Limiter(LimiterAsk),
    Count(CountAsk),
    /// Asks who holds the lock.
    Inspect,
    /// Frees the lock by force, where the grant of this token is the live one.
    Break {
        token: u64,
    },
    /// Writes the value that the lock protects, for the holder of this token.
    Write {
        token: u64,
    },
}

/// For a lock, permits of a semaphore, or a side of a read-write lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaimAsk {
    pub(super) owner: OwnerId,
    /// Of what is held.
    pub(super) id: HoldId,
    /// How many permits, or [`WRITE`]; 1 of a lock.
    pub(super) weight: u64,
    pub(super) action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Where it is refused, the caller waits, in line or as a writer, and is back within `span_us`, if that is
    /// not zero.
    Acquire {
        not_after: Timestamp,
        span_us: u64,
    },
    Renew {
        token: u64,
    },
    Release {
        token: u64,
    },
    /// Gives up a place in line.
    Withdraw,
}

/// To a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountAsk {
    pub(super) id: OperationId,
    pub(super) count: u64,
    pub(super) is_set: bool,
}

/// What is answered.
#[expect(clippy::large_enum_variant, reason = "most are outcomes")]
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Done(Outcome),
    NoScript,
    /// There is no store to connect to.
    NotDone,
}

/// What a claim was told, whatever it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It is held so often now, which after a release may be not at all.
    Held { token: u64, holds: u64 },
    /// Others have it, for so long if none of them renews or gives back.
    Busy { free_in: Duration },
    /// It came too late, or there is nothing to renew or give back.
    Nothing,
}

impl Ask {
    /// What the store is asked for; nothing where the world has no such machine.
    /// The key beside its own that it works on.
    pub(super) fn beside(&self) -> Option<RequestId> {
        match self {
            Ask::Limiter(ask) => ask.beside(),
            _ => None,
        }
    }

    pub(super) fn operation(&self, machine: &Machine) -> Option<Operation> {
        Some(match (self, machine) {
            (Ask::Claim(claim), Machine::Lock { lock, poll_us }) => {
                let ClaimAsk { owner, id, .. } = *claim;
                Operation::Lock(match claim.action {
                    Action::Acquire { not_after, span_us } => {
                        let acquire = lock.acquire(owner, id, not_after);
                        // A waiter in line has a script of its own.
                        match span_us {
                            0 => acquire.waiting(Duration::from_micros(2 * poll_us)),
                            _ => acquire.queued(Duration::from_micros(span_us)),
                        }
                    }
                    Action::Renew { token } => lock.renew(owner, Some(token)),
                    Action::Release { .. } => lock.release(owner, id),
                    Action::Withdraw => return Some(Operation::Withdraw(lock.withdraw(owner))),
                })
            }
            (Ask::Inspect, Machine::Lock { lock, .. }) => Operation::Inspect(lock.inspect()),
            (Ask::Break { token }, Machine::Lock { lock, .. }) => {
                Operation::Lock(lock.force_release(*token))
            }
            (Ask::Claim(claim), Machine::Semaphore { semaphore, .. }) => {
                let id = PermitId::from_u128(claim.id.as_u128());
                Operation::Semaphore(match claim.action {
                    Action::Acquire { not_after, .. } => semaphore
                        .acquire(id, claim.weight, not_after)
                        .expect("scenarios ask for one permit or a few"),
                    Action::Renew { token } => semaphore.renew(id, Some(token)),
                    Action::Release { token } => semaphore.release(id, Some(token)),
                    Action::Withdraw => return None,
                })
            }
            (Ask::Claim(claim), Machine::RwLock { lock, .. }) => {
                let ClaimAsk { owner, id, .. } = *claim;
                let mode = if claim.weight == WRITE { Mode::Write } else { Mode::Read };
                Operation::RwLock(match (claim.action, mode) {
                    (Action::Acquire { not_after, .. }, Mode::Read) => {
                        lock.read(owner, id, not_after)
                    }
                    (Action::Acquire { not_after, span_us }, Mode::Write) => {
                        lock.write(owner, id, not_after).waiting(Duration::from_micros(span_us))
                    }
                    (Action::Renew { token }, _) => lock.renew(owner, mode, Some(token)),
                    (Action::Release { .. }, _) => lock.release(owner, mode, id),
                    (Action::Withdraw, _) => return None,
                })
            }
            (Ask::Limiter(ask), Machine::Limiter(it)) => ask.operation(it),
            (Ask::Write { token }, _) => {
                // The value outlives the world.
                let kept = Duration::from_secs(1_000_000);
                let write = FencedWrite::new(*token, "", kept);
                Operation::Write(write.expect("tokens are below 2^53"))
            }
            (Ask::Count(CountAsk { id, count, is_set }), Machine::Latch { latch }) => {
                let operation = match is_set {
                    true => latch.set(*count, *id),
                    false => latch.count_down(*count, *id),
                };
                Operation::Latch(operation.expect("scenarios count at least 1"))
            }
            _ => return None,
        })
    }

    /// As the client says it: see [`lockage_core::Command::is_repeatable`].
    pub(super) fn is_repeatable(&self) -> bool {
        match self {
            Ask::Claim(_) | Ask::Count(_) | Ask::Inspect | Ask::Break { .. } => true,
            Ask::Limiter(ask) => ask.is_repeatable(),
            Ask::Write { .. } => false,
        }
    }

    /// Whether it changes nothing.
    pub(super) fn only_asks(&self) -> bool {
        match self {
            Ask::Limiter(ask) => ask.only_asks(),
            Ask::Inspect => true,
            _ => false,
        }
    }

    /// Which of the scripts of a key it needs.
    pub(super) fn script(&self) -> u8 {
        match self {
            Ask::Claim(claim) => match claim.action {
                Action::Acquire { .. } => 0,
                Action::Renew { .. } => 1,
                Action::Release { .. } => 2,
                Action::Withdraw => 3,
            },
            Ask::Limiter(ask) => ask.script(),
            Ask::Write { .. } => 5,
            Ask::Count(CountAsk { is_set: true, .. }) => 6,
            Ask::Count(_) => 7,
            Ask::Inspect => 13,
            Ask::Break { .. } => 14,
        }
    }

    /// In words, for a timeline.
    pub(super) fn words(&self) -> String {
        match self {
            Ask::Claim(ClaimAsk { action, id, weight, owner }) => {
                let id = short(id.as_u128());
                let what = match *weight {
                    1 => String::new(),
                    WRITE => " to write".to_owned(),
                    count => format!(" of {count}"),
                };
                match action {
                    Action::Acquire { not_after: Timestamp::EPOCH, .. } => {
                        format!("acquire {id}{what}, if it was done before")
                    }
                    Action::Acquire { .. } => format!("acquire {id}{what}"),
                    Action::Renew { token } => format!("renew {id} (token {token})"),
                    Action::Release { token } => format!("release {id} (token {token})"),
                    Action::Withdraw => format!("leave the line ({})", short(owner.as_u128())),
                }
            }
            Ask::Limiter(ask) => ask.words(),
            Ask::Write { token } => format!("write (token {token})"),
            Ask::Inspect => "who holds it".to_owned(),
            Ask::Break { token } => format!("free it by force (token {token})"),
            Ask::Count(CountAsk { id, count, is_set: true }) => {
                format!("set {} to {count}", short(id.as_u128()))
            }
            Ask::Count(CountAsk { id, count, .. }) => {
                format!("count down {} by {count}", short(id.as_u128()))
            }
        }
    }
}

impl Answer {
    /// Whether it grants something to who asked for it.
    pub(super) fn is_grant_of(&self, ask: &Ask) -> bool {
        let is_acquire = matches!(ask, Ask::Claim(ClaimAsk { action: Action::Acquire { .. }, .. }));
        is_acquire && matches!(self.told(), Some((_, Told::Held { .. })))
    }

    /// Whether it answers several requests in one call.
    pub(super) fn is_list(&self) -> bool {
        matches!(self, Answer::Done(outcome) if matches!(outcome.inner(), Outcome::Decisions(_)))
    }

    /// The store's time and what a claim was told, if it is the answer to one.
    pub(super) fn told(&self) -> Option<(Timestamp, Told)> {
        let Answer::Done(outcome) = self else { return None };
        Some(match outcome {
            Outcome::Lock(reply) => {
                let until =
                    |time: Timestamp| Told::Busy { free_in: time.saturating_since(reply.now) };
                let told = match reply.answer {
                    lock::Answer::Held(hold) => Told::Held { token: hold.token, holds: hold.holds },
                    lock::Answer::Released { token, holds } => Told::Held { token, holds },
                    lock::Answer::Refused(Some(holder)) => until(holder.hold.deadline),
                    lock::Answer::Queued { until: time, .. } => until(time),
                    lock::Answer::Refused(None) | lock::Answer::TooLate => Told::Nothing,
                };
                (reply.now, told)
            }
            Outcome::Semaphore(reply) => {
                let told = match reply.answer {
                    semaphore::Answer::Held(grant) => Told::Held { token: grant.token, holds: 1 },
                    semaphore::Answer::Released { token } => Told::Held { token, holds: 0 },
                    semaphore::Answer::Full { fits_at } => {
                        Told::Busy { free_in: fits_at.saturating_since(reply.now) }
                    }
                    _ => Told::Nothing,
                };
                (reply.now, told)
            }
            Outcome::RwLock(reply) => {
                let told = match reply.answer {
                    rw_lock::Answer::Held(hold) => {
                        Told::Held { token: hold.token, holds: hold.holds }
                    }
                    rw_lock::Answer::Released { token, holds } => Told::Held { token, holds },
                    rw_lock::Answer::Refused { retry_at } => {
                        Told::Busy { free_in: retry_at.saturating_since(reply.now) }
                    }
                    _ => Told::Nothing,
                };
                (reply.now, told)
            }
            Outcome::Withdrawn(now) => (*now, Told::Nothing),
            _ => return None,
        })
    }

    /// In words, for a timeline.
    pub(super) fn words(&self) -> String {
        if let Some((_, told)) = self.told() {
            let extra = match self {
                Answer::Done(Outcome::Lock(lock::Reply {
                    answer: lock::Answer::Queued { ahead, .. },
                    ..
                })) => format!(", {ahead} are ahead"),
                _ => String::new(),
            };
            return match told {
                Told::Held { holds: 0, .. } => "done, it is given back".to_owned(),
                Told::Held { token, holds: 1 } => format!("done, token {token}"),
                Told::Held { token, holds } => format!("done, token {token}, held {holds} times"),
                Told::Busy { free_in } => {
                    format!("refused, for {} us at most{extra}", free_in.as_micros())
                }
                Told::Nothing => match self {
                    Answer::Done(Outcome::Withdrawn(_)) => "done".to_owned(),
                    Answer::Done(Outcome::RwLock(rw_lock::Reply {
                        answer: rw_lock::Answer::UpgradeRefused { .. },
                        ..
                    })) => "refused, others read as well".to_owned(),
                    _ => "refused: too late, or not held".to_owned(),
                },
            };
        }
        match self {
            Answer::Done(Outcome::Written(Access::Accepted(()))) => "written".to_owned(),
            Answer::Done(Outcome::Written(Access::Stale { .. })) => "refused, stale".to_owned(),
            Answer::Done(Outcome::Inspected(seen)) => match seen.holder {
                Some(holder) => format!("it is held, token {}", holder.hold.token),
                None => "it is free".to_owned(),
            },
            Answer::Done(Outcome::Latch(reply)) => match reply.answer {
                latch::Answer::Done { left } => format!("done, {left} left"),
                latch::Answer::Closed { left, .. } => format!("refused, {left} left"),
                latch::Answer::Open => "it is open".to_owned(),
            },
            Answer::Done(outcome) => limiter::words(outcome),
            Answer::NoScript => "no such script".to_owned(),
            Answer::NotDone => "no connection".to_owned(),
        }
    }
}

/// Enough of an id for people.
pub(super) fn short(id: u128) -> String {
    format!("{:04x}", id >> 112)
}
