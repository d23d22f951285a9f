//! The store's answers about locks, latches and values, and whether callers got them.
//!
//! One judge serves all verbs: a caller's answer is one that its store gave its process after the
//! call began.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lockage_core::fenced::{Access, Kept};
use lockage_core::{AnyOutcome, Command, Timestamp, latch, lock, rw_lock, semaphore};
use serde::{Deserialize, Serialize};

use super::kind::{Fault, Kind, fault};
use crate::simulation::plan::What;
use crate::simulation::store::keys_of;

/// An answer of a store, or of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // each is named after its content
pub enum HolderAnswer {
    /// This token holds it, `holds` times; for a semaphore, `holds` is the number of permits.
    Held {
        token: u64,
        holds: u64,
    },
    /// The owner has this many holds left.
    Released {
        holds: u64,
    },
    /// Another grant holds it, or one that the store does not name.
    Refused {
        by: Option<u64>,
    },
    /// It is free, but others come first.
    Queued {
        ahead: u64,
    },
    /// Others hold it for this long, or this owner reads it.
    InUse {
        for_us: u64,
        is_upgrade: bool,
    },
    /// The tokens of the holders, and the number of waiters in line or of permits in use.
    Inspected {
        tokens: Vec<u64>,
        count: u64,
    },
    /// This much of a latch's count is left.
    Left {
        left: u64,
    },
    /// A latch is closed already.
    Closed,
    /// A latch is forgotten; so much of it was left, if there was one.
    Forgot {
        left: Option<u64>,
    },
    /// A value is accepted, or refused since this token was seen.
    Accepted,
    Stale {
        newest: u64,
    },
    /// A value is kept, or there is none.
    Kept {
        value: Option<Vec<u8>>,
    },
}

/// The store's answers for each key, by node and time.
#[derive(Default)]
pub(in crate::simulation) struct Replies(BTreeMap<String, Vec<Given>>);

struct Given {
    at_us: u64,
    node: usize,
    answer: HolderAnswer,
}

impl Replies {
    /// A store has answered a node.
    pub(in crate::simulation) fn gave(
        &mut self,
        key: &str,
        node: usize,
        outcome: &AnyOutcome,
        at_us: u64,
    ) {
        let Some(answer) = HolderAnswer::of(outcome) else { return };
        let given = Given { at_us, node, answer };
        match self.0.get_mut(key) {
            Some(all) => all.push(given),
            None => _ = self.0.insert(key.to_owned(), vec![given]),
        }
    }

    /// Returns the store's answers to a node since then, the latest first.
    pub(super) fn since(
        &self,
        key: &str,
        node: usize,
        since_us: u64,
    ) -> impl Iterator<Item = &HolderAnswer> {
        let all = self.0.get(key).map(Vec::as_slice).unwrap_or_default();
        let late = all.iter().rev().take_while(move |given| given.at_us >= since_us);
        late.filter(move |given| given.node == node).map(|given| &given.answer)
    }

    /// Returns when a store answered a node that this token holds the key.
    pub(super) fn held_us(
        &self,
        key: &str,
        node: usize,
        token: u64,
    ) -> impl DoubleEndedIterator<Item = u64> {
        let is_held = move |given: &&Given| {
            let is_of = |of| of == token && given.node == node;
            matches!(given.answer, HolderAnswer::Held { token, .. } if is_of(token))
        };
        let all = self.0.get(key).map(Vec::as_slice).unwrap_or_default();
        all.iter().filter(is_held).map(|given| given.at_us)
    }

    /// Checks a caller's answer: a call for one of these keys was answered so, between then and
    /// now.
    pub(super) fn told(
        &self,
        keys: &[String],
        node: usize,
        since_us: u64,
        told: &HolderAnswer,
    ) -> Result<(), Fault> {
        let gave = |key: &String| self.since(key, node, since_us).any(|answer| answer == told);
        if keys.iter().any(gave) {
            return Ok(());
        }
        let given: Vec<_> = keys.iter().flat_map(|key| self.since(key, node, since_us)).collect();
        let what =
            format!("{keys:?}, asked since {since_us} us: {told:?}, and the store: {given:?}");
        fault(Kind::Unanswered, what)
    }
}

impl Replies {
    /// Checks that this many servers have answered a quorum's release.
    pub(super) fn released_on(
        &self,
        servers: usize,
        node: usize,
        since_us: u64,
    ) -> Result<(), Fault> {
        let is_answer = |answer: &HolderAnswer| {
            matches!(answer, HolderAnswer::Released { .. } | HolderAnswer::Refused { .. })
        };
        let has_answered = |key: &&String| self.since(key, node, since_us).any(is_answer);
        let answered = keys_of(What::Quorum).iter().filter(has_answered).count();
        if answered >= servers {
            return Ok(());
        }
        fault(
            Kind::Unanswered,
            format!("{servers} servers, and {answered} have answered since {since_us} us"),
        )
    }
}

impl HolderAnswer {
    /// Returns the store's answer, if it is about a hold, a count or a kept value.
    fn of(outcome: &AnyOutcome) -> Option<HolderAnswer> {
        fn is<T: 'static>(outcome: &AnyOutcome) -> Option<&T> {
            outcome.downcast_ref()
        }
        if let Some(reply) = is::<lock::Reply>(outcome) {
            return HolderAnswer::of_lock(reply);
        }
        if let Some(semaphore::Reply { now, answer, .. }) = is(outcome) {
            use semaphore::Answer as It;
            return Some(match *answer {
                It::Held(grant) => HolderAnswer::Held { token: grant.token, holds: grant.count },
                It::Released { .. } => HolderAnswer::Released { holds: 0 },
                It::Full { fits_at } => HolderAnswer::in_use(fits_at, *now, false),
                It::NotHeld => HolderAnswer::Refused { by: None },
                _ => return None,
            });
        }
        if let Some(rw_lock::Reply { now, answer, .. }) = is(outcome) {
            use rw_lock::Answer as It;
            return Some(match *answer {
                It::Held(hold) => HolderAnswer::Held { token: hold.token, holds: hold.holds },
                It::Released { holds, .. } => HolderAnswer::Released { holds },
                It::Refused { retry_at } | It::TooMany { retry_at } => {
                    HolderAnswer::in_use(retry_at, *now, false)
                }
                It::UpgradeRefused { retry_at } => HolderAnswer::in_use(retry_at, *now, true),
                It::NotHeld => HolderAnswer::Refused { by: None },
                _ => return None,
            });
        }
        if let Some(latch::Reply { answer, .. }) = is(outcome) {
            return Some(match *answer {
                latch::Answer::Done { left } => HolderAnswer::Left { left },
                latch::Answer::Closed { .. } => HolderAnswer::Closed,
                latch::Answer::Open => HolderAnswer::Left { left: 0 },
                latch::Answer::TooLate { .. } => return None,
            });
        }
        HolderAnswer::of_look(outcome).or_else(|| HolderAnswer::of_value(outcome))
    }

    fn of_lock(lock::Reply { answer, .. }: &lock::Reply) -> Option<HolderAnswer> {
        Some(match *answer {
            lock::Answer::Held(hold) => HolderAnswer::Held { token: hold.token, holds: hold.holds },
            lock::Answer::Released { holds, .. } => HolderAnswer::Released { holds },
            lock::Answer::Refused(by) => HolderAnswer::Refused { by: by.map(|by| by.hold.token) },
            lock::Answer::Queued { ahead, .. } => HolderAnswer::Queued { ahead },
            lock::Answer::TooLate { .. } => return None,
        })
    }

    fn of_look(outcome: &AnyOutcome) -> Option<HolderAnswer> {
        if let Some(lock::Inspection { holder, queued, .. }) = outcome.downcast_ref() {
            let tokens = holder.iter().map(|holder| holder.hold.token).collect();
            return Some(HolderAnswer::Inspected { tokens, count: *queued });
        }
        if let Some(semaphore::Inspection { used, grants, .. }) = outcome.downcast_ref() {
            let tokens = grants.iter().map(|(_, grant)| grant.token).collect();
            return Some(HolderAnswer::Inspected { tokens, count: *used });
        }
        if let Some(rw_lock::Inspection { holders, .. }) = outcome.downcast_ref() {
            let tokens = holders.iter().map(|holder| holder.hold.token).collect();
            return Some(HolderAnswer::Inspected { tokens, count: 0 });
        }
        if let Some(left) = outcome.downcast_ref::<<latch::Reset as Command>::Outcome>() {
            return Some(HolderAnswer::Forgot { left: *left });
        }
        let seen = outcome.downcast_ref::<latch::Inspection>()?;
        Some(HolderAnswer::Left { left: seen.left })
    }

    fn of_value(outcome: &AnyOutcome) -> Option<HolderAnswer> {
        let kept = |kept: &Option<Kept>| HolderAnswer::Kept {
            value: kept.as_ref().map(|kept| kept.value.clone()),
        };
        if let Some(found) = outcome.downcast_ref::<Option<Kept>>() {
            return Some(kept(found));
        }
        if let Some(read) = outcome.downcast_ref::<Access<Option<Kept>>>() {
            return Some(match read {
                Access::Accepted(found) => kept(found),
                Access::Stale { newest } => HolderAnswer::Stale { newest: *newest },
            });
        }
        Some(match outcome.downcast_ref::<Access<()>>()? {
            Access::Accepted(()) => HolderAnswer::Accepted,
            Access::Stale { newest } => HolderAnswer::Stale { newest: *newest },
        })
    }

    fn in_use(until: Timestamp, now: Timestamp, is_upgrade: bool) -> HolderAnswer {
        HolderAnswer::in_use_for(until.saturating_since(now), is_upgrade)
    }

    /// Returns the answer that it is in use for this long.
    pub(in crate::simulation) fn in_use_for(span: Duration, is_upgrade: bool) -> HolderAnswer {
        HolderAnswer::InUse { for_us: span.as_micros() as u64, is_upgrade } // far below 2^63
    }
}

impl fmt::Display for HolderAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
