//! The checker's model of a lock: free, or held by an owner some number of times, under one token after the other,
//! each until a lease has ended. It shares nothing with the machine under test.

use std::collections::{BTreeMap, HashMap};

use super::checker::{Calls, Model, NEVER, Timed};
use super::history::{Acquired, Call, Entry, GivenBack, Holder};

/// A lock of which it is known, from its whole history, which grants there were: the tokens order them.
#[derive(Clone, Debug)]
pub struct LockModel {
    /// In the order of their tokens.
    grants: Vec<Grant>,
    /// For each number of grants, the open calls that could be done.
    open: Vec<Vec<usize>>,
}

#[derive(Clone, Debug)]
struct Grant {
    token: u64,
    owner: String,
    /// No caller got this grant as its answer, but refused callers saw it as the holder.
    orphan: bool,
    /// Its lease has not ended before this, as its holder knows.
    surely_until: u64,
    /// Its lease has ended by then, however late its last renewal was done.
    over_by: u64,
}

/// A lock at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The number of grants. The last of them is held, if any is.
    grants: usize,
    holds: u64,
    /// The holds that calls without an answer took.
    untold: u64,
}

/// A call with its answer; grants by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Granted, where it was free.
    Grant(usize),
    /// Held once more by its owner, which has this number of holds then.
    Reenter(usize, u64),
    /// Refused, since this grant had this number of holds.
    Refused(usize, u64),
    /// Given back once; this number of holds remains.
    Release(usize, u64),
    /// Not given back, since it was not held, but by this one, if by any.
    NotHeld(usize, Option<(usize, u64)>),
    /// Granted, without an answer to the caller.
    UntoldGrant(usize),
    /// Held once more, without an answer to the caller.
    UntoldReenter(usize),
    /// A grant without an answer is given back.
    UntoldReturn(usize),
    /// A hold that its owner knows of is given back, at any time.
    Return(usize),
}

/// The terms of leases and calls.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The duration of a grant (ns).
    pub lease: u64,
    /// Answers can be lost, and releases sent once more: one that is answered with "not held" may have been done
    /// before, longer ago than the lock remembers.
    pub answers_lost: bool,
}

/// Reads the history of one lock.
///
/// # Errors
/// Where no order of calls could explain the history: a token of two owners.
pub fn read(entries: &[Entry], terms: Terms) -> Result<(LockModel, Calls<Op>), String> {
    let grants = find_grants(entries, terms)?;
    let by_token: HashMap<u64, usize> =
        grants.iter().enumerate().map(|(at, grant)| (grant.token, at)).collect();
    let mut calls = Calls { answered: Vec::new(), open: Vec::new() };
    let mut at_grant: Vec<Vec<usize>> = vec![Vec::new(); grants.len()];
    let mut open = |entry: &Entry, grant: usize, op: Op, calls: &mut Calls<Op>| {
        at_grant[grant].push(calls.open.len());
        calls.open.push(Timed { invoked: entry.invoked, returned: NEVER, op });
    };
    let mut of_owner: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, grant) in grants.iter().enumerate() {
        of_owner.entry(grant.owner.as_str()).or_default().push(at);
    }
    let place = |holder: &Holder| (by_token[&holder.token], holder.holds);
    for entry in entries {
        let op = match &entry.call {
            Call::Acquire(acquired) => {
                let own = of_owner.get(entry.owner.as_str()).into_iter().flatten();
                let untold = is_untold(acquired);
                if untold || lets_go(entry, terms) {
                    for &grant in own {
                        let grant_of_none = grants[grant].orphan;
                        if untold {
                            open(entry, grant, Op::UntoldReenter(grant), &mut calls);
                        }
                        if grant_of_none {
                            open(entry, grant, Op::UntoldGrant(grant), &mut calls);
                        }
                        if untold || grant_of_none {
                            open(entry, grant, Op::UntoldReturn(grant), &mut calls);
                        }
                    }
                }
                match acquired {
                    Acquired::Granted { token, holds: 1 } => Op::Grant(by_token[token]),
                    Acquired::Granted { token, holds } => Op::Reenter(by_token[token], *holds),
                    Acquired::Held(holder) => {
                        let (grant, holds) = place(holder);
                        Op::Refused(grant, holds)
                    }
                    Acquired::NotDone | Acquired::Unknown => continue,
                }
            }
            Call::Release(token, given_back) => {
                let grant = by_token[token];
                match given_back {
                    GivenBack::Left(left) => Op::Release(grant, *left),
                    GivenBack::NotHeld(holder) => {
                        if terms.answers_lost {
                            open(entry, grant, Op::Return(grant), &mut calls);
                        }
                        Op::NotHeld(grant, holder.as_ref().map(place))
                    }
                    GivenBack::Dropped | GivenBack::Unknown => {
                        open(entry, grant, Op::Return(grant), &mut calls);
                        continue;
                    }
                }
            }
            _ => continue,
        };
        let (invoked, returned) = (entry.invoked, entry.returned);
        calls.answered.push(Timed { invoked, returned, op });
    }
    // The open calls of the current grant, and of the next one.
    let open = (0..=grants.len()).map(|made| {
        let held = made.checked_sub(1).map(|held| at_grant[held].as_slice()).unwrap_or_default();
        let next = at_grant.get(made).map(Vec::as_slice).unwrap_or_default();
        [held, next].concat()
    });
    let open = open.collect();
    Ok((LockModel { grants, open }, calls))
}

/// Returns whether it is unknown if the acquire was done. A caller whose answer came after its lease also gets
/// "not done".
fn is_untold(acquired: &Acquired) -> bool {
    matches!(acquired, Acquired::NotDone | Acquired::Unknown)
}

/// Returns whether the call took so long that its grant may have ended before the answer arrived, and was given
/// back.
fn lets_go(entry: &Entry, terms: Terms) -> bool {
    entry.returned - entry.invoked >= terms.lease / 10 * 9
}

fn find_grants(entries: &[Entry], terms: Terms) -> Result<Vec<Grant>, String> {
    let mut grants: BTreeMap<u64, Grant> = BTreeMap::new();
    let mut seen = |token: u64, owner: &str, told: bool| {
        let new =
            Grant { token, owner: owner.to_owned(), orphan: true, surely_until: 0, over_by: NEVER };
        let grant = grants.entry(token).or_insert(new);
        if grant.owner != owner {
            return Err(format!("the token {token} is that of {owner} and of {}", grant.owner));
        }
        grant.orphan &= !told;
        Ok(())
    };
    for Entry { owner, call, .. } in entries {
        match call {
            Call::Acquire(Acquired::Granted { token, holds }) => seen(*token, owner, *holds == 1)?,
            Call::Acquire(Acquired::Held(holder))
            | Call::Release(_, GivenBack::NotHeld(Some(holder))) => {
                seen(holder.token, &holder.owner, false)?;
            }
            _ => {}
        }
        if let Call::Release(token, _) = call {
            seen(*token, owner, false)?;
        }
    }
    let mut last_signs: HashMap<u64, u64> = HashMap::new();
    let mut first_asked: HashMap<&str, u64> = HashMap::new();
    for entry in entries {
        let token = match &entry.call {
            Call::Acquire(acquired) => {
                let first = first_asked.entry(&entry.owner).or_insert(NEVER);
                *first = (*first).min(entry.invoked);
                match acquired {
                    Acquired::Granted { token, .. } => *token,
                    _ => continue,
                }
            }
            Call::Release(token, _)
            | Call::Lost(token, _)
            | Call::Read(token, _)
            | Call::Write(token, ..)
            | Call::Update(token) => *token,
        };
        if let Some(grant) = grants.get_mut(&token) {
            grant.surely_until = grant.surely_until.max(entry.deadline.unwrap_or_default());
        }
        let last = last_signs.entry(token).or_default();
        *last = (*last).max(entry.returned);
    }
    for grant in grants.values_mut() {
        if grant.orphan {
            // The lease began after the request; two thousandths are for differences between clocks.
            let asked = first_asked.get(grant.owner.as_str()).copied().unwrap_or_default();
            grant.surely_until = asked.saturating_add(terms.lease - terms.lease / 500);
        } else {
            // A renewal can have been sent until then, and be done until the lease ends.
            let last = last_signs.get(&grant.token).copied().unwrap_or_default();
            grant.over_by = last.saturating_add(2 * terms.lease + terms.lease / 500);
        }
    }
    Ok(grants.into_values().collect())
}

impl Model for LockModel {
    type State = State;
    type Op = Op;

    fn start(&self) -> State {
        State { grants: 0, holds: 0, untold: 0 }
    }

    fn step(&self, state: State, call: &Timed<Op>) -> Option<State> {
        let State { grants, holds, untold } = state;
        let held = |grant: usize| {
            holds > 0 && grants == grant + 1 && call.invoked <= self.grants[grant].over_by
        };
        // Whether it is free, or could be by now.
        let free =
            || grants == 0 || holds == 0 || call.returned >= self.grants[grants - 1].surely_until;
        let granted = |grant, untold| State { grants: grant + 1, holds: 1, untold };
        let with = |holds, untold| State { grants, holds, untold };
        match call.op {
            Op::Grant(grant) => (grants == grant && free()).then_some(granted(grant, 0)),
            Op::UntoldGrant(grant) => (grants == grant && free()).then_some(granted(grant, 1)),
            Op::Reenter(grant, told) => {
                (held(grant) && holds + 1 == told).then_some(with(holds + 1, untold))
            }
            Op::UntoldReenter(grant) => held(grant).then_some(with(holds + 1, untold + 1)),
            Op::Refused(grant, told) => (held(grant) && holds == told).then_some(state),
            Op::Release(grant, left) => {
                (held(grant) && holds == left + 1).then_some(with(left, untold))
            }
            Op::Return(grant) => held(grant).then(|| with(holds - 1, untold)),
            Op::UntoldReturn(grant) => {
                (held(grant) && untold > 0).then(|| with(holds - 1, untold - 1))
            }
            Op::NotHeld(mine, Some((other, told))) => {
                (mine != other && held(other) && holds == told).then_some(state)
            }
            // A lease that has ended does not come back.
            Op::NotHeld(_, None) => free().then_some(with(0, 0)),
        }
    }

    fn open(&self, state: State) -> &[usize] {
        &self.open[state.grants]
    }
}
