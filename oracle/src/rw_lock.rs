//! The read-write lock's operations, an independent reference, traces, and the properties L1 to L5, L9, L10 and L12.

mod judged;
mod traces;

use std::collections::BTreeMap;
use std::time::Duration;

use lockage_core::RecordError;
use lockage_core::rw_lock::{Answer, Hold, HoldId, Mode, OwnerId, RwLock};

use crate::key::{Key, MAX_TIME_US, bound, time};
use crate::play;
use crate::property::Property;
use crate::shared::{MOST_HOLDS, REMEMBERED};

pub use traces::{any_trace, ask, forward, of_one};

/// The laws that traces are checked for.
pub const LAWS: [Property; 9] = {
    use Property::{D9, L1, L2, L3, L4, L5, L9, L10, L12};
    [L1, L2, L3, L4, L5, D9, L9, L10, L12]
};

/// An owner and its side.
type Who = (u128, Mode);

/// One operation on one lock.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    who: Who,
    action: Action,
}

/// An operation of a lock; times are in microseconds.
#[derive(Clone, Copy, Debug)]
enum Action {
    Acquire { hold: u128, lease_us: u64, not_after_us: u64, waits_us: u64 },
    Renew { token: Option<u64>, lease_us: u64 },
    Release { hold: u128, remember_us: u64 },
    Inspect,
}

/// An operation in a trace.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// Unchanged.
    Plain(Op),
    /// By the owner of the latest live hold, in the other mode: an upgrade, or a downgrade.
    OtherMode(Op),
    /// A renewal with the token of the latest grant, plus this number.
    Token(Op, i64),
    /// An acquire with `not_after` this many microseconds from now.
    Within(Op, i64),
    /// An earlier acquire, by its distance back, with a `not_after` this many microseconds later.
    Again(usize, u64),
    /// A release of one of the live holds, if there is one.
    ReleaseHeld(usize, u64),
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The grant.
    Held(Grant),
    /// The token, the number of holds then, and whether the waiters were notified.
    Released(u64, u64, bool),
    /// Until when others stand in the way.
    Refused(u64),
    /// Until when other readers prevent an upgrade.
    UpgradeRefused(u64),
    /// Until when there are too many.
    TooMany(u64),
    /// It came after its `not_after`, or may be a copy of one that is forgotten, which may arrive until then.
    TooLate(u64),
    /// It is not held.
    NotHeld,
    /// Until when readers are kept out, and the grants.
    Seen(u64, Vec<(Who, Grant)>),
    /// The id was used before.
    Reused,
    /// Any other error.
    Failed(String),
}

/// A grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    token: u64,
    holds: u64,
    deadline_us: u64,
}

/// One lock, as simple as possible.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// The token and the deadline of each grant.
    grants: BTreeMap<Who, (u64, u64)>,
    /// Until when copies of the acquires of these grants may arrive.
    bounds: BTreeMap<Who, u64>,
    /// The holds of these grants, in the order in which they were acquired.
    holds: Vec<(u128, Who)>,
    /// Each released hold, its outcome, until when it is remembered, and until when copies of its acquire may arrive.
    released: Vec<(u128, Who, Outcome, u64, u64)>,
    /// Until when copies of acquires may arrive of which the record does not know any more.
    forgotten: Vec<u64>,
    /// The acquires that were sent, and their `not_after`.
    sent: Vec<(Op, u64)>,
    kept_until_us: u64,
    /// Until when a caller waits.
    wake_us: u64,
    token: u64,
}

impl Reference {
    fn is_live(&self, who: Who, at_us: u64) -> bool {
        self.grants.get(&who).is_some_and(|(_, deadline_us)| at_us < *deadline_us)
    }

    fn grant(&self, who: Who, now_us: u64) -> Option<Grant> {
        let (token, deadline_us) = *self.grants.get(&who).filter(|_| self.is_live(who, now_us))?;
        let holds = self.holds.iter().filter(|(_, of)| *of == who).count() as u64;
        Some(Grant { token, holds, deadline_us })
    }

    /// Returns whether others prevent a fresh grant at a time.
    fn is_blocked(&self, (owner, mode): Who, at_us: u64) -> bool {
        let others_live = |mode: Mode| {
            let others =
                self.grants.keys().filter(|(of, as_mode)| *of != owner && *as_mode == mode);
            others.clone().any(|who| self.is_live(*who, at_us))
        };
        match mode {
            Mode::Write => others_live(Mode::Read) || others_live(Mode::Write),
            Mode::Read => {
                let writes = self.is_live((owner, Mode::Write), at_us);
                others_live(Mode::Write) || !writes && at_us < self.kept_until_us
            }
        }
    }

    /// Returns until when copies of acquires may arrive that do not count at a time, or do not any more.
    fn gone(&self, now_us: u64) -> impl Iterator<Item = u64> {
        let grants = self.bounds.iter().filter(move |(who, _)| !self.is_live(**who, now_us));
        let released = self.released.iter().filter(move |(_, _, _, until, _)| now_us >= *until);
        let ended = grants.map(|(_, bound_us)| bound_us);
        let gone = ended.chain(released.map(|(_, _, _, _, bound_us)| bound_us));
        gone.chain(&self.forgotten).copied().filter(move |bound_us| now_us <= *bound_us)
    }

    /// Drops ended grants and releases, as each write does.
    fn write(&mut self, now_us: u64) {
        self.forgotten = self.gone(now_us).collect();
        self.grants.retain(|_, (_, deadline_us)| now_us < *deadline_us);
        let grants = &self.grants;
        self.holds.retain(|(_, who)| grants.contains_key(who));
        self.bounds.retain(|who, _| grants.contains_key(who));
        self.released.retain(|(_, _, _, until, _)| now_us < *until);
        let more = self.released.len().saturating_sub(REMEMBERED);
        let dropped = self.released.drain(..more).map(|(_, _, _, _, bound_us)| bound_us);
        self.forgotten.extend(dropped.filter(|bound_us| now_us <= *bound_us));
        if self.kept_until_us <= now_us {
            self.kept_until_us = 0;
        }
    }

    fn acquire(
        &mut self,
        who: Who,
        (hold, bound_us): (u128, u64),
        lease_us: u64,
        waits_us: u64,
        now_us: u64,
    ) -> Outcome {
        let mut deadline_us = now_us + lease_us;
        if let Some(grant) = self.grant(who, now_us) {
            if grant.holds == MOST_HOLDS {
                return Outcome::TooMany(grant.deadline_us);
            }
            deadline_us = deadline_us.max(grant.deadline_us);
            self.grants.insert(who, (grant.token, deadline_us));
        } else if self.is_blocked(who, now_us) {
            let free = |end_us: &u64| *end_us > now_us && !self.is_blocked(who, *end_us);
            let deadlines = self.grants.values().map(|(_, deadline_us)| *deadline_us);
            let ends = deadlines.chain([self.kept_until_us]);
            let retry_us = ends.filter(free).min().expect("all ends some time");
            let until_us = now_us + waits_us;
            let (writes, upgrades) =
                (who.1 == Mode::Write, self.is_live((who.0, Mode::Read), now_us));
            if waits_us > 0 && self.wake_us < now_us + waits_us.div_ceil(2) {
                self.wake_us = until_us;
                self.write(now_us);
            }
            if waits_us > 0 && writes && !upgrades && self.kept_until_us < until_us {
                self.kept_until_us = until_us;
                self.write(now_us);
            }
            return match writes && upgrades {
                true => Outcome::UpgradeRefused(retry_us),
                false => Outcome::Refused(retry_us),
            };
        } else {
            self.write(now_us);
            self.token = (self.token + 1).max(now_us);
            self.grants.insert(who, (self.token, deadline_us));
            if who.1 == Mode::Write {
                self.kept_until_us = 0;
            }
        }
        self.holds.push((hold, who));
        let latest_us = self.bounds.entry(who).or_default();
        *latest_us = bound_us.max(*latest_us);
        self.write(now_us);
        Outcome::Held(self.grant(who, now_us).expect("it was just made"))
    }

    /// Returns the outcome for a hold whose id is known, unless its grant is dead.
    fn known(&mut self, who: Who, hold: u128, bound_us: u64, now_us: u64) -> Option<Outcome> {
        let live = self.holds.iter().find(|(id, of)| *id == hold && self.is_live(*of, now_us));
        if let Some((_, of)) = live {
            let grant = self.grant(who, now_us).filter(|_| *of == who);
            if grant.is_some() && self.bounds[&who] < bound_us {
                self.bounds.insert(who, bound_us);
                self.write(now_us);
            }
            return Some(grant.map_or(Outcome::Reused, Outcome::Held));
        }
        let mut known =
            self.released.iter().filter(|(id, _, _, until, _)| *id == hold && now_us < *until);
        known.next().map(|_| Outcome::Reused)
    }

    fn release(&mut self, who: Who, hold: u128, remember_us: u64, now_us: u64) -> Outcome {
        let at = self.holds.iter().position(|known| *known == (hold, who));
        if let (Some(at), Some(grant)) = (at, self.grant(who, now_us)) {
            self.holds.remove(at);
            let bound_us = self.bounds[&who];
            if grant.holds == 1 {
                self.grants.remove(&who);
                self.bounds.remove(&who);
            }
            let again = Outcome::Released(grant.token, grant.holds - 1, false);
            self.released.push((hold, who, again, now_us + remember_us, bound_us));
            self.write(now_us);
            let woke = grant.holds == 1 && now_us < self.wake_us;
            return Outcome::Released(grant.token, grant.holds - 1, woke);
        }
        let mut known = self
            .released
            .iter()
            .filter(|(id, of, _, until, _)| (*id, *of) == (hold, who) && now_us < *until);
        known.next().map_or(Outcome::NotHeld, |(_, _, told, _, _)| told.clone())
    }
}

impl play::Reference for Reference {
    type Ask = Ask;
    type Op = Op;
    type Outcome = Outcome;

    fn op(&self, ask: &Ask, now_us: u64) -> Op {
        match *ask {
            Ask::Plain(op) => op,
            Ask::OtherMode(op) => {
                let live = self.holds.iter().rev().find(|(_, who)| self.is_live(*who, now_us));
                let who = live.map_or(op.who, |(_, who)| match who {
                    (owner, Mode::Read) => (*owner, Mode::Write),
                    (owner, Mode::Write) => (*owner, Mode::Read),
                });
                Op { who, ..op }
            }
            Ask::Token(op, more) => match op.action {
                Action::Renew { lease_us, .. } => {
                    let latest = self.grants.get(&op.who).map_or(self.token, |(token, _)| *token);
                    let token = Some(latest.saturating_add_signed(more));
                    Op { action: Action::Renew { token, lease_us }, ..op }
                }
                _ => op,
            },
            Ask::Within(op, us) => match op.action {
                Action::Acquire { hold, lease_us, waits_us, .. } => {
                    let not_after_us = now_us.saturating_add_signed(us).min(MAX_TIME_US);
                    let action = Action::Acquire { hold, lease_us, not_after_us, waits_us };
                    Op { action, ..op }
                }
                _ => op,
            },
            Ask::Again(back, by_us) => {
                let again = play::again(&self.sent, back, by_us, |op, us| {
                    if let Action::Acquire { not_after_us, .. } = &mut op.action {
                        *not_after_us = us;
                    }
                });
                again.unwrap_or(Op { who: (0, Mode::Read), action: Action::Inspect })
            }
            Ask::ReleaseHeld(which, remember_us) => {
                let live = self.holds.iter().filter(|(_, who)| self.is_live(*who, now_us));
                let live: Vec<_> = live.collect();
                match live.get(which % live.len().max(1)) {
                    Some(&&(hold, who)) => {
                        Op { who, action: Action::Release { hold, remember_us } }
                    }
                    None => Op { who: (0, Mode::Read), action: Action::Inspect },
                }
            }
        }
    }

    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        match op.action {
            Action::Acquire { hold, lease_us, not_after_us, waits_us } => {
                self.sent.push((*op, not_after_us));
                let bound_us = bound(not_after_us);
                if let Some(told) = self.known(op.who, hold, bound_us, now_us) {
                    return told;
                }
                let forgotten_us = self.gone(now_us).max().unwrap_or(0);
                if now_us > not_after_us || not_after_us <= forgotten_us {
                    return Outcome::TooLate(forgotten_us);
                }
                self.acquire(op.who, (hold, bound_us), lease_us, waits_us, now_us)
            }
            Action::Renew { token, lease_us } => {
                let grant = self.grant(op.who, now_us);
                let is_it = |grant: &Grant| token.is_none_or(|token| token == grant.token);
                let Some(mut grant) = grant.filter(is_it) else { return Outcome::NotHeld };
                if now_us + lease_us > grant.deadline_us {
                    grant.deadline_us = now_us + lease_us;
                    self.grants.insert(op.who, (grant.token, grant.deadline_us));
                    self.write(now_us);
                }
                Outcome::Held(grant)
            }
            Action::Release { hold, remember_us } => {
                self.release(op.who, hold, remember_us, now_us)
            }
            Action::Inspect => {
                let live =
                    self.grants.keys().filter_map(|who| Some((*who, self.grant(*who, now_us)?)));
                let mut live: Vec<(Who, Grant)> = live.collect();
                live.sort_by_key(|(_, grant)| grant.token);
                let kept = if now_us < self.kept_until_us { self.kept_until_us } else { 0 };
                Outcome::Seen(kept, live)
            }
        }
    }

    fn run_on(op: &Op, key: &mut impl Key, now_us: u64) -> Outcome {
        let micros = Duration::from_micros;
        let lock = |lease_us, remember_us| {
            RwLock::new(micros(lease_us), micros(remember_us)).expect("in range")
        };
        let (owner, mode) = (OwnerId::from_u128(op.who.0), op.who.1);
        let operation = match op.action {
            Action::Acquire { hold, lease_us, not_after_us, waits_us } => {
                let (hold, not_after) = (HoldId::from_u128(hold), time(not_after_us));
                let acquire = match mode {
                    Mode::Read => lock(lease_us, 1).read(owner, hold, not_after),
                    Mode::Write => lock(lease_us, 1).write(owner, hold, not_after),
                };
                acquire.waiting(micros(waits_us))
            }
            Action::Renew { token, lease_us } => lock(lease_us, 1).renew(owner, mode, token),
            Action::Release { hold, remember_us } => {
                lock(1, remember_us).release(owner, mode, HoldId::from_u128(hold))
            }
            Action::Inspect => {
                return match key.execute(&lock(1, 1).inspect(), time(now_us)) {
                    Ok(seen) => {
                        assert_eq!(seen.now, time(now_us));
                        let kept = seen.kept_until.map_or(0, |until| until.as_micros());
                        let holders = seen.holders.iter().map(|holder| {
                            ((holder.owner.as_u128(), holder.hold.mode), grant(holder.hold))
                        });
                        Outcome::Seen(kept, holders.collect())
                    }
                    Err(error) => Outcome::Failed(error),
                };
            }
        };
        match key.execute(&operation, time(now_us)) {
            Ok(reply) => {
                assert_eq!(reply.now, time(now_us), "a reply says at which time it was made");
                match reply.answer {
                    Answer::Held(hold) => {
                        assert_eq!(hold.mode, mode);
                        Outcome::Held(grant(hold))
                    }
                    Answer::Released { token, holds } => {
                        Outcome::Released(token, holds, reply.woke)
                    }
                    Answer::Refused { retry_at } => Outcome::Refused(retry_at.as_micros()),
                    Answer::UpgradeRefused { retry_at } => {
                        Outcome::UpgradeRefused(retry_at.as_micros())
                    }
                    Answer::TooMany { retry_at } => Outcome::TooMany(retry_at.as_micros()),
                    Answer::TooLate { forgotten } => Outcome::TooLate(forgotten.as_micros()),
                    Answer::NotHeld => Outcome::NotHeld,
                }
            }
            Err(error) if error == RecordError::OperationReused.to_string() => Outcome::Reused,
            Err(error) => Outcome::Failed(error),
        }
    }

    fn ends_us(&self) -> Vec<u64> {
        let leases = self.grants.values().map(|(_, deadline_us)| *deadline_us);
        let memory = self.released.iter().map(|(_, _, _, until, _)| *until);
        let bounds = self.bounds.values().map(|bound_us| bound_us + 1);
        let others = [self.kept_until_us, self.wake_us, self.token + 1];
        leases.chain(memory).chain(bounds).chain(others).collect()
    }
}

fn grant(hold: Hold) -> Grant {
    Grant { token: hold.token, holds: hold.holds, deadline_us: hold.deadline.as_micros() }
}
