//! L1 to L5 and L10, each from the answers alone, and equality with the reference and between
//! stores.

use std::collections::BTreeMap;

use super::{Action, Grant, OnKey, Op, Outcome, Subject, Trace};
use crate::key::{Holds, Slot};
use crate::properties::{Check, require};
use crate::stores::Model;

/// Every outcome equals the reference's.
///
/// # Errors
/// The first operation on which they differ.
pub fn equals_the_reference(subject: &mut impl Subject, trace: &Trace) -> Check {
    trace.play(subject, |_, op, now_us, seen, right| {
        require(seen == right, || format!("{op:?} at {now_us}: {seen:?} where {right:?} is right"))
    })
}

/// Every outcome of `store`, and what its key holds and until when, equals the model's.
///
/// # Errors
/// The first difference.
pub fn equals_the_model(
    model: &mut OnKey<Model>,
    store: &mut OnKey<impl Holds>,
    trace: &Trace,
) -> Check {
    trace.play(model, |model, op, now_us, expected, _| {
        let seen = store.run(op, now_us);
        require(seen == expected, || {
            format!("{op:?} at {now_us}: {seen:?}, in Rust {expected:?}")
        })?;
        let (seen, expected) = (store.0.held(), model.0.held());
        require(seen == expected, || {
            format!("{op:?} at {now_us} leaves {seen:?}, in Rust {expected:?}")
        })
    })
}

/// L1: at most one live lease at any time of the store; L5: the token strictly increases with every
/// fresh grant, and stays on re-entry and renewal.
///
/// # Errors
/// The grant that came too early, or with a wrong token.
pub fn l1_l5_one_live_lease_and_growing_tokens(subject: &mut OnKey<Slot>, trace: &Trace) -> Check {
    let mut ledger = Ledger::default();
    trace.play(subject, |_, op, now_us, outcome, _| {
        let Some((owner, grant)) = ledger.news(op, now_us, &outcome) else { return Ok(()) };
        let latest = ledger.latest;
        if matches!(op.action, Action::Acquire { .. }) {
            let fresh = latest.is_none_or(|(_, latest)| latest.token != grant.token);
            if fresh {
                let over = latest.is_none_or(|(_, latest)| !latest.is_live(now_us));
                require(over, || format!("{op:?} at {now_us} got {grant:?} beside {latest:?}"))?;
                require(grant.token > ledger.token, || {
                    format!("{op:?} at {now_us} got {grant:?} after token {}", ledger.token)
                })?;
            } else {
                require(latest.map(|(holder, _)| holder) == Some(owner), || {
                    format!("{op:?} at {now_us} got {grant:?}, which is {latest:?}")
                })?;
            }
        }
        ledger.record(op, now_us, owner, grant);
        Ok(())
    })
}

/// L2: holds are acquires less releases of that owner, 0 on expiry or force-release, and the lock
/// is free exactly at 0.
///
/// # Errors
/// The answer with another count.
pub fn l2_holds_are_counted(subject: &mut impl Subject, trace: &Trace) -> Check {
    let mut ledger = Ledger::default();
    trace.play(subject, |subject, op, now_us, outcome, _| {
        if let Some((owner, grant)) = ledger.news(op, now_us, &outcome) {
            ledger.record(op, now_us, owner, grant);
            let counted = ledger.holds.get(&grant.token).copied().unwrap_or(0);
            require(grant.holds == counted, || {
                format!("{op:?} at {now_us}: {grant:?} where {counted} is counted")
            })?;
        }
        let inspect = Op { action: Action::Inspect, ..*op };
        let Outcome::Seen(seen) = subject.run(&inspect, now_us) else {
            return require(false, || format!("an inspection at {now_us} saw nothing"));
        };
        let held = ledger.latest.filter(|(_, grant)| grant.is_live(now_us));
        require(seen == held, || format!("after {op:?} at {now_us}: {seen:?}, counted {held:?}"))
    })
}

/// L3: what is not done changes nothing: the record stays as it was, byte by byte. L3 also: a
/// release or a renewal is done for the live owner alone.
///
/// # Errors
/// The operation that changed something, or that was done for somebody else.
pub fn l3_refusals_change_nothing(subject: &mut OnKey<Slot>, trace: &Trace) -> Check {
    let mut ledger = Ledger::default();
    let mut before = None;
    trace.play(subject, |subject, op, now_us, outcome, _| {
        let after = subject.0.0.clone();
        let news = ledger.news(op, now_us, &outcome);
        let unchanged = news.is_some() || after == before;
        require(unchanged, || {
            format!("{op:?} at {now_us} is {outcome:?} and made {after:?} of {before:?}")
        })?;
        if let (Action::Renew { owner, .. } | Action::Release { owner, .. }, Some(_)) =
            (op.action, news)
        {
            let live = ledger.latest.filter(|(_, grant)| grant.is_live(now_us));
            require(live.is_some_and(|(holder, _)| holder == owner), || {
                format!("{op:?} at {now_us} is done, and the lock is {live:?}")
            })?;
        }
        if let Some((owner, grant)) = news {
            ledger.record(op, now_us, owner, grant);
        }
        before = after;
        Ok(())
    })
}

/// L4: no renewal and no re-entry shortens a lease, and none brings an expired one back.
///
/// # Errors
/// The operation that did.
pub fn l4_leases_only_grow(subject: &mut impl Subject, trace: &Trace) -> Check {
    let mut ledger = Ledger::default();
    trace.play(subject, |_, op, now_us, outcome, _| {
        let Some((owner, grant)) = ledger.news(op, now_us, &outcome) else { return Ok(()) };
        let same = ledger.latest.filter(|(_, latest)| latest.token == grant.token);
        if let Some((_, before)) = same
            && matches!(op.action, Action::Acquire { .. } | Action::Renew { .. })
        {
            let right = before.deadline_us.max(now_us + op.lease_us);
            require(grant.deadline_us == right && before.is_live(now_us), || {
                format!("{op:?} at {now_us} made {grant:?} of {before:?}")
            })?;
        }
        ledger.record(op, now_us, owner, grant);
        Ok(())
    })
}

/// L10: after every step each of the last four operations that were done is sent again, as long as
/// it is remembered: it gets the same answer and nothing changes. An operation that came too late
/// leaves no ghost.
///
/// # Errors
/// The repetition that was answered differently, or changed something.
pub fn l10_repetitions_are_idle(subject: &mut OnKey<Slot>, trace: &Trace) -> Check {
    let mut ledger = Ledger::default();
    let mut done: Vec<(Op, u64, Outcome)> = Vec::new();
    trace.play(subject, |subject, op, now_us, outcome, _| {
        if let Some((owner, grant)) = ledger.news(op, now_us, &outcome) {
            ledger.record(op, now_us, owner, grant);
            // What the clock has once passed is forgotten, also when it steps back.
            if ledger.ids.len() == 1 {
                done.clear();
            }
            done.push((*op, now_us, outcome));
        }
        let last = done.iter().rev().take(4);
        for (old, done_us, answer) in last.filter(|(op, at_us, _)| now_us < at_us + op.remember_us)
        {
            let before = subject.0.clone().0;
            let again = subject.run(old, now_us);
            require(again == *answer && subject.0.0 == before, || {
                format!("{old:?} at {done_us} was {answer:?}; again at {now_us}: {again:?}")
            })?;
        }
        Ok(())
    })
}

/// D9: from its forget time on the record changes nothing, but for the answers to operations that
/// were to be remembered no longer.
///
/// # Errors
/// The first operation that a fresh key answers differently.
pub fn d9_a_forgettable_lock_is_fresh(
    subject: &mut OnKey<Slot>,
    trace: &Trace,
    then: &Trace,
) -> Check {
    trace.play(subject, |_, _, _, _, _| -> Check { Ok(()) })?;
    let Some(forget_us) = subject.0.forget_at_us() else { return Ok(()) };
    let then = Trace { start_us: forget_us, backwards: false, steps: then.steps.clone() };
    if forget_us > crate::strategies::MAX_TIME_US {
        return Ok(());
    }
    let mut forgotten = subject.clone();
    forgotten.forget();
    then.play(&mut forgotten, |_, op, now_us, expected, _| {
        let seen = subject.run(op, now_us);
        require(seen == expected, || format!("{op:?} at {now_us}: {seen:?}, fresh {expected:?}"))
    })
}

impl Grant {
    fn is_live(&self, now_us: u64) -> bool {
        self.holds > 0 && now_us < self.deadline_us
    }
}

/// What an observer of the answers knows.
#[derive(Debug, Default)]
struct Ledger {
    /// The owner and the state of the latest grant.
    latest: Option<(u128, Grant)>,
    /// The highest token so far.
    token: u64,
    /// Acquires less releases, by token.
    holds: BTreeMap<u64, u64>,
    /// The ids of the operations that were done.
    ids: Vec<u128>,
    /// From when on nothing of it is remembered (L5, L10), in microseconds.
    keep_us: u64,
}

impl Ledger {
    /// The owner and the grant of an operation that was done now, not before: a repetition is no
    /// news.
    fn news(&self, op: &Op, now_us: u64, outcome: &Outcome) -> Option<(u128, Grant)> {
        let Outcome::Done(grant) = outcome else { return None };
        let remembered =
            now_us < self.keep_us && self.ids.iter().rev().take(4).any(|id| *id == op.id);
        if remembered {
            return None;
        }
        let owner = match op.action {
            Action::Acquire { owner, .. }
            | Action::Renew { owner, .. }
            | Action::Release { owner, .. } => owner,
            Action::ForceRelease { .. } | Action::Inspect => self.latest?.0,
        };
        Some((owner, *grant))
    }

    fn record(&mut self, op: &Op, now_us: u64, owner: u128, grant: Grant) {
        let holds = self.holds.entry(grant.token).or_default();
        match op.action {
            Action::Acquire { .. } => *holds += 1,
            Action::Release { .. } => *holds = holds.saturating_sub(1),
            Action::ForceRelease { .. } => *holds = 0,
            Action::Renew { .. } | Action::Inspect => {}
        }
        if now_us >= self.keep_us {
            self.ids.clear();
        }
        self.ids.push(op.id);
        let remembered_us = now_us.max(grant.deadline_us) + op.remember_us;
        self.keep_us = self.keep_us.max(remembered_us).max(grant.token + 1);
        self.token = self.token.max(grant.token);
        self.latest = Some((owner, grant));
    }
}
