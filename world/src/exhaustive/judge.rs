//! Judges one step of the store by the views of the lock before and after it.

use lockage_core::lock::{Answer, HoldId, OwnerId};
use lockage_core::{Command, Record};
use lockage_oracle::lock::laws::{Case, Laws, Seen};
use lockage_oracle::lock::{Action, Grant, Op, Outcome};
pub use lockage_oracle::property::Property as Law;

use super::machine::{Ask, Request, Told, hold_id, time};
use super::scope::{SPAN, Scope};
use super::state::{State, inspect};

/// The verdict on one step of the store.
pub(super) struct Judged {
    /// The lock's history after the step.
    pub(super) laws: Laws,
    pub(super) broken: Vec<Law>,
    pub(super) cases: Vec<Case>,
}

/// Judges a step that left this slot.
pub(super) fn judge(
    scope: &Scope,
    state: &State,
    request: &Request,
    told: Told,
    slot: &Option<Record>,
) -> Judged {
    let (now_us, before) = (state.now, &state.store.slot);
    let [shown_before, shown] =
        [before, slot].map(|slot| inspect(scope, &mut slot.clone(), now_us));
    let action = action(request);
    let op = |action| Op { action, lease_us: scope.lease, remember_us: scope.delay + 1 };
    let outcome = match (told, action) {
        (Told::Done { token, holds }, Action::Acquire { .. } | Action::Renew { .. }) => {
            let deadline_us = shown.holder.map_or(0, |it| it.hold.deadline.as_micros());
            Outcome::Held(Grant { token, holds, deadline_us })
        }
        (Told::Done { token, holds }, _) => Outcome::Released { token, holds },
        (Told::Refused, _) => Answer::Refused(shown_before.holder).into(),
        (Told::Ended, _) => Outcome::Reused,
        (Told::TooLate { forgotten }, _) => Outcome::TooLate { forgotten_us: forgotten },
        (Told::Queued { ahead }, _) => Outcome::Queued { ahead, until_us: now_us + 1 },
        (Told::Left, _) => Outcome::Withdrawn,
    };
    // A waiter may record in the slot that it waits.
    let may_wait = matches!(action, Action::Acquire { .. } | Action::Withdraw { .. });
    let is_same = match told {
        Told::Refused | Told::Queued { .. } | Told::Left if may_wait => {
            shown.holder == shown_before.holder
        }
        _ => slot == before,
    };
    let mut laws = state.store.laws.clone();
    let mut see = |action, outcome, slot: &Option<Record>, changed| {
        let was_there = slot.is_some();
        laws.observe(&Seen { op: op(action), now_us, outcome, was_there, changed })
    };
    let verdict = see(action, outcome, before, Some(!is_same));
    let after = see(Action::Inspect, shown.into(), slot, None);
    let broken = verdict.broken.into_iter().chain(after.broken).map(|broken| broken.property);
    Judged { broken: broken.collect(), cases: verdict.cases, laws }
}

fn action(request: &Request) -> Action {
    let owner = request.owner_id().as_u128();
    let acquire = |not_after_us, waits_us| {
        let hold = request.hold_id(request.operation).as_u128();
        Action::Acquire { owner, hold, not_after_us, waits_us, in_line: true, label: None }
    };
    match request.ask {
        Ask::Acquire { not_after } => acquire(not_after, 0),
        Ask::LineUp { not_after, span } => acquire(not_after, span),
        Ask::Renew { token } => Action::Renew { owner, token: Some(token) },
        Ask::Release { hold } => Action::Release { owner, hold: request.hold_id(hold).as_u128() },
        Ask::ForceRelease { token } => Action::ForceRelease { token },
        Ask::Withdraw => Action::Withdraw { owner },
    }
}

/// Returns whether each owner inside has a live lease, by the store's clock.
pub(super) fn leases_are_live(state: &State) -> bool {
    state.inside().all(|(owner, grant)| {
        let covers = |hold| {
            let hold = hold_id(owner, hold).as_u128();
            state.store.laws.covers(grant.token, hold, state.now + 1).is_ok()
        };
        grant.holds().all(covers)
    })
}

/// Returns whether a new owner has the lock once all spans are over.
pub(super) fn frees_itself(scope: &Scope, state: &State) -> bool {
    let later = time(state.now + scope.lease.max(SPAN + SPAN / 2));
    let mut slot = state.store.slot.clone();
    let (newcomer, id) = (OwnerId::from_u128(u128::MAX), HoldId::from_u128(u128::MAX));
    let acquire = scope.lock().acquire(newcomer, id, later);
    acquire.apply(&mut slot, later).is_ok_and(|reply| matches!(reply.answer, Answer::Held(_)))
}
