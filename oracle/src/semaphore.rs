//! The semaphore's operations, an independent reference, traces, and the properties L1 to L5, L10 and L12.

use std::collections::BTreeMap;
use std::time::Duration;

use lockage_core::RecordError;
use lockage_core::semaphore::{Answer, Grant, PermitId, Semaphore};
use proptest::prelude::*;

use crate::judged::Seen;
use crate::key::{Key, MAX_TIME_US, bound, time};
use crate::play;
use crate::property::{Property, Violation};
use crate::shared::{self, Granted, Laws, REMEMBERED, Terms};

/// The laws that traces are checked for.
pub const LAWS: [Property; 8] = {
    use Property::{D9, L1, L2, L3, L4, L5, L10, L12};
    [L1, L2, L3, L4, L5, D9, L10, L12]
};

/// One operation on one semaphore.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    id: u128,
    action: Action,
}

/// An operation of a semaphore; times are in microseconds.
#[derive(Clone, Copy, Debug)]
enum Action {
    Acquire { count: u64, permits: u64, lease_us: u64, not_after_us: u64, waits_us: u64 },
    Renew { token: Option<u64>, lease_us: u64 },
    Release { token: Option<u64>, remember_us: u64 },
    Inspect,
}

/// An operation in a trace.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// Unchanged.
    Plain(Op),
    /// With the token of the latest grant of this id, plus this number.
    Token(Op, i64),
    /// An acquire with `not_after` this many microseconds from now.
    Within(Op, i64),
    /// An earlier acquire, by its distance back, with a `not_after` this many microseconds later.
    Again(usize, u64),
    /// A release of one of the latest grants, if there is one, which is remembered for this many microseconds.
    ReleaseHeld(usize, u64),
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The grant.
    Held(Lease),
    /// The token of the released grant, and whether the waiters were notified.
    Released(u64, bool),
    /// When it fits, in microseconds.
    Full(u64),
    /// It exceeds the number of permits.
    Never,
    /// It came after its `not_after`, or may be a copy of one that is forgotten, which may arrive until then.
    TooLate(u64),
    /// It is not held.
    NotHeld,
    /// The permits in use, and the live grants, the first to end first.
    Seen(u64, Vec<(u128, Lease)>),
    /// The id was used before.
    Reused,
    /// Any other error.
    Failed(String),
}

/// A grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    count: u64,
    token: u64,
    deadline_us: u64,
}

/// One semaphore, as simple as possible.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// By their tokens, which have their order.
    grants: BTreeMap<u64, (u128, Lease)>,
    /// The id, its token, and until when it is remembered.
    released: Vec<(u128, u64, u64)>,
    /// Until when copies of the acquires of each token may arrive, in microseconds.
    bounds: BTreeMap<u64, u64>,
    /// The acquires that were sent, and their `not_after`.
    sent: Vec<(Op, u64)>,
    token: u64,
    /// Until when a caller waits.
    wake_us: u64,
    /// The latest token of each id.
    tokens: BTreeMap<u128, u64>,
}

impl Reference {
    /// Returns the permits in use at a time.
    fn used(&self, at_us: u64) -> u64 {
        let live = self.grants.values().filter(|(_, lease)| at_us < lease.deadline_us);
        live.map(|(_, lease)| lease.count).sum()
    }

    fn find(&self, id: u128, token: Option<u64>, now_us: u64) -> Option<Lease> {
        let is_it = |(of, lease): &&(u128, Lease)| {
            *of == id
                && token.is_none_or(|token| token == lease.token)
                && now_us < lease.deadline_us
        };
        self.grants.values().find(is_it).map(|(_, lease)| *lease)
    }

    fn remembered(&self, id: u128, token: Option<u64>, now_us: u64) -> Option<u64> {
        let is_it = |(of, was, until): &&(u128, u64, u64)| {
            *of == id && token.is_none_or(|token| token == *was) && now_us < *until
        };
        self.released.iter().find(is_it).map(|(_, token, _)| *token)
    }

    /// Returns whether the record still has the grant of a token, live or released.
    fn is_known(&self, token: u64, now_us: u64) -> bool {
        let is_live = |(_, lease): &(u128, Lease)| now_us < lease.deadline_us;
        let mut released = self.released.iter();
        self.grants.get(&token).is_some_and(is_live)
            || released.any(|(_, was, until_us)| *was == token && now_us < *until_us)
    }

    /// Returns until when copies of acquires may arrive that are no longer known.
    fn forgotten_us(&self, now_us: u64) -> u64 {
        let forgotten = self.bounds.iter().filter(|(token, _)| !self.is_known(**token, now_us));
        let in_time = forgotten.map(|(_, bound_us)| *bound_us).filter(|it| now_us <= *it);
        in_time.max().unwrap_or(0)
    }

    /// Drops ended grants and releases, as each write does, and bounds that have passed.
    fn write(&mut self, now_us: u64) {
        self.grants.retain(|_, (_, lease)| now_us < lease.deadline_us);
        self.released.retain(|(_, _, until)| now_us < *until);
        let more = self.released.len().saturating_sub(REMEMBERED);
        self.released.drain(..more);
        let mut bounds = std::mem::take(&mut self.bounds);
        bounds.retain(|token, bound_us| now_us <= *bound_us || self.is_known(*token, now_us));
        self.bounds = bounds;
    }

    fn acquire(&mut self, id: u128, asked: [u64; 5], now_us: u64) -> Outcome {
        let [count, permits, lease_us, not_after_us, waits_us] = asked;
        match self.find(id, None, now_us) {
            Some(lease) if lease.count == count => {
                let known_us = self.bounds.get_mut(&lease.token).expect("each grant has one");
                if *known_us < bound(not_after_us) {
                    *known_us = bound(not_after_us);
                    self.write(now_us);
                }
                return Outcome::Held(lease);
            }
            Some(_) => return Outcome::Reused,
            None if self.remembered(id, None, now_us).is_some() => return Outcome::Reused,
            None => {}
        }
        let forgotten_us = self.forgotten_us(now_us);
        if now_us > not_after_us || not_after_us <= forgotten_us {
            return Outcome::TooLate(forgotten_us);
        }
        if count > permits {
            return Outcome::Never;
        }
        let fits = |at_us: u64| self.used(at_us) + count <= permits;
        if !fits(now_us) {
            let ends = self.grants.values().map(|(_, lease)| lease.deadline_us);
            let first = ends.filter(|end_us| *end_us > now_us && fits(*end_us)).min();
            if waits_us > 0 && self.wake_us < now_us + waits_us.div_ceil(2) {
                self.wake_us = now_us + waits_us;
                self.write(now_us);
            }
            return Outcome::Full(first.expect("all are over some time"));
        }
        self.token = (self.token + 1).max(now_us);
        let lease = Lease { count, token: self.token, deadline_us: now_us + lease_us };
        self.grants.insert(self.token, (id, lease));
        self.tokens.insert(id, self.token);
        self.bounds.insert(self.token, bound(not_after_us));
        self.write(now_us);
        Outcome::Held(lease)
    }
}

impl play::Reference for Reference {
    type Ask = Ask;
    type Op = Op;
    type Outcome = Outcome;

    fn op(&self, ask: &Ask, now_us: u64) -> Op {
        match *ask {
            Ask::Plain(op) => op,
            Ask::Token(op, more) => {
                let latest = self.tokens.get(&op.id).copied().unwrap_or(self.token);
                let token = Some(latest.saturating_add_signed(more));
                let action = match op.action {
                    Action::Renew { lease_us, .. } => Action::Renew { token, lease_us },
                    Action::Release { remember_us, .. } => Action::Release { token, remember_us },
                    other => other,
                };
                Op { action, ..op }
            }
            Ask::Within(op, us) => {
                let mut op = op;
                if let Action::Acquire { not_after_us, .. } = &mut op.action {
                    *not_after_us = now_us.saturating_add_signed(us).min(MAX_TIME_US);
                }
                op
            }
            Ask::Again(back, by_us) => {
                let again = play::again(&self.sent, back, by_us, |op, us| {
                    if let Action::Acquire { not_after_us, .. } = &mut op.action {
                        *not_after_us = us;
                    }
                });
                again.unwrap_or(Op { id: 0, action: Action::Inspect })
            }
            Ask::ReleaseHeld(back, remember_us) => match self.grants.values().rev().nth(back) {
                Some((id, _)) => {
                    Op { id: *id, action: Action::Release { token: None, remember_us } }
                }
                None => Op { id: 0, action: Action::Inspect },
            },
        }
    }

    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        match op.action {
            Action::Acquire { count, permits, lease_us, not_after_us, waits_us } => {
                self.sent.push((*op, not_after_us));
                self.acquire(op.id, [count, permits, lease_us, not_after_us, waits_us], now_us)
            }
            Action::Renew { token, lease_us } => {
                let Some(mut lease) = self.find(op.id, token, now_us) else {
                    return Outcome::NotHeld;
                };
                if now_us + lease_us > lease.deadline_us {
                    lease.deadline_us = now_us + lease_us;
                    self.grants.insert(lease.token, (op.id, lease));
                    self.write(now_us);
                }
                Outcome::Held(lease)
            }
            Action::Release { token, remember_us } => {
                if let Some(lease) = self.find(op.id, token, now_us) {
                    self.grants.remove(&lease.token);
                    self.released.push((op.id, lease.token, now_us + remember_us));
                    self.write(now_us);
                    return Outcome::Released(lease.token, now_us < self.wake_us);
                }
                let before = self.remembered(op.id, token, now_us);
                before.map_or(Outcome::NotHeld, |token| Outcome::Released(token, false))
            }
            Action::Inspect => {
                let live = self.grants.values().filter(|(_, lease)| now_us < lease.deadline_us);
                let mut live: Vec<_> = live.copied().collect();
                live.sort_by_key(|(_, lease)| (lease.deadline_us, lease.token));
                Outcome::Seen(self.used(now_us), live)
            }
        }
    }

    fn run_on(op: &Op, key: &mut impl Key, now_us: u64) -> Outcome {
        let (id, micros) = (PermitId::from_u128(op.id), Duration::from_micros);
        let semaphore = |permits, lease_us, remember_us| {
            Semaphore::new(permits, micros(lease_us), micros(remember_us)).expect("in range")
        };
        let operation = match op.action {
            Action::Acquire { count, permits, lease_us, not_after_us, waits_us } => {
                let acquire =
                    semaphore(permits, lease_us, 1).acquire(id, count, time(not_after_us));
                acquire.expect("a count in range").waiting(micros(waits_us))
            }
            Action::Renew { token, lease_us } => semaphore(1, lease_us, 1).renew(id, token),
            Action::Release { token, remember_us } => {
                semaphore(1, 1, remember_us).release(id, token)
            }
            Action::Inspect => {
                return match key.execute(&semaphore(1, 1, 1).inspect(), time(now_us)) {
                    Ok(seen) => {
                        assert_eq!((seen.now, seen.holders), (time(now_us), seen.grants.len()));
                        let named = seen.grants.iter();
                        let grants = named.map(|(id, grant)| (id.as_u128(), lease(*grant)));
                        Outcome::Seen(seen.used, grants.collect())
                    }
                    Err(error) => Outcome::Failed(error),
                };
            }
        };
        match key.execute(&operation, time(now_us)) {
            Ok(reply) => {
                assert_eq!(reply.now, time(now_us), "a reply says at which time it was made");
                match reply.answer {
                    Answer::Held(grant) => Outcome::Held(lease(grant)),
                    Answer::Released { token } => Outcome::Released(token, reply.woke),
                    Answer::Full { fits_at } => Outcome::Full(fits_at.as_micros()),
                    Answer::Never => Outcome::Never,
                    Answer::TooLate { forgotten } => Outcome::TooLate(forgotten.as_micros()),
                    Answer::NotHeld => Outcome::NotHeld,
                }
            }
            Err(error) if error == RecordError::OperationReused.to_string() => Outcome::Reused,
            Err(error) => Outcome::Failed(error),
        }
    }

    fn ends_us(&self) -> Vec<u64> {
        let leases = self.grants.values().map(|(_, lease)| lease.deadline_us);
        let memory = self.released.iter().map(|(_, _, until)| *until);
        let bounds = self.bounds.values().map(|bound_us| bound_us + 1);
        leases.chain(memory).chain(bounds).chain([self.token + 1, self.wake_us]).collect()
    }
}

impl play::Judged for Reference {
    type Laws = Laws;

    fn judge(laws: &mut Laws, seen: &Seen<Op, Outcome>) -> Vec<Violation> {
        laws.observe(&seen.told(seen.op.shared(), seen.outcome.shared())).broken
    }
}

impl Op {
    fn shared(&self) -> shared::Op {
        let mut terms = Terms { capacity: 0, has_sides: false, lease_us: 0, remember_us: 0 };
        let mut weight = 0;
        let action = match self.action {
            Action::Acquire { count, permits, lease_us, not_after_us, waits_us } => {
                (weight, terms) = (count, Terms { capacity: permits, lease_us, ..terms });
                shared::Action::Acquire { not_after_us, waits_us }
            }
            Action::Renew { token, lease_us } => {
                terms.lease_us = lease_us;
                shared::Action::Renew { token }
            }
            Action::Release { token, remember_us } => {
                terms.remember_us = remember_us;
                shared::Action::Release { token }
            }
            Action::Inspect => shared::Action::Inspect,
        };
        shared::Op { owner: 0, id: self.id, weight, action, terms }
    }
}

impl Outcome {
    fn shared(&self) -> shared::Outcome {
        match *self {
            Outcome::Held(Lease { count, token, deadline_us }) => {
                shared::Outcome::Held(Granted { weight: count, holds: 1, token, deadline_us })
            }
            Outcome::Released(token, told) => shared::Outcome::Released(token, 0, told),
            Outcome::Full(until_us) => shared::Outcome::Busy(until_us),
            Outcome::Never => shared::Outcome::Never,
            Outcome::TooLate(forgotten_us) => shared::Outcome::TooLate(forgotten_us),
            Outcome::NotHeld => shared::Outcome::NotHeld,
            Outcome::Seen(..) => shared::Outcome::Seen,
            Outcome::Reused => shared::Outcome::Reused,
            Outcome::Failed(_) => shared::Outcome::Failed,
        }
    }
}

fn lease(grant: Grant) -> Lease {
    let Grant { count, token, deadline } = grant;
    Lease { count, token, deadline_us: deadline.as_micros() }
}

/// Returns traces of up to `max_steps`, also with a clock that goes back.
pub fn any_trace(max_steps: usize) -> BoxedStrategy<play::Trace<Ask>> {
    (any::<bool>(), prop::bool::weighted(0.3), prop::bool::weighted(0.2))
        .prop_flat_map(move |(backwards, hasty, is_brisk)| match is_brisk {
            true => play::brisk(brisk(), max_steps),
            false => play::trace(ask(hasty), max_steps, backwards),
        })
        .boxed()
}

/// Returns operations with many ids, each of which is soon released.
fn brisk() -> BoxedStrategy<Ask> {
    let long = || Just(1_u64 << 40);
    let within = prop_oneof![0..=60_i64, 1_000..=3_000_i64];
    let acquire = (any::<u128>(), within).prop_map(|(id, us)| {
        let (count, permits, lease_us, waits_us) = (1, 4, 1 << 40, 0);
        let not_after_us = MAX_TIME_US;
        let action = Action::Acquire { count, permits, lease_us, not_after_us, waits_us };
        Ask::Within(Op { id, action }, us)
    });
    let release = (0..2_usize, long()).prop_map(|(back, us)| Ask::ReleaseHeld(back, us));
    let again = (0..40_usize, 0..=2_u64).prop_map(|(back, by_us)| Ask::Again(back, by_us));
    prop_oneof![4 => acquire, 4 => release, 1 => again].boxed()
}

/// Returns operations with few permits and few ids, so that they meet.
pub fn ask(hasty: bool) -> BoxedStrategy<Ask> {
    let span = move || span(hasty);
    // Ids differ in their upper half too.
    let id = || (0..7_u128).prop_map(|id| id << 96 | 0xfeed);
    let count = prop_oneof![8 => 1..=3_u64, 1 => Just(400_u64), 1 => Just((1 << 53) - 1)];
    let permits = prop_oneof![6 => Just(4_u64), 2 => 1..=6_u64, 1 => Just(400_u64)];
    let waits = prop_oneof![2 => Just(0_u64), 3 => 1..=40_u64, 1 => 100..=3_000_u64];
    let acquire =
        (count, permits, span(), waits).prop_map(|(count, permits, lease_us, waits_us)| {
            Action::Acquire { count, permits, lease_us, not_after_us: MAX_TIME_US, waits_us }
        });
    let renew = span().prop_map(|lease_us| Action::Renew { token: None, lease_us });
    let release = span().prop_map(|remember_us| Action::Release { token: None, remember_us });
    let action = prop_oneof![8 => acquire, 3 => renew, 5 => release, 1 => Just(Action::Inspect)];
    let within = prop_oneof![-2..=2_i64, 0..=40_i64, 100..=3_000_i64];
    let again = (0..9_usize, 0..=2_u64).prop_map(|(back, by_us)| Ask::Again(back, by_us));
    let operation = (id(), action, 0..14_u8, -2..=2_i64, within).prop_map(
        |(id, action, form, offset, within)| {
            let op = Op { id, action };
            match form {
                0..=4 => Ask::Plain(op),
                5..=7 => Ask::Token(op, 0),
                8 => Ask::Token(op, offset),
                _ => Ask::Within(op, within),
            }
        },
    );
    prop_oneof![8 => operation, 1 => again].boxed()
}

/// Returns a lease, or a time to remember, in microseconds: tiny, as in a trace, up to the longest. With `hasty`, a key
/// grants more tokens than a lease has microseconds.
fn span(hasty: bool) -> BoxedStrategy<u64> {
    match hasty {
        true => (1..=2_u64).boxed(),
        false => prop_oneof![4 => 1..=20_u64, 4 => 100..=3_000_u64, 1 => Just(1_u64 << 50)].boxed(),
    }
}

/// Returns traces of up to `max_steps`, with a clock that never steps back.
pub fn forward(max_steps: usize) -> BoxedStrategy<play::Trace<Ask>> {
    any_trace(max_steps).prop_map(play::Trace::forward).boxed()
}
