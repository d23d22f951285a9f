//! The grants of a lock and its ended holds, as they follow from its operations.

use super::{Action, Grant, Op};

/// How many of the latest ended holds are known (L10).
const REMEMBERED: usize = 4;

/// An operation that was done, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// The operation itself.
    pub(super) op: Op,
    /// When it was done, in microseconds.
    pub(super) at_us: u64,
    /// The grant right after it; without holds and deadline if the lock is free.
    pub(super) grant: Grant,
}

/// The end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was released, when its grant had this token and this many holds were left.
    Released(u64, u64),
    /// Its grant of this token was freed by force.
    Broken(u64),
    /// The lock was granted again after its lease.
    Expired,
}

/// Returns the holds of the grant of this token that were not released, the oldest first.
pub(super) fn holds(done: &[Done], token: u64) -> Vec<u128> {
    let mut holds = Vec::new();
    for done in done.iter().filter(|done| done.grant.token == token) {
        match done.op.action {
            Action::Acquire { hold, .. } => holds.push(hold),
            Action::Release { hold, .. } => holds.retain(|known| *known != hold),
            Action::ForceRelease { .. } => holds.clear(),
            Action::Renew { .. } | Action::Withdraw { .. } | Action::Inspect => {}
        }
    }
    holds
}

/// Returns the grant of a token, with its owner, unless it has ended. Its deadline is the latest that any acquire or
/// renewal asked for.
pub(super) fn grant(done: &[Done], token: u64) -> Option<(u128, Grant)> {
    let of_it = || done.iter().filter(|done| done.grant.token == token);
    let owner = of_it().find_map(|done| match done.op.action {
        Action::Acquire { owner, .. } => Some(owner),
        _ => None,
    })?;
    let asked = of_it().filter_map(|done| match done.op.action {
        Action::Acquire { .. } | Action::Renew { .. } => Some(done.at_us + done.op.lease_us),
        _ => None,
    });
    let holds = holds(done, token).len() as u64;
    let grant = Grant { token, holds, deadline_us: asked.max().unwrap_or(0) };
    (holds > 0).then_some((owner, grant))
}

/// Returns the place of the acquire of this hold, the last one.
pub(super) fn acquired(done: &[Done], hold: u128) -> Option<usize> {
    let is_it =
        |done: &Done| matches!(done.op.action, Action::Acquire { hold: of, .. } if of == hold);
    done.iter().rposition(is_it)
}

/// Returns the latest ended holds that are known, the oldest first, and the places of the acquires of all others.
pub(super) fn ended(done: &[Done]) -> (Vec<(u128, End)>, Vec<usize>) {
    let (mut ended, mut forgotten) = (Vec::new(), Vec::new());
    for (at, Done { op, grant, .. }) in done.iter().enumerate() {
        let (before, token) = (&done[..at], grant.token);
        let end = |hold, how| (acquired(before, hold).expect("it was acquired"), hold, how);
        match op.action {
            Action::Release { hold, .. } => {
                ended.push(end(hold, End::Released(token, grant.holds)));
            }
            Action::ForceRelease { .. } => {
                let holds = holds(before, token).into_iter();
                ended.extend(holds.map(|hold| end(hold, End::Broken(token))));
            }
            // The first acquire of a grant ends the remaining holds of the one before.
            Action::Acquire { .. } => {
                let latest = before.last().map_or(token, |latest| latest.grant.token);
                if latest != token {
                    let holds = holds(before, latest).into_iter();
                    ended.extend(holds.map(|hold| end(hold, End::Expired)));
                    // There is room for its own end.
                    forget(&mut ended, REMEMBERED - 1, &mut forgotten);
                }
            }
            Action::Renew { .. } | Action::Withdraw { .. } | Action::Inspect => {}
        }
    }
    forget(&mut ended, REMEMBERED, &mut forgotten);
    (ended.into_iter().map(|(_, hold, how)| (hold, how)).collect(), forgotten)
}

/// Forgets all but the latest `most` ended holds.
fn forget(ended: &mut Vec<(usize, u128, End)>, most: usize, forgotten: &mut Vec<usize>) {
    let oldest = ended.drain(..ended.len().saturating_sub(most));
    forgotten.extend(oldest.map(|(at, ..)| at));
}
