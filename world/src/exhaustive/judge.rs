//! Whether one step of the store was right, from who held the lock before and after it.

use lockage_core::lock::{Answer, HoldId, Inspection, OwnerId};
use lockage_core::{Command, Record};
pub use lockage_oracle::property::Property as Law;

use super::machine::{Ask, Request, Told, owner_id, time};
use super::scope::{SPAN, Scope};
use super::state::{Ended, How, InLine, State, inspect};

/// One step of the store.
pub(super) struct Step<'a> {
    pub(super) scope: &'a Scope,
    pub(super) before: &'a State,
    pub(super) request: &'a Request,
    pub(super) told: Told,
    pub(super) slot: &'a Option<Record>,
}

/// The law that a step broke, if any.
pub(super) fn broken_by(step: &Step<'_>) -> Option<Law> {
    let (now, store) = (step.before.now, &step.before.store);
    let is_unchanged = *step.slot == store.slot;
    let (mut before, mut after) = (store.slot.clone(), step.slot.clone());
    let before = View::of(&inspect(step.scope, &mut before, now));
    let after = View::of(&inspect(step.scope, &mut after, now));
    let owner = step.request.owner_id();
    let is_done = matches!(step.told, Told::Done { .. });
    if let Some((right, forget_at)) = known(step, before.held) {
        // Once it may be forgotten, doing nothing is right, too.
        let is_right = is_unchanged && step.told == right;
        if is_right || now <= forget_at {
            return (!is_right).then_some(Law::L10);
        }
    }
    match step.request.ask {
        Ask::Acquire { not_after } | Ask::LineUp { not_after, .. } if now > not_after => {
            (!is_unchanged || is_done).then_some(Law::L10)
        }
        Ask::Acquire { .. } | Ask::LineUp { .. } => match before.held {
            Some(held) if held.owner == owner => grown(step, held, after, held.holds + 1),
            Some(held) => (is_done || after.held != Some(held)).then_some(Law::L1),
            None if is_done => granted(step, after),
            None => (after.held.is_some() || before.queued == 0).then_some(Law::L8),
        },
        Ask::Renew { token } => match before.held {
            Some(held) if (held.owner, held.token) == (owner, token) => {
                grown(step, held, after, held.holds)
            }
            Some(_) => (!is_unchanged || is_done).then_some(Law::L3),
            None => (!is_unchanged || is_done).then_some(Law::L4),
        },
        Ask::Release { hold } => match before.held {
            Some(held) if held.owner == owner && store.has(step.request.owner, hold) => {
                let left = (held.holds > 1).then(|| Held { holds: held.holds - 1, ..held });
                (!is_done || after.held != left).then_some(Law::L2)
            }
            _ => (!is_unchanged || is_done).then_some(Law::L3),
        },
        Ask::ForceRelease { token } => match before.held {
            Some(held) if held.token == token => {
                (!is_done || after.held.is_some()).then_some(Law::L2)
            }
            _ => (!is_unchanged || is_done).then_some(Law::L3),
        },
        Ask::Withdraw => (after.held != before.held).then_some(Law::L3),
    }
}

/// What is right to tell who asks for what was done before, and until when that must be remembered.
fn known(step: &Step<'_>, before: Option<Held>) -> Option<(Told, u64)> {
    let Step { scope, before: State { now, store, .. }, request, .. } = step;
    let ended = |operation| {
        let is_it = |ended: &&Ended| ended.held.is(request.owner, operation);
        store.ended.iter().find(is_it)
    };
    match request.ask {
        Ask::Acquire { not_after } | Ask::LineUp { not_after, .. } => {
            let over = if *now > not_after { Told::TooLate } else { Told::Ended };
            let held = store.holds.iter().find(|held| held.is(request.owner, request.operation));
            match (held, before.filter(|held| held.owner == request.owner_id())) {
                (Some(_), Some(Held { token, holds, .. })) => {
                    Some((Told::Done { token, holds }, u64::MAX))
                }
                (Some(held), None) => Some((over, held.at + scope.delay)),
                (None, _) => Some((over, ended(request.operation)?.at + scope.delay)),
            }
        }
        Ask::Release { hold } => match ended(hold)? {
            Ended { how: How::Released(told), at, .. } => Some((*told, at + scope.delay)),
            _ => None,
        },
        Ask::ForceRelease { token } => {
            let broken = store.ended.iter().find(|ended| ended.how == How::Broken(token))?;
            Some((Told::Done { token, holds: 0 }, broken.at + scope.delay))
        }
        Ask::Renew { .. } | Ask::Withdraw => None,
    }
}

/// A holder's acquire or renewal.
fn grown(step: &Step<'_>, held: Held, after: View, holds: u64) -> Option<Law> {
    let Some(now_held) = after.held.filter(|now| now.owner == held.owner) else {
        return Some(Law::L2);
    };
    let lease = step.before.now + step.scope.lease;
    if now_held.token != held.token {
        return Some(Law::L5);
    }
    if now_held.deadline != held.deadline.max(lease) {
        return Some(Law::L4);
    }
    let told = Told::Done { token: held.token, holds };
    (now_held.holds != holds || step.told != told).then_some(Law::L2)
}

/// A grant of a free lock.
fn granted(step: &Step<'_>, after: View) -> Option<Law> {
    let (now, owner) = (step.before.now, step.request.owner_id());
    let Some(held) = after.held.filter(|held| held.owner == owner && held.holds == 1) else {
        return Some(Law::L2);
    };
    // What a failover lost is outrun as soon as the clock is past it.
    let newest = step.before.newest;
    let is_lost = step.before.failovers > 0 && now <= newest;
    if held.token <= newest && !is_lost {
        return Some(Law::L5);
    }
    if held.deadline != now + step.scope.lease {
        return Some(Law::L4);
    }
    passes_over(&step.before.store.line, step.request.owner, now).then_some(Law::L9)
}

/// Whether somebody who came before is still in line.
fn passes_over(line: &[InLine], owner: usize, now: u64) -> bool {
    let own = line.iter().position(|one| one.owner == owner);
    let is_unsure = own.is_some_and(|at| line[at].is_unsure);
    let ahead = &line[..own.unwrap_or(line.len())];
    !is_unsure && ahead.iter().any(|one| now < one.asked + SPAN)
}

/// Who is in line after a step.
pub(super) fn line_after(
    line: &[InLine],
    request: &Request,
    told: Told,
    repeated: bool,
    now: u64,
) -> Vec<InLine> {
    let lasts = |one: &InLine| now < one.asked + SPAN + SPAN / 2;
    let mut line: Vec<InLine> = line.iter().copied().filter(lasts).collect();
    let own = line.iter().position(|one| one.owner == request.owner);
    match (request.ask, told) {
        _ if repeated => {}
        (Ask::LineUp { .. }, Told::Refused | Told::Queued { .. }) => match own {
            Some(at) if now < line[at].asked + SPAN => line[at].asked = now,
            _ => {
                own.map(|at| line.remove(at));
                line.push(InLine { owner: request.owner, asked: now, is_unsure: own.is_some() });
            }
        },
        (Ask::Acquire { .. } | Ask::LineUp { .. }, Told::Done { .. }) | (Ask::Withdraw, _) => {
            own.map(|at| line.remove(at));
        }
        _ => {}
    }
    line
}

/// Whether each who is inside has a live lease.
pub(super) fn leases_are_live(scope: &Scope, state: &State) -> bool {
    let mut slot = state.store.slot.clone();
    let held = View::of(&inspect(scope, &mut slot, state.now)).held;
    state.inside().all(|(owner, grant)| {
        held.is_some_and(|held| held.owner == owner_id(owner) && held.token == grant.token)
    })
}

/// Whether somebody new has the lock once all spans are over.
pub(super) fn frees_itself(scope: &Scope, state: &State) -> bool {
    let later = time(state.now + scope.lease.max(SPAN + SPAN / 2));
    let mut slot = state.store.slot.clone();
    let (newcomer, id) = (OwnerId::from_u128(u128::MAX), HoldId::from_u128(u128::MAX));
    let acquire = scope.lock().acquire(newcomer, id, later);
    acquire.apply(&mut slot, later).is_ok_and(|reply| matches!(reply.answer, Answer::Held(_)))
}

#[derive(Clone, Copy)]
struct View {
    held: Option<Held>,
    queued: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Held {
    owner: OwnerId,
    token: u64,
    holds: u64,
    deadline: u64,
}

impl View {
    fn of(seen: &Inspection) -> View {
        let held = seen.holder.map(|holder| Held {
            owner: holder.owner,
            token: holder.hold.token,
            holds: holder.hold.holds,
            deadline: holder.hold.deadline.as_micros(),
        });
        View { held, queued: seen.queued }
    }
}
