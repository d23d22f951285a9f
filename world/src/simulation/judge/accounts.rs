//! The admissions of limiters, compared with the charges of their store.

mod ran;
mod unsure;

use std::collections::{BTreeMap, BTreeSet};

use lockage_core::{Decision, Limit, Origin, Settlement, Verdict};

use super::answers::{Answer, Answers, Taken, Told};
use super::asked::{Limits, Op};
use super::exempt::{Exempt, Exemptions};
use super::local::{Ages, Local};
use super::{Fault, Kind, Life, Oracle, fault};
use crate::simulation::by_part::{ByPart, add, is_within, remaining};
use crate::simulation::jobs::IDS;
use crate::simulation::plan::{Instead, Plan, Verb};
pub(in crate::simulation) use ran::Ran;
use ran::{Epoch, within};
use unsure::Unsure;

pub(in crate::simulation) struct Accounts {
    limit: Limit,
    other: Limit,
    /// Both limits, as commands name them.
    limits: Limits,
    fallback: Option<Instead>,
    nodes: u64,
    /// How many permits a limiter may take ahead.
    ahead: u64,
    lease_us: u64,
    /// How long after its decision a caller gets it, at most.
    unread_us: u64,
    /// Whether a late copy of a denied request is never admitted: no request has an id.
    is_denial_final: bool,
    /// Whether all requests are under one limit.
    is_one_limit: bool,
    is_stored: bool,
    is_shadow: bool,
    /// Whether a stored limit ends by itself, and another one takes its place.
    ends_limits: bool,
    /// Until when the store forgets something, or its clock was set.
    shaken_us: Option<u64>,
    ages: Ages,
    is_calm: bool,
    shows_circuit: bool,
    /// How much longer than its limit a caller may wait, and how long a call without a wait takes.
    longest_call_us: Option<u64>,
    ids: [Account; IDS.len()],
    /// The charges of each key, in the store and in an old primary.
    epochs: BTreeMap<(bool, String), Epoch>,
    locals: BTreeMap<(Life, usize), Local>,
    /// The cost that was denied or surely not charged, and the charges that may rightly be
    /// repetitions.
    not_done: ByPart,
    excused: ByPart,
    unsure: Unsure,
    /// The share of each life of a node, for each id.
    shares: BTreeMap<(Life, usize), Share>,
}

#[derive(Default)]
struct Account {
    asked: ByPart,
    /// The cost that may have been requested ahead.
    ahead: u64,
    /// The cost that callers saw admitted.
    told: ByPart,
    /// The cost that the store has charged.
    charged: ByPart,
    excused: ByPart,
    /// The ids of requests that were denied.
    denied: BTreeSet<Vec<u8>>,
    answers: Answers,
    /// When the store last ran a command that gives something back, or changes a grant.
    loosened_us: Option<u64>,
    /// When it last forgot the usage or the ids of requests.
    forgot_us: Option<u64>,
}

/// The charges of a share, by its clock, and the cost that callers saw it admit.
#[derive(Default)]
struct Share {
    charges: Vec<(u64, ByPart<i128>)>,
    told: ByPart<i128>,
}

impl Accounts {
    pub(super) fn new(plan: &Plan) -> Self {
        let has_id = |verb| matches!(verb, Verb::Once | Verb::Reserve { .. } | Verb::Held { .. });
        let has_id = plan.asks(has_id) || plan.asks_apart();
        Accounts {
            limit: plan.limit,
            other: plan.other,
            limits: Limits::new(plan.limit, plan.other),
            fallback: plan.options.fallback,
            nodes: plan.ppm.len() as u64,
            ahead: plan.options.prefetch.map_or(0, |(permits, _)| permits),
            lease_us: plan.options.prefetch.map_or(0, |(_, lease_us)| lease_us),
            unread_us: plan.longest_unread_us(),
            is_denial_final: !plan.options.idempotency && !has_id,
            is_one_limit: plan.options.stored.is_none() && !plan.asks(|verb| verb == Verb::Under),
            is_stored: plan.options.stored.is_some(),
            is_shadow: plan.options.shadow,
            ends_limits: plan.options.stored.is_some_and(|stored| stored.keep_us.is_some()),
            shaken_us: None,
            ages: Ages {
                longest_us: plan.options.max_age_us.unwrap_or(u64::MAX / 2),
                slack_us: plan.longest_call_us().unwrap_or(u64::MAX),
            },
            is_calm: plan.is_each_call_answered(),
            shows_circuit: plan.shows_circuit(),
            longest_call_us: plan.longest_call_us(),
            ids: Default::default(),
            epochs: BTreeMap::new(),
            locals: BTreeMap::new(),
            not_done: [0; 2],
            excused: [0; 2],
            unsure: Unsure::new(plan),
            shares: BTreeMap::new(),
        }
    }

    /// The store forgets something until then, or its clock was set.
    pub(super) fn shaken(&mut self, until_us: u64) {
        self.shaken_us = self.shaken_us.max(Some(until_us));
        self.unsure.forgets(until_us);
    }

    /// A replica has taken over, and for some nodes its primary goes on.
    pub(in crate::simulation) fn failed_over(&mut self) {
        let epochs = std::mem::take(&mut self.epochs).into_iter();
        // An older one that went on is gone.
        let of_latest = epochs.filter(|((is_old, _), _)| !is_old);
        self.epochs = of_latest.map(|((_, key), epoch)| ((true, key), epoch)).collect();
    }

    /// A process has ended.
    pub(in crate::simulation) fn died(&mut self, life: Life, now_us: u64) {
        self.unsure.died(life, now_us);
    }

    /// A caller begins or ends a wait.
    pub(super) fn waits(&mut self, life: Life, is_waiting: bool, now_us: u64) {
        match is_waiting {
            true => self.unsure.begins(life, now_us),
            false => self.unsure.ends(life, now_us),
        }
    }

    /// A limiter begins or ends a change of a key, and forgets all that it knows of the key.
    pub(super) fn changes(&mut self, life: Life, id: usize, is_key: bool, now_us: u64) {
        self.local(life, id).forgets(is_key, now_us);
    }

    /// Returns whether the store can distinguish the other limit from the plan's.
    pub(super) fn is_told_apart(&self) -> bool {
        self.limits.differ()
    }

    /// A limiter asks under one of two limits.
    pub(super) fn asks_under(&mut self, life: Life, id: usize, is_other: bool, now_us: u64) {
        if !self.is_stored && self.ahead > 0 && !self.is_one_limit {
            let is_other = is_other && self.is_told_apart();
            self.local(life, id).asks_under(is_other, now_us);
        }
    }

    fn local(&mut self, life: Life, id: usize) -> &mut Local {
        self.locals.entry((life, id)).or_default()
    }

    /// A wait has ended `by_us` after its limit, or a call has taken that long. `longest_us` bounds it where only other
    /// runtimes of its process may be blocked.
    pub(super) fn overdue(
        &self,
        id: usize,
        by_us: u64,
        longest_us: Option<u64>,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        match longest_us.or(self.longest_call_us) {
            Some(longest_us) if by_us > longest_us => {
                fault(Kind::TooLong, format!("a wait for `{}` ends {by_us} us too late", IDS[id]))
            }
            None if exempt.is(Exempt::StandsStill, by_us > self.unsure.copies_us / 2) => Ok(()),
            _ => Ok(()),
        }
    }

    pub(super) fn asked(&mut self, id: usize, cost: ByPart) {
        let account = &mut self.ids[id];
        add(&mut account.asked, cost);
        account.ahead += self.ahead;
    }

    /// A request of this cost was denied or did not run: it is never charged.
    pub(super) fn not_done(
        &mut self,
        cost: ByPart,
        now_us: u64,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        add(&mut self.not_done, cost);
        self.add_up(now_us, exempt)
    }

    /// Checks that no more is charged than requested.
    fn add_up(&mut self, now_us: u64, exempt: &Exemptions) -> Result<(), Fault> {
        let is_unsure = self.unsure.is(now_us);
        for part in 0..2 {
            let (mut charged_to_all, mut asked_by_all) = (0, 0);
            for account in &mut self.ids {
                let (charged, asked) = (account.charged[part], account.asked[part] + account.ahead);
                (charged_to_all, asked_by_all) = (charged_to_all + charged, asked_by_all + asked);
                let excess = charged.saturating_sub(asked + account.excused[part]);
                if excess > 0 && !exempt.is(Exempt::IdsForgotten, is_unsure) {
                    let what = format!("{charged} are charged, and {asked} were asked for");
                    return fault(Kind::ChargedTwice, what);
                }
                account.excused[part] += excess;
            }
            let not_done = self.not_done[part];
            let explained = asked_by_all + self.excused[part];
            let excess = (charged_to_all + not_done).saturating_sub(explained);
            if excess > 0 && !exempt.is(Exempt::IdsForgotten, is_unsure) {
                let what = format!(
                    "{charged_to_all} are charged, of {asked_by_all}, and {not_done} are denied or not done"
                );
                return fault(Kind::ChargedTwice, what);
            }
            self.excused[part] += excess;
        }
        Ok(())
    }

    /// A caller got an answer other than a decision.
    pub(super) fn answered(
        &mut self,
        told: &Told,
        answer: Answer,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        self.ids[told.id].answers.take(told, answer.clone(), 0, false)?;
        if let (Op::TakeUpTo, Answer::Adjusted(adjusted)) = (told.op, answer)
            && self.is_denial_final
        {
            let not_taken = told.cost.map(|cost| cost.saturating_sub(adjusted.amount));
            self.not_done(not_taken, told.now_us, exempt)?;
        }
        Ok(())
    }

    /// A caller was denied several ids on several nodes, of which this one was reserved: it is given back (D18).
    pub(super) fn gave_back(&self, life: Life, id: usize, since_us: u64) -> Result<(), Fault> {
        self.ids[id].answers.gave_back(life, since_us)
    }

    /// A caller got a decision.
    pub(super) fn decided(
        &mut self,
        told: &Told,
        decision: &Decision,
        store: &impl Oracle,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        if self.is_shadow && decision.verdict != Verdict::Allowed {
            return fault(Kind::FalseDenial, "shadow mode does not let it through".to_owned());
        }
        let (verdict, origin) = (decision.shadow.unwrap_or(decision.verdict), decision.origin);
        let charges = !matches!(told.op, Op::Peek | Op::Apart);
        // A request that the fallback denies may have been sent.
        let is_final = self.is_denial_final && origin != Origin::Fallback;
        if verdict != Verdict::Allowed && is_final && charges {
            self.not_done(told.cost, told.now_us, exempt)?;
        }
        // Only the store knows the usage of others, and keeps a reservation.
        let is_own = match told.op {
            Op::Reserve => matches!(origin, Origin::Store) || self.is_shadow,
            Op::Peek => matches!(origin, Origin::Store | Origin::Fallback),
            _ => true,
        };
        if !is_own {
            return fault(Kind::Untold, format!("{:?} is answered by {origin:?}", told.op));
        }
        let mut taken = Taken::default();
        match origin {
            Origin::Fallback => return self.stood_in(told, decision, exempt),
            Origin::Store => {
                let ahead = if charges && told.op == Op::Acquire { self.ahead } else { 0 };
                let answer = Answer::Decision(decision.clone());
                taken = self.ids[told.id].answers.take(told, answer, ahead, self.is_shadow)?;
                let is_admitted = verdict == Verdict::Allowed;
                let admitted = told.cost.map(|cost| cost + taken.more);
                let room = match decision.is_blocked() {
                    true => [decision.remaining; 2],
                    false => remaining(decision),
                };
                let fits = [room, if is_admitted { admitted } else { [0; 2] }];
                let is_stored = self.is_stored;
                let local = self.local(told.life, told.id);
                // A denial for lack of an early turn means nothing to callers that take a later
                // one.
                if !told.waits || decision.is_allowed() {
                    if !decision.is_allowed() {
                        local.learned(told.cost, taken.at_us);
                    }
                    local.contradicted(fits, taken.at_us, |is_other| {
                        is_stored || is_other == told.is_other
                    });
                }
            }
            Origin::DenyCache => self.denied_here(told, decision, store, exempt)?,
            // It answers callers that wait in line.
            Origin::Line if !told.is_other => {}
            Origin::Line => {
                return fault(Kind::FalseDenial, "no line is under that limit".to_owned());
            }
            _ => {}
        }
        if verdict == Verdict::Allowed && charges {
            self.admitted(told)?;
            let local = self.locals.entry((told.life, told.id)).or_default();
            if origin == Origin::Prefetch {
                local.spends(told, decision.remaining, self.unread_us)?;
            } else {
                local.takes_ahead(told, taken, self.lease_us);
            }
        }
        Ok(())
    }

    /// A deny cache has answered: the store has denied this cost to the process, and would again.
    fn denied_here(
        &mut self,
        told: &Told,
        decision: &Decision,
        store: &impl Oracle,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        let local = self.locals.entry((told.life, told.id)).or_default();
        let denial = local.known(told, decision, self.is_stored, self.ages)?;
        let account = &self.ids[told.id];
        let since = |at_us: Option<u64>| at_us.is_some_and(|at_us| denial.at_us <= at_us);
        let is_changed = since(account.loosened_us) || self.ends_limits;
        let is_excused = exempt.is(Exempt::Shaken, since(self.shaken_us))
            || exempt.is(Exempt::ChangedSince, is_changed)
            || exempt.is(Exempt::StoodStill, told.polled_us < told.now_us)
            || denial.is_other;
        if !is_excused && !store.would_deny(&denial.key, told.cost) {
            let what = format!("a cost of {:?} would be admitted", told.cost);
            return fault(Kind::FalseDenial, what);
        }
        Ok(())
    }

    fn admitted(&mut self, told: &Told) -> Result<(), Fault> {
        let account = &mut self.ids[told.id];
        add(&mut account.told, told.cost);
        if !is_within(account.told, account.charged) {
            let Account { told, charged, .. } = account;
            let what = format!("{told:?} are told to be admitted, and {charged:?} are charged");
            return fault(Kind::Uncharged, what);
        }
        Ok(())
    }

    /// The fallback has answered.
    fn stood_in(
        &mut self,
        told: &Told,
        decision: &Decision,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        if self.is_shadow {
            return Ok(());
        }
        if self.is_calm {
            return fault(Kind::Untold, "the fallback answers, and so does the store".to_owned());
        }
        exempt.is(Exempt::CircuitUnseen, !self.shows_circuit);
        match (self.fallback, decision.verdict) {
            (None, _) => fault(Kind::Untold, "there is no fallback".to_owned()),
            (Some(Instead::Closed), Verdict::Allowed) => {
                fault(Kind::Uncharged, "the fallback admits what it should deny".to_owned())
            }
            (Some(Instead::Open), Verdict::Denied { .. }) => {
                fault(Kind::FalseDenial, "the fallback denies what it should admit".to_owned())
            }
            (Some(Instead::Share), Verdict::Allowed)
                if told.op != Op::Peek
                    && !exempt.is(Exempt::LimitOfShare, self.is_stored || told.is_other) =>
            {
                let share = self.shares.entry((told.life, told.id)).or_default();
                for (part, cost) in told.cost.into_iter().enumerate() {
                    share.told[part] += i128::from(cost);
                    let (told, charges) = (share.told[part], &share.charges);
                    let charged: i128 = charges.iter().map(|(_, charged)| charged[part]).sum();
                    if told > charged {
                        let what =
                            format!("{told} are told to be admitted by a share of {charged}");
                        return fault(Kind::Uncharged, what);
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The share of a life of a node has charged something for an id.
    pub(super) fn shared(
        &mut self,
        of: (Life, usize),
        cost: ByPart,
        clock_us: u64,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        let charges = &mut self.shares.entry(of).or_default().charges;
        charges.push((clock_us, cost.map(i128::from)));
        // Neither limit knows the usage that the other has forgotten: no envelope holds for a key
        // that alternates between both.
        match self.limit.share(self.nodes) {
            _ if exempt.is(Exempt::LimitOfShare, !self.is_one_limit) => Ok(()),
            Ok(share) => within(share.parts(), charges),
            Err(_) => fault(Kind::Envelope, "there is no share".to_owned()),
        }
    }

    /// Returns whether a reservation of that time was settled with this cost, or ended, in
    /// agreement with its caller's answer.
    pub(super) fn is_settled(
        &self,
        (id, since_us): (usize, u64),
        actual: ByPart,
        told: &Settlement,
        store: impl Fn(ByPart) -> Settlement,
        exempt: &Exemptions,
    ) -> bool {
        let since = |at_us: Option<u64>| at_us.is_some_and(|at_us| since_us <= at_us);
        if exempt.is(Exempt::Shaken, since(self.shaken_us))
            || exempt.is(Exempt::ReservationForgotten, since(self.ids[id].forgot_us))
        {
            return true;
        }
        let another = actual.map(|cost| cost + 1);
        let is_open = || matches!(store(another), Settlement::Settled { .. });
        match told {
            Settlement::Settled { .. } => store(actual) != Settlement::AlreadySettled && !is_open(),
            Settlement::Expired => !is_open(),
            _ => false,
        }
    }
}
