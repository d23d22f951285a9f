//! What must hold, told from what programs were told and what the store has done.

use std::collections::BTreeMap;
use std::fmt;

use lockage_core::{Decision, Origin, Verdict};
use serde::{Deserialize, Serialize};

use super::plan::{Plan, What};

/// What a program was told, or did. All but decisions can be written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // each is what it holds
pub enum Seen {
    Asked {
        id: usize,
        cost: u64,
    },
    /// What it has asked for since then.
    #[serde(skip)]
    Decided {
        id: usize,
        cost: u64,
        since_us: u64,
        decision: Decision,
    },
    /// A call for so much was not answered, or refused by a store that is not well.
    Failed {
        cost: u64,
        is_unknown: bool,
    },
    /// It holds this, and will until this true time at least.
    Holds {
        job: usize,
        what: What,
        token: u64,
        until_us: u64,
    },
    /// It does not act on it any more.
    Left {
        job: usize,
        what: What,
    },
    Result {
        result: String,
    },
    Leaked {
        what: String,
    },
    Ended {
        job: usize,
    },
    /// An answer that nothing in the world explains.
    Wrong {
        what: String,
    },
}

/// What did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of thing it is.
    pub kind: Kind,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it does not hold that {}: {}", self.kind, self.what)
    }
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// More was told to be admitted than the store has charged.
    Uncharged,
    /// More was charged than was asked for: a request was charged twice.
    ChargedTwice,
    /// More was admitted than the limit allows (E1 to E5).
    Envelope,
    /// A request was denied here that the store would admit.
    FalseDenial,
    /// A permit was spent that was taken ahead longer ago than its lease.
    SpentLate,
    /// Two hold what one can, by their own clocks (L1, L6).
    Exclusion,
    /// One result became two.
    RanTwice,
    /// Something stays taken that nobody holds.
    Leak,
    /// A job does not end.
    Starved,
    /// An error that nothing explains.
    Error,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Uncharged => "no more is told to be admitted than the store has charged",
            Kind::ChargedTwice => "each request is charged once at most",
            Kind::Envelope => "what is admitted is within the envelope of its limit",
            Kind::FalseDenial => "what is denied without the store, the store denies",
            Kind::SpentLate => "permits are spent within their lease",
            Kind::Exclusion => "nobody holds what another one holds, until its own deadline",
            Kind::RanTwice => "what runs once has one result",
            Kind::Leak => "what nobody holds is free",
            Kind::Starved => "every job ends once all is well",
            Kind::Error => "errors are the store's",
        })
    }
}

#[derive(Default)]
struct Account {
    asked: u64,
    /// What was told to be admitted.
    told: u64,
    /// What the store has charged, and when.
    charges: Vec<(u64, u64)>,
    charged: u64,
}

pub(super) struct Judge {
    has_prefetch: bool,
    /// After a charge, its permits may be spent for so long.
    lease_us: u64,
    permits: u64,
    accounts: [Account; 2],
    holders: BTreeMap<(usize, What), Holder>,
    result: Option<String>,
}

struct Holder {
    until_us: u64,
    token: u64,
}

impl Judge {
    pub(super) fn new(plan: &Plan) -> Self {
        let lease_us = plan.options.prefetch.map_or(0, |(_, lease_us)| lease_us);
        Judge {
            has_prefetch: plan.options.prefetch.is_some(),
            lease_us: lease_us + lease_us / 1000 + 1,
            permits: plan.permits,
            accounts: Default::default(),
            holders: BTreeMap::new(),
            result: None,
        }
    }

    /// The store has charged something.
    pub(super) fn charged(&mut self, id: usize, amount: u64, now_us: u64) -> Result<(), Fault> {
        let account = &mut self.accounts[id];
        account.charged += amount;
        account.charges.push((now_us, amount));
        if !self.has_prefetch && account.charged > account.asked {
            let Account { charged, asked, .. } = account;
            return fault(
                Kind::ChargedTwice,
                format!("{charged} are charged, and {asked} were asked for"),
            );
        }
        Ok(())
    }

    /// A program was told something. `would_deny` asks the store now.
    pub(super) fn saw(
        &mut self,
        seen: Seen,
        now_us: u64,
        would_deny: impl FnOnce(usize, u64) -> bool,
    ) -> Result<(), Fault> {
        match seen {
            Seen::Asked { id, cost } => self.accounts[id].asked += cost,
            Seen::Decided { id, cost, decision, .. } => {
                return self.decided(id, cost, &decision, now_us, would_deny);
            }
            Seen::Holds { job, what, token, until_us } => {
                self.holders.insert((job, what), Holder { until_us, token });
                return self.exclusion(now_us);
            }
            Seen::Left { job, what } => {
                self.holders.remove(&(job, what));
            }
            Seen::Result { result } => {
                let first = self.result.get_or_insert_with(|| result.clone());
                if *first != result {
                    return fault(Kind::RanTwice, format!("`{first}` and `{result}`"));
                }
            }
            Seen::Leaked { what } => return fault(Kind::Leak, format!("{what} is taken")),
            Seen::Wrong { what } => return fault(Kind::Error, what),
            Seen::Ended { .. } | Seen::Failed { .. } => {}
        }
        Ok(())
    }

    fn decided(
        &mut self,
        id: usize,
        cost: u64,
        decision: &Decision,
        now_us: u64,
        would_deny: impl FnOnce(usize, u64) -> bool,
    ) -> Result<(), Fault> {
        let account = &mut self.accounts[id];
        match (decision.verdict, decision.origin) {
            (Verdict::Allowed, origin) => {
                account.told += cost;
                if account.told > account.charged {
                    let Account { told, charged, .. } = account;
                    let what = format!("{told} are told to be admitted, and {charged} are charged");
                    return fault(Kind::Uncharged, what);
                }
                let since_us = now_us.saturating_sub(self.lease_us);
                let recent =
                    account.charges.iter().rev().take_while(|(at_us, _)| *at_us >= since_us);
                if origin == Origin::Prefetch
                    && recent.map(|(_, amount)| amount).sum::<u64>() < cost
                {
                    return fault(
                        Kind::SpentLate,
                        format!("nothing was charged since {since_us} us"),
                    );
                }
                Ok(())
            }
            (Verdict::Denied { .. }, Origin::DenyCache) if !would_deny(id, cost) => {
                fault(Kind::FalseDenial, format!("a cost of {cost} would be admitted"))
            }
            _ => Ok(()),
        }
    }

    /// The future of a job was dropped, and its guard with it.
    pub(super) fn cancelled(&mut self, job: usize) {
        self.holders.retain(|(of, _), _| *of != job);
    }

    fn exclusion(&self, now_us: u64) -> Result<(), Fault> {
        let live = self.holders.iter().filter(|(_, holder)| holder.until_us > now_us);
        let (mut locks, mut permits, mut readers, mut writers) = (0, 0, 0, 0);
        for ((_, what), _) in live.clone() {
            match what {
                What::Lock { .. } => locks += 1,
                What::Permits(count) => permits += count,
                What::Read => readers += 1,
                What::Write => writers += 1,
            }
        }
        let is_shared =
            locks > 1 || permits > self.permits || writers > 1 || writers == 1 && readers > 0;
        if is_shared {
            let all: Vec<_> = live
                .map(|((job, what), Holder { token, until_us })| {
                    format!("job {job} has {what:?} by token {token} until {until_us} us")
                })
                .collect();
            return fault(Kind::Exclusion, all.join(", "));
        }
        Ok(())
    }
}

pub(super) fn fault(kind: Kind, what: String) -> Result<(), Fault> {
    Err(Fault { kind, what })
}
