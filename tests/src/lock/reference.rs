//! The lock a second time, as plainly as it can be said: everything follows from the list of
//! operations that were done.

use super::{Action, Grant, Op, Outcome, Subject};

/// How many of the latest operations are remembered (L10).
const REMEMBERED: usize = 4;

/// One lock, as the contract says it behaves.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    done: Vec<Done>,
}

/// An operation that was done: when, for which grant, and what was answered.
#[derive(Clone, Debug)]
struct Done {
    op: Op,
    at_us: u64,
    token: u64,
    answer: Grant,
}

impl Reference {
    /// The moment from which on nothing here matters any more: no operation is to be remembered,
    /// none was when a lease was still to run, and no token is ahead of the clock.
    pub fn keep_us(&self) -> u64 {
        let kept = self.done.iter().map(|done| {
            let remembered = done.at_us.max(done.answer.deadline_us) + done.op.remember_us;
            remembered.max(done.token + 1)
        });
        kept.max().unwrap_or(0)
    }

    /// The latest token that was given out.
    pub fn token(&self) -> u64 {
        self.done.last().map_or(0, |done| done.token)
    }

    /// The end of the latest grant's lease.
    pub fn deadline_us(&self) -> u64 {
        self.grant(self.token()).map_or(0, |(_, grant)| grant.deadline_us)
    }

    /// The grant of a token, with its owner, unless it is over: its holds are acquires less
    /// releases, its deadline the latest that any acquire or renewal asked for.
    fn grant(&self, token: u64) -> Option<(u128, Grant)> {
        let mut grant = Grant { token, holds: 0, deadline_us: 0 };
        let mut holder = None;
        for done in self.done.iter().filter(|done| done.token == token) {
            let asked_us = done.at_us + done.op.lease_us;
            match done.op.action {
                Action::Acquire { owner, .. } => {
                    holder = Some(owner);
                    grant.holds += 1;
                    grant.deadline_us = grant.deadline_us.max(asked_us);
                }
                Action::Renew { .. } => grant.deadline_us = grant.deadline_us.max(asked_us),
                Action::Release { .. } => grant.holds -= 1,
                Action::ForceRelease { .. } => return None,
                Action::Inspect => {}
            }
        }
        holder.filter(|_| grant.holds > 0).map(|owner| (owner, grant))
    }

    /// The grant that is live at a time.
    fn live(&self, now_us: u64) -> Option<(u128, Grant)> {
        self.grant(self.token()).filter(|(_, grant)| now_us < grant.deadline_us)
    }

    /// The token of the grant that an operation is for, unless it is refused.
    fn serve(&self, op: &Op, now_us: u64) -> Option<u64> {
        let live = self.live(now_us);
        let live_of = |who: u128, which: Option<u64>| {
            let (owner, grant) = live?;
            (owner == who && which.is_none_or(|token| token == grant.token)).then_some(grant.token)
        };
        match op.action {
            Action::Acquire { owner, .. } => match live {
                None => Some(now_us.max(self.token() + 1)),
                Some(_) => live_of(owner, None),
            },
            Action::Renew { owner, token } | Action::Release { owner, token } => {
                live_of(owner, token)
            }
            Action::ForceRelease { token } => {
                live.filter(|(_, grant)| grant.token == token).map(|(_, grant)| grant.token)
            }
            Action::Inspect => None,
        }
    }
}

impl Subject for Reference {
    fn run(&mut self, op: &Op, now_us: u64) -> Outcome {
        let absent = now_us >= self.keep_us();
        let mut seen = if absent { Reference::default() } else { self.clone() };
        if op.action == Action::Inspect {
            return Outcome::Seen(seen.live(now_us));
        }
        if let Some(before) =
            seen.done.iter().rev().take(REMEMBERED).find(|done| done.op.id == op.id)
        {
            let same =
                std::mem::discriminant(&before.op.action) == std::mem::discriminant(&op.action);
            return if same { Outcome::Done(before.answer) } else { Outcome::Reused };
        }
        if matches!(op.action, Action::Acquire { not_after_us, .. } if now_us > not_after_us) {
            return Outcome::TooLate;
        }
        let Some(token) = seen.serve(op, now_us) else {
            return Outcome::Refused(seen.live(now_us));
        };
        let free = Grant { token, holds: 0, deadline_us: 0 };
        seen.done.push(Done { op: *op, at_us: now_us, token, answer: free });
        let answer = seen.grant(token).map_or(free, |(_, grant)| grant);
        seen.done.last_mut().expect("it was just put there").answer = answer;
        *self = seen;
        Outcome::Done(answer)
    }

    fn forget(&mut self) {
        self.done.clear();
    }
}
