//! What limiters have admitted, beside what their store has charged.

use std::collections::BTreeMap;
use std::time::Duration;

use lockage_core::{Decision, Limit, Origin, Settlement, Verdict};
use lockage_oracle::config::Config;
use lockage_oracle::envelope;

use super::{Fault, Kind, Oracle, fault};
use crate::simulation::jobs::IDS;
use crate::simulation::plan::{Instead, Plan, Verb};

pub(in crate::simulation) struct Accounts {
    limit: Limit,
    fallback: Option<Instead>,
    nodes: u64,
    has_prefetch: bool,
    /// Whether a caller may ask for more than it was asked: ahead, or again after the fallback has denied.
    may_ask_more: bool,
    /// Whether what another process does to the limit may make room.
    is_denial_sure: bool,
    /// Whether nothing but charges changes what is left.
    only_charges: bool,
    /// Whether no copy of a request that was denied may be admitted later: none has an id.
    is_denial_final: bool,
    is_queue: bool,
    /// Whether nothing comes under another limit.
    is_one_limit: bool,
    is_stored: bool,
    is_shadow: bool,
    is_shaken: bool,
    /// By how much more than it said a caller may wait, where nothing goes wrong.
    longest_call_us: Option<u64>,
    /// After a charge, its permits may be spent for so long.
    lease_us: u64,
    accounts: [Account; IDS.len()],
    /// What was denied, or said not to be done.
    not_done: u64,
    /// The share of each life of a node, for each id.
    shares: BTreeMap<((usize, u32), usize), Share>,
    /// How many changes are under way, or may still be.
    changing: i32,
}

#[derive(Default)]
struct Account {
    asked: u64,
    /// What was told to be admitted.
    told: u64,
    /// What the store has charged, and when.
    charges: Vec<(u64, u64)>,
    charged: u64,
    /// Decisions of the store that no job was told yet.
    decisions: Vec<(u64, Decision)>,
}

/// What a share has charged, and when by its clock, and what was told to be admitted by it.
#[derive(Default)]
struct Share {
    charges: Vec<(u64, i128)>,
    told: i128,
}

/// An answer: for which id and cost, to a call that began then, in a poll that began then, of which life of a node.
pub(super) struct Told {
    pub(super) id: usize,
    pub(super) cost: u64,
    pub(super) since_us: u64,
    pub(super) polled_us: u64,
    pub(super) life: (usize, u32),
}

impl Accounts {
    pub(super) fn new(plan: &Plan) -> Self {
        let lease_us = plan.options.prefetch.map_or(0, |(_, lease_us)| lease_us);
        let loosens = plan.asks(Verb::loosens);
        let may_ask_more = plan.options.prefetch.is_some() || plan.options.fallback.is_some();
        // Ids of requests are forgotten with all else.
        let forgets = plan.asks(|verb| matches!(verb, Verb::Reset | Verb::Store | Verb::Under));
        let is_per_client = plan.options.stored.is_some_and(|stored| stored.is_per_client);
        let has_id = |verb| matches!(verb, Verb::Once | Verb::Reserve { .. });
        Accounts {
            limit: plan.limit,
            fallback: plan.options.fallback,
            nodes: plan.ppm.len() as u64,
            has_prefetch: plan.options.prefetch.is_some(),
            may_ask_more: may_ask_more || forgets,
            is_denial_sure: (plan.ppm.len() == 1 || !loosens) && !is_per_client,
            only_charges: !loosens && plan.options.stored.is_none(),
            is_denial_final: !plan.options.idempotency && !plan.asks(has_id),
            is_queue: plan.limit.parts().any(|part| matches!(part, Limit::LeakyBucket(_))),
            is_one_limit: plan.options.stored.is_none() && !plan.asks(|verb| verb == Verb::Under),
            is_stored: plan.options.stored.is_some(),
            is_shadow: plan.options.shadow,
            is_shaken: false,
            longest_call_us: plan.is_calm().then_some(plan.timeout_us),
            lease_us: lease_us + lease_us / 1000 + 1,
            accounts: Default::default(),
            not_done: 0,
            shares: BTreeMap::new(),
            changing: 0,
        }
    }

    pub(super) fn shaken(&mut self) {
        self.is_shaken = true;
    }

    /// Something was given back after its caller was told that nothing was.
    pub(in crate::simulation) fn changed_late(&mut self) {
        self.is_denial_sure = false;
    }

    pub(super) fn changes(&mut self, more: i32) {
        self.changing += more;
    }

    /// Whether a reservation was settled with this cost, or ended, as its caller was told.
    pub(super) fn is_settled(
        &self,
        actual: u64,
        told: &Settlement,
        store: impl Fn(u64) -> Settlement,
    ) -> bool {
        if self.is_shaken || !self.is_one_limit {
            return true;
        }
        let is_open = || matches!(store(actual + 1), Settlement::Settled { .. });
        match told {
            Settlement::Settled { .. } => store(actual) != Settlement::AlreadySettled && !is_open(),
            Settlement::Expired => !is_open(),
            _ => false,
        }
    }

    pub(super) fn overdue(&self, id: usize, by_us: u64) -> Result<(), Fault> {
        match self.longest_call_us {
            Some(longest_us) if by_us > longest_us => {
                fault(Kind::TooLong, format!("a wait for `{}` ends {by_us} us too late", IDS[id]))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn asked(&mut self, id: usize, cost: u64) {
        self.accounts[id].asked += cost;
    }

    /// The store has charged something.
    pub(in crate::simulation) fn charged(
        &mut self,
        id: usize,
        amount: u64,
        now_us: u64,
    ) -> Result<(), Fault> {
        let account = &mut self.accounts[id];
        account.charged += amount;
        account.charges.push((now_us, amount));
        // Ids are forgotten with what a failover loses, and by a clock that jumps.
        if !self.may_ask_more && !self.is_shaken && account.charged > account.asked {
            let Account { charged, asked, .. } = account;
            let what = format!("{charged} are charged, and {asked} were asked for");
            return fault(Kind::ChargedTwice, what);
        }
        self.add_up()?;
        let account = &self.accounts[id];
        if self.only_charges && !self.is_shaken {
            let charges = account.charges.iter().map(|(at_us, cost)| (*at_us, i128::from(*cost)));
            within(self.limit, charges.rev())?;
        }
        Ok(())
    }

    /// A request of this cost was denied or not done: nothing of it is charged, then or later.
    pub(super) fn not_done(&mut self, cost: u64) -> Result<(), Fault> {
        self.not_done += cost;
        self.add_up()
    }

    fn add_up(&self) -> Result<(), Fault> {
        let sum = |of: fn(&Account) -> u64| self.accounts.iter().map(of).sum::<u64>();
        let (charged, asked) = (sum(|it| it.charged), sum(|it| it.asked));
        let not_done = self.not_done;
        if !self.may_ask_more && !self.is_shaken && charged > asked - not_done {
            let what =
                format!("{charged} are charged, of {asked}, and {not_done} are denied or not done");
            return fault(Kind::ChargedTwice, what);
        }
        Ok(())
    }

    /// The store has decided something.
    pub(in crate::simulation) fn stored(
        &mut self,
        id: usize,
        decisions: impl Iterator<Item = Decision>,
        now_us: u64,
    ) {
        if !self.has_prefetch {
            self.accounts[id].decisions.extend(decisions.map(|decision| (now_us, bare(decision))));
        }
    }

    pub(super) fn decided(
        &mut self,
        told: &Told,
        decision: Decision,
        store: &impl Oracle,
    ) -> Result<(), Fault> {
        if self.is_shadow && decision.verdict != Verdict::Allowed {
            return fault(Kind::FalseDenial, "shadow mode does not let it through".to_owned());
        }
        let (verdict, origin) = (decision.shadow.unwrap_or(decision.verdict), decision.origin);
        if verdict != Verdict::Allowed && self.is_denial_final {
            self.not_done(told.cost)?;
        }
        match (verdict, origin) {
            (_, Origin::Fallback) => return self.stood_in(told, decision),
            (Verdict::Allowed, _) => self.admitted(told, origin)?,
            // While something is given back, it is unknown whether it is yet.
            (Verdict::Denied { .. }, Origin::DenyCache)
                if self.changing == 0
                    && self.is_denial_sure
                    && !self.is_shaken
                    && !self.is_queue
                    && !store.would_deny(told.id, told.cost) =>
            {
                let what = format!("a cost of {} would be admitted", told.cost);
                return fault(Kind::FalseDenial, what);
            }
            _ => {}
        }
        if origin == Origin::Store && !self.has_prefetch {
            return self.accounts[told.id].tell(told, bare(decision));
        }
        Ok(())
    }

    fn admitted(&mut self, told: &Told, origin: Origin) -> Result<(), Fault> {
        let account = &mut self.accounts[told.id];
        let polled_us = told.polled_us;
        account.told += told.cost;
        if account.told > account.charged {
            let Account { told, charged, .. } = account;
            let what = format!("{told} are told to be admitted, and {charged} are charged");
            return fault(Kind::Uncharged, what);
        }
        // It was spent since its task was polled. What was charged since then it did not know yet.
        let since_us = polled_us.saturating_sub(self.lease_us);
        let recent = account.charges.iter().rev().take_while(|(at_us, _)| *at_us >= since_us);
        let recent: u64 =
            recent.filter(|(at_us, _)| *at_us <= polled_us).map(|(_, amount)| amount).sum();
        if origin == Origin::Prefetch && recent < told.cost {
            return fault(Kind::SpentLate, format!("{recent} were charged since {since_us} us"));
        }
        Ok(())
    }

    /// The fallback has decided.
    fn stood_in(&mut self, told: &Told, decision: Decision) -> Result<(), Fault> {
        if self.is_shadow {
            return Ok(());
        }
        match (self.fallback, decision.verdict) {
            (Some(Instead::Closed), Verdict::Allowed) => {
                fault(Kind::Uncharged, "the fallback admits what it should deny".to_owned())
            }
            (Some(Instead::Open), Verdict::Denied { .. }) => {
                fault(Kind::FalseDenial, "the fallback denies what it should admit".to_owned())
            }
            (Some(Instead::Share), Verdict::Allowed) if !self.is_stored => {
                let share = self.shares.entry((told.life, told.id)).or_default();
                share.told += i128::from(told.cost);
                let charged: i128 = share.charges.iter().map(|(_, cost)| cost).sum();
                if share.told > charged {
                    let what =
                        format!("{} are told to be admitted by a share of {charged}", share.told);
                    return fault(Kind::Uncharged, what);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The share of a life of a node has charged something for an id.
    pub(super) fn shared(
        &mut self,
        of: ((usize, u32), usize),
        cost: u64,
        clock_us: u64,
    ) -> Result<(), Fault> {
        let charges = &mut self.shares.entry(of).or_default().charges;
        charges.push((clock_us, i128::from(cost)));
        // What one limit has forgotten another one cannot know: no envelope holds for a key that is under both by turns.
        match self.limit.share(self.nodes) {
            _ if !self.is_one_limit => Ok(()),
            Ok(share) => within(share, charges.iter().rev().copied()),
            Err(_) => fault(Kind::Envelope, "there is no share".to_owned()),
        }
    }
}

impl Account {
    /// A caller is told this, which was decided since it asked.
    fn tell(&mut self, told: &Told, decision: Decision) -> Result<(), Fault> {
        let is_it = |known: &(u64, Decision)| known.0 >= told.since_us && known.1 == decision;
        match self.decisions.iter().position(is_it) {
            Some(index) => {
                drop(self.decisions.remove(index));
                Ok(())
            }
            None => fault(Kind::Untold, format!("{decision:?} for a cost of {}", told.cost)),
        }
    }
}

/// A decision without what is the caller's own.
fn bare(mut decision: Decision) -> Decision {
    decision.verdict = decision.shadow.take().unwrap_or(decision.verdict);
    decision.turn_after = Duration::ZERO;
    decision
}

/// E1 to E5, for all spans that end with the latest.
fn within(
    limit: Limit,
    latest_first: impl Iterator<Item = (u64, i128)> + Clone,
) -> Result<(), Fault> {
    for part in limit.parts() {
        let config = Config::from(part);
        let most = |length_us| envelope::bound(&config, length_us);
        if let Some(excess) = envelope::excess(latest_first.clone(), most) {
            let what = format!("{}: {excess:?}", envelope::property(&config));
            return fault(Kind::Envelope, what);
        }
    }
    Ok(())
}
