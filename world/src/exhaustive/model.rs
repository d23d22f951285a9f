//! The possible next steps in a scope, for the model checker.

use std::fmt;
use std::sync::Arc;

use lockage_oracle::lock::laws::Case;
use stateright::{Model, Property};

use super::judge::{Law, frees_itself, judge, leases_are_live};
use super::machine::{Ask, Machine, Request, Told, letter, owner_id};
use super::reached::{Coverage, Reached};
use super::scope::{Allowed, SPAN, Scope};
use super::state::{Grant, Owner, State, Store, inspect};

/// A scope, and the machine that the search runs in it.
pub(super) struct LockModel {
    pub(super) scope: Scope,
    pub(super) machine: Arc<dyn Machine>,
    pub(super) reached: Arc<Reached>,
}

/// A possible step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    /// An owner sends an operation.
    Send { owner: usize, ask: Ask },
    /// An owner asks whether its acquire was granted, and requests nothing new.
    AskAgain { request: Request },
    /// A request arrives, for the first time or again.
    Arrive { request: Request },
    /// An answer arrives.
    Hear { owner: usize, told: Told },
    /// An owner stops waiting for the answer.
    GiveUp { owner: usize },
    /// Time passes.
    Tick,
    /// The replica catches up.
    Replicate,
    /// The replica takes over.
    FailOver,
}

impl Model for LockModel {
    type State = State;
    type Action = Happening;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(&self.scope)]
    }

    fn actions(&self, state: &State, happenings: &mut Vec<Happening>) {
        // A record that is dropped too soon (D9) shows in later answers.
        if state.broke.iter().any(|law| *law != Law::D9) {
            return;
        }
        for (at, owner) in state.owners.iter().enumerate() {
            self.sends(state, at, owner, happenings);
            let arrive = |request: &Request| Happening::Arrive { request: *request };
            happenings.extend(owner.under_way.iter().map(arrive));
            let hear = |told: &Told| Happening::Hear { owner: at, told: *told };
            happenings.extend(owner.answers.iter().map(hear));
            if owner.pending.is_some() {
                happenings.push(Happening::GiveUp { owner: at });
            }
            // All unused owners are alike, so the first to act may be called A.
            if owner.used == 0 {
                break;
            }
        }
        if state.now < self.scope.ticks {
            happenings.push(Happening::Tick);
        }
        if state.replica.as_ref().is_some_and(|replica| *replica != state.store) {
            happenings.extend([Happening::Replicate, Happening::FailOver]);
        }
    }

    fn next_state(&self, state: &State, happening: Happening) -> Option<State> {
        let mut next = state.clone();
        match happening {
            Happening::Send { owner, ask } => send(&mut next, owner, ask),
            Happening::AskAgain { request } => {
                let owner = &mut next.owners[request.owner];
                owner.unsettled = None;
                owner.used += 1;
                owner.pending = Some(request);
                owner.under_way.insert(request);
            }
            Happening::Arrive { request } => {
                self.arrive(&mut next, &request);
                if next == *state {
                    return None;
                }
            }
            Happening::Hear { owner, told } => self.hear(&mut next, owner, told),
            Happening::GiveUp { owner } => self.give_up(&mut next.owners[owner]),
            Happening::Tick => self.tick(&mut next),
            Happening::Replicate => next.replica = Some(Arc::clone(&next.store)),
            Happening::FailOver => {
                let replica = next.replica.take().expect("it was there to be chosen");
                next.failovers += 1;
                let mut store = Store::clone(&replica.at(next.now));
                store.laws.follow(&next.store.laws);
                next.store = Arc::new(store);
                next.replica =
                    (next.failovers < self.scope.failovers).then(|| Arc::clone(&next.store));
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let holds_in_steps = [
            Property::always("D9", |_, state: &State| !state.broke.contains(&Law::D9)),
            Property::always("L2", |_, state: &State| !state.broke.contains(&Law::L2)),
            Property::always("L3", |_, state: &State| !state.broke.contains(&Law::L3)),
            Property::always("L4", |_, state: &State| !state.broke.contains(&Law::L4)),
            Property::always("L5", |_, state: &State| !state.broke.contains(&Law::L5)),
            Property::always("L8", |model: &LockModel, state: &State| {
                !state.broke.contains(&Law::L8) && frees_itself(&model.scope, state)
            }),
            Property::always("L9", |_, state: &State| !state.broke.contains(&Law::L9)),
            Property::always("L10", |_, state: &State| !state.broke.contains(&Law::L10)),
            // These laws hold until a failover, and are not promised after it.
            Property::always("L1", |_, state: &State| {
                !state.broke.contains(&Law::L1)
                    && (state.failovers > 0 || state.inside().count() < 2)
            }),
            Property::always("L6", |_, state: &State| {
                state.failovers > 0 || leases_are_live(state)
            }),
        ];
        let overlap = Property::sometimes("L11", |_, state: &State| {
            state.failovers > 0 && state.inside().count() > 1
        });
        let found = (self.scope.failovers > 0).then_some(overlap);
        holds_in_steps.into_iter().chain(found).collect()
    }
}

impl LockModel {
    fn sends(&self, state: &State, at: usize, owner: &Owner, happenings: &mut Vec<Happening>) {
        if owner.used == self.scope.operations {
            return;
        }
        let allows = |what| self.scope.allows(what);
        let mut send = |ask| happenings.push(Happening::Send { owner: at, ask });
        // A release need not wait: it may cross requests under way.
        for hold in owner.grant.iter().flat_map(Grant::holds) {
            send(Ask::Release { hold });
        }
        if allows(Allowed::ForceRelease)
            && let Some(token) = self.to_break(state, at)
        {
            send(Ask::ForceRelease { token });
        }
        if owner.pending.is_some() {
            return;
        }
        let not_after = state.now + self.scope.patience;
        match owner.grant {
            Some(Grant { token, .. }) => {
                if allows(Allowed::Renew) {
                    send(Ask::Renew { token });
                }
                if allows(Allowed::Reentry) {
                    send(Ask::Acquire { not_after });
                }
            }
            None if allows(Allowed::Line) => {
                send(Ask::LineUp { not_after, span: SPAN });
                if owner.used > 0 {
                    send(Ask::Withdraw);
                }
            }
            None => send(Ask::Acquire { not_after }),
        }
        if let Some(request) = owner.unsettled {
            let ask = Ask::Acquire { not_after: 0 };
            let request = Request { ask, sent: state.now, ..request };
            happenings.push(Happening::AskAgain { request });
        }
    }

    /// Returns the token of another owner's live grant.
    fn to_break(&self, state: &State, at: usize) -> Option<u64> {
        let mut slot = state.store.slot.clone();
        let holder = inspect(&self.scope, &mut slot, state.now).holder?;
        (holder.owner != owner_id(at)).then_some(holder.hold.token)
    }

    /// Runs a request on the store and returns its answer.
    pub(super) fn arrive(&self, state: &mut State, request: &Request) -> Told {
        let now = state.now;
        let mut slot = state.store.slot.clone();
        let told = self.machine.run(&self.scope.lock(), request, &mut slot, now);
        let judged = judge(&self.scope, state, request, told, &slot);
        self.reached.step(&judged, now);
        if let (Ask::ForceRelease { token }, true) =
            (request.ask, judged.cases.contains(&Case::Freed))
        {
            state.broken.push(token);
        }
        if slot != state.store.slot || judged.laws != state.store.laws {
            state.store = Arc::new(Store::new(slot, judged.laws));
        }
        let owner = &mut state.owners[request.owner];
        if owner.pending == Some(*request) {
            owner.answers.insert(told);
        }
        state.broke = judged.broken;
        told
    }

    fn hear(&self, state: &mut State, at: usize, told: Told) {
        let now = state.now;
        let owner = &mut state.owners[at];
        let request = owner.pending.take().expect("an answer is to something");
        owner.answers.clear();
        let until = self.scope.believed_until(request.sent);
        match (request.ask, told) {
            (Ask::Acquire { not_after: 0 }, Told::Done { .. }) => {
                give_back(state, &request, self.scope.operations);
            }
            (Ask::Acquire { .. } | Ask::LineUp { .. }, Told::Done { token, .. }) => {
                if now >= until {
                    self.reached.mark(Coverage::AnswerAfterLease);
                    return give_back(state, &request, self.scope.operations);
                }
                let before = owner.grant.filter(|grant| grant.token == token);
                let holds = before.map_or(0, |grant| grant.holds) | 1 << request.operation;
                let until = before.map_or(until, |grant| grant.until.max(until));
                owner.grant = Some(Grant { token, holds, until });
            }
            (Ask::Renew { token }, Told::Done { .. }) => {
                if let Some(grant) = owner.grant.as_mut().filter(|grant| grant.token == token) {
                    grant.until = grant.until.max(until);
                }
            }
            (Ask::Renew { token }, _) => {
                owner.grant = owner.grant.filter(|grant| grant.token != token);
            }
            _ => {}
        }
    }

    fn give_up(&self, owner: &mut Owner) {
        let request = owner.pending.take();
        owner.answers.clear();
        let is_acquire = |request: &Request| matches!(request.ask, Ask::Acquire { .. });
        if self.scope.allows(Allowed::Settle) {
            owner.unsettled = request.filter(is_acquire).or(owner.unsettled);
        }
    }

    fn tick(&self, state: &mut State) {
        state.now += 1;
        let now = state.now;
        state.store = state.store.at(now);
        state.replica = state.replica.take().map(|replica| replica.at(now));
        for owner in &mut state.owners {
            owner.under_way.retain(|request| now <= request.sent + self.scope.delay);
            owner.grant = owner.grant.filter(|grant| now < grant.until);
        }
    }
}

fn send(state: &mut State, at: usize, ask: Ask) {
    let owner = &mut state.owners[at];
    owner.used += 1;
    let request = Request { owner: at, operation: owner.used, sent: state.now, ask };
    owner.under_way.insert(request);
    match ask {
        Ask::Release { hold } => {
            // An owner that releases a hold is outside before the release is sent.
            let left = |grant: Grant| Grant { holds: grant.holds & !(1 << hold), ..grant };
            owner.grant = owner.grant.map(left);
            owner.grant = owner.grant.filter(|grant| grant.holds > 0);
        }
        Ask::ForceRelease { .. } | Ask::Withdraw => {}
        Ask::Acquire { .. } | Ask::LineUp { .. } | Ask::Renew { .. } => {
            owner.pending = Some(request);
        }
    }
}

/// Releases an unwanted grant of this owner, if that may still be sent.
fn give_back(state: &mut State, acquire: &Request, operations: u8) {
    let owner = &mut state.owners[acquire.owner];
    if owner.used < operations {
        owner.used += 1;
        let (ask, operation) = (Ask::Release { hold: acquire.operation }, owner.used);
        let request = Request { operation, sent: state.now, ask, ..*acquire };
        owner.under_way.insert(request);
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Happening::Send { owner, ask } => write!(f, "{} sends: {ask}", letter(*owner)),
            Happening::AskAgain { request } => {
                let Request { owner, operation, .. } = request;
                write!(f, "{} asks what became of #{operation}", letter(*owner))
            }
            Happening::Arrive { request: Request { owner, operation, ask, .. } } => {
                write!(f, "{}'s #{operation} arrives ({ask})", letter(*owner))
            }
            Happening::Hear { owner, told } => write!(f, "{} hears: {told}", letter(*owner)),
            Happening::GiveUp { owner } => write!(f, "{} waits no longer", letter(*owner)),
            Happening::Tick => write!(f, "a tick passes"),
            Happening::Replicate => write!(f, "the replica catches up"),
            Happening::FailOver => write!(f, "the replica takes over"),
        }
    }
}
