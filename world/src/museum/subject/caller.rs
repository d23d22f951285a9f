//! A client's side of the lock: its requests under way, when it counts on an answer, and its
//! renewals.

use std::collections::BTreeMap;
use std::time::Duration;

use lockage_core::flow::{Renewals, own_deadline};
use lockage_core::lock::{Answer, HoldId, Operation};
use lockage_core::{Command, Record};

use super::lock::{lock, owner};
use super::timestamp;
use crate::museum::stage::Subject;
use crate::museum::step::{Deed, Hold, Seen, Step};

/// The checks that a client makes. The shipped flow makes both.
#[derive(Clone, Copy)]
pub(in crate::museum) struct Checks {
    /// Whether it checks that its own deadline is still to come when it learns of its grant.
    pub(in crate::museum) deadline: bool,
    /// Whether it renews only a lease whose answer a caller still waits for.
    pub(in crate::museum) is_wanted: bool,
}

/// Clients that use the lock's machine. Each has one request at most.
pub(in crate::museum) struct Caller {
    checks: Checks,
    lease_us: u64,
    slot: Option<Record>,
    acquires: u128,
    requests: BTreeMap<char, Request>,
    renewals: Renewals<char>,
}

#[derive(Clone, Copy)]
struct Request {
    id: HoldId,
    sent_us: u64,
    /// Whether it was granted, once it has arrived at the store.
    answer: Option<bool>,
    is_heard: bool,
    is_given_up: bool,
}

impl Caller {
    pub(in crate::museum) fn of(lease_us: u64, checks: Checks) -> Box<dyn Subject> {
        let (requests, renewals) = (BTreeMap::new(), Renewals::new());
        Box::new(Caller { checks, lease_us, slot: None, acquires: 0, requests, renewals })
    }

    fn acquire(&mut self, at_us: u64, who: char, id: HoldId, not_after_us: u64) -> bool {
        let acquire = lock(self.lease_us).acquire(owner(who), id, timestamp(not_after_us));
        self.run(at_us, acquire)
    }

    fn release(&mut self, at_us: u64, who: char, id: HoldId) {
        self.run(at_us, lock(self.lease_us).release(owner(who), id));
    }

    fn run(&mut self, at_us: u64, operation: Operation) -> bool {
        let reply = operation.apply(&mut self.slot, timestamp(at_us));
        matches!(reply.expect("the slot is this lock's").answer, Answer::Held(_))
    }

    fn next_id(&mut self) -> HoldId {
        self.acquires += 1;
        HoldId::from_u128(self.acquires)
    }

    /// A client learns that its request was granted.
    fn hear(&mut self, at_us: u64, who: char, request: Request) -> Seen {
        if request.is_given_up && self.checks.is_wanted {
            self.release(at_us, who, request.id);
            return Seen::Nothing;
        }
        let (now, sent) = (Duration::from_micros(at_us), Duration::from_micros(request.sent_us));
        let lease = Duration::from_micros(self.lease_us);
        if self.checks.deadline && own_deadline(sent, lease) <= now {
            return Seen::Refused;
        }
        self.renewals.watch(who, sent, lease, None);
        if request.is_given_up { Seen::Nothing } else { Seen::Held(Hold::default()) }
    }

    /// Renews leases over a span, each at its time and answered at once.
    fn renew(&mut self, from_us: u64, until_us: u64) {
        let mut now = Duration::from_micros(from_us);
        loop {
            let plan = self.renewals.plan(now, usize::MAX, Duration::MAX);
            for who in plan.renew {
                let renew = lock(self.lease_us).renew(owner(who), None);
                let at_us = u64::try_from(now.as_micros()).expect("traces are short");
                if self.run(at_us, renew) {
                    self.renewals.renewed(&who, now);
                } else {
                    self.renewals.forget(&who);
                }
            }
            match self.renewals.plan(now, 0, Duration::MAX).wake_at {
                Some(next) if next <= Duration::from_micros(until_us) => now = next,
                _ => return,
            }
        }
    }
}

impl Subject for Caller {
    fn reset(&mut self) {
        (self.slot, self.acquires) = (None, 0);
        self.requests.clear();
        self.renewals = Renewals::new();
    }

    fn step(&mut self, at_us: u64, step: Step) -> Option<Seen> {
        let (who, deed) = match step {
            Step::Wait(span) => {
                self.renew(at_us, at_us + span);
                return Some(Seen::Nothing);
            }
            Step::By(who, deed) => (who, deed),
        };
        if deed == Deed::Send && !self.requests.contains_key(&who) {
            let (id, sent_us) = (self.next_id(), at_us);
            let request =
                Request { id, sent_us, answer: None, is_heard: false, is_given_up: false };
            self.requests.insert(who, request);
            return Some(Seen::Nothing);
        }
        if let Deed::Lock(_) = deed {
            let id = self.next_id();
            let is_held = self.acquire(at_us, who, id, at_us);
            return Some(if is_held { Seen::Held(Hold::default()) } else { Seen::Refused });
        }
        let mut request = *self.requests.get(&who)?;
        let seen = match (deed, request.answer) {
            (Deed::Arrive, None) => {
                let is_held = self.acquire(at_us, who, request.id, request.sent_us + self.lease_us);
                request.answer = Some(is_held);
                if is_held { Seen::Held(Hold::default()) } else { Seen::Refused }
            }
            (Deed::Hear, Some(is_held)) if !request.is_heard => {
                request.is_heard = true;
                if is_held { self.hear(at_us, who, request) } else { Seen::Refused }
            }
            (Deed::GiveUp, _) if !request.is_heard && !request.is_given_up => {
                request.is_given_up = true;
                self.release(at_us, who, request.id);
                Seen::Nothing
            }
            _ => return None,
        };
        self.requests.insert(who, request);
        Some(seen)
    }

    fn stored(&mut self) -> String {
        self.slot.as_ref().map(|record| format!("{:?}", record.stored())).unwrap_or_default()
    }
}
