//! The store's runs of commands on the keys of limiters, and the charges that follow.

use lockage_core::{AnyCommand, AnyOutcome, Decision, Limit, Settlement};
use lockage_oracle::config::Config;
use lockage_oracle::envelope;

use super::Accounts;
use crate::simulation::by_part::{ByPart, add, each};
use crate::simulation::judge::answers::{Answer, Given, answers, is_renewed};
use crate::simulation::judge::asked::{Asked, Op};
use crate::simulation::judge::exempt::{Exempt, Exemptions};
use crate::simulation::judge::local::Denial;
use crate::simulation::judge::{Fault, Kind, Life, fault};

/// A command that the store has run on a key of a limiter.
pub(in crate::simulation) struct Ran<'r> {
    pub(in crate::simulation) id: usize,
    pub(in crate::simulation) key: &'r str,
    pub(in crate::simulation) life: Life,
    /// Whether an old primary has run it.
    pub(in crate::simulation) is_old: bool,
    pub(in crate::simulation) sent_us: u64,
    pub(in crate::simulation) now_us: u64,
    /// The time that the store's clock shows.
    pub(in crate::simulation) clock_us: u64,
    pub(in crate::simulation) command: &'r AnyCommand,
    pub(in crate::simulation) outcome: &'r AnyOutcome,
    /// Whether it converts a record of another limit, also if it is denied: alone it does, denied with others not.
    pub(in crate::simulation) converts: bool,
    /// A peek of cost 1 right before it, under its limit.
    pub(in crate::simulation) before: &'r Decision,
    /// The permits of each part that remained right before and after it, also behind a block.
    pub(in crate::simulation) left: [ByPart; 2],
}

/// The charges of a key under one limit since its state was fresh, less the amounts given back.
/// Their times are by the store's clock: its latest time if it is set back.
#[derive(Clone, Default)]
pub(super) struct Epoch {
    is_other: bool,
    charges: Vec<(u64, ByPart<i128>)>,
    latest_us: u64,
    charged_us: u64,
    /// When it was last adjusted. An adjustment drops ended charges, and only some limits remember
    /// the time (D10).
    adjusted_us: u64,
}

impl Accounts {
    /// Returns the limit of a command, if it names one.
    pub(in crate::simulation) fn limit_of(&self, command: &AnyCommand) -> Limit {
        let is_other = !self.is_one_limit && !self.is_stored && self.limits.are_other(command);
        if is_other { self.other } else { self.limit }
    }

    /// The store has run a command.
    pub(in crate::simulation::judge) fn ran(
        &mut self,
        ran: &Ran<'_>,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        let (answers, stored) = answers(ran.outcome);
        let Some(asked) = Asked::of(ran.command, answers.len(), &self.limits) else {
            return Ok(());
        };
        let is_other =
            stored.map_or(asked.is_other, |stored| self.limits.is_the_other(stored.limit()));
        let (op, account) = (asked.op, &mut self.ids[ran.id]);
        let given = |op, cost, answer| {
            Given::new((ran.now_us, ran.sent_us, ran.life), (op, cost), asked.is_other, answer)
        };
        if op == Op::Peek && self.is_stored {
            account.answers.give(given(Op::ReadLimit, [0; 2], Answer::Limit(stored.map(Box::new))));
        }
        let costs = asked.costs.iter().copied().chain(std::iter::repeat([0; 2]));
        for (cost, answer) in costs.zip(&answers) {
            account.answers.give(given(op, cost, answer.clone()));
            if let Answer::Decision(decision) = answer
                && !asked.request.is_empty()
            {
                // Its caller may have gone on without permits ahead before a late copy of it is
                // admitted (D11).
                if !decision.is_allowed() {
                    account.denied.insert(asked.request.clone());
                } else if self.ahead > 0 && account.denied.remove(&asked.request) {
                    add(&mut account.asked, cost.map(|cost| cost.saturating_sub(self.ahead)));
                }
            }
            // The denial of a peek, or of several requests together, answers no later request.
            if let Answer::Decision(decision) = answer
                && op != Op::Peek
                && ran.converts
                && let Some(denial) = Denial::of(decision, cost, is_other, ran)
            {
                self.locals.entry((ran.life, ran.id)).or_default().denied(denial);
            }
        }
        self.charge(ran, (op, is_other), &answers, exempt)
    }

    /// Records the charges of a key, and the amounts given back.
    fn charge(
        &mut self,
        ran: &Ran<'_>,
        (op, is_other): (Op, bool),
        answers: &[Answer],
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        let Ran { id, now_us, before, left: [left_before, left_after], .. } = *ran;
        let charged = match op {
            Op::Acquire | Op::Reserve | Op::TakeUpTo | Op::Penalty | Op::Settle => {
                each(left_before, left_after, u64::saturating_sub)
            }
            _ => [0; 2],
        };
        let is_charged = charged != [0; 2];
        let given_back = each(left_after, left_before, u64::saturating_sub);
        // The amount is the most that any part gave back. A part may give back a fraction more than its permits show.
        let of_parts = |amount: u64| match before.parts.is_empty() {
            true => [amount; 2],
            false => given_back.map(|back| amount.min(back + 1)),
        };
        let back = match &answers.first() {
            Some(Answer::Adjusted(adjusted)) if op == Op::Refund => of_parts(adjusted.amount),
            Some(Answer::Settlement(Settlement::Settled { amount, .. })) => {
                each(charged, of_parts(*amount), |more, back| if more > 0 { 0 } else { back })
            }
            Some(Answer::Cancellation(_)) => given_back,
            _ => [0; 2],
        };
        let is_adjusted = answers.first().is_some_and(Answer::is_written);
        let is_written = is_charged || is_adjusted;
        let forgets = op.forgets() && is_written;
        let epoch = self.epochs.entry((ran.is_old, ran.key.to_owned())).or_default();
        // A denial changes the limit of a key, too; a settlement that is refused, or came too late, does not.
        let may_convert = op != Op::Settle && !op.sets_limit();
        let is_applied = is_written || may_convert && !answers.is_empty();
        let has_limit = op.has_limit() && ran.converts && is_applied;
        let switches = has_limit && epoch.is_other != is_other;
        if switches || forgets {
            let is_other = if switches { is_other } else { epoch.is_other };
            *epoch = Epoch { is_other, ..Epoch::default() };
            self.ids[id].forgot_us = Some(now_us);
            self.unsure.forgets(now_us);
        }
        if switches || op.loosens() {
            self.ids[id].loosened_us = Some(now_us);
        }
        let is_fresh = before.remaining == before.limit && before.reset_after.is_zero();
        let is_shaken = self.shaken_us.is_some_and(|shaken_us| epoch.charged_us <= shaken_us);
        let limit = if epoch.is_other { self.other } else { self.limit };
        // A renewal moves the time of a record with places, and of no other one.
        let is_moved = is_adjusted || limit.has_places() && is_renewed(ran.outcome);
        let is_back =
            ran.clock_us < epoch.adjusted_us || is_adjusted && ran.clock_us < epoch.latest_us;
        let is_unknown = is_fresh && is_shaken && !epoch.charges.is_empty() || is_back;
        if exempt.is(Exempt::KeyForgotten, is_unknown) {
            *epoch = Epoch { is_other: epoch.is_other, ..Epoch::default() };
        }
        if is_moved {
            epoch.adjusted_us = epoch.adjusted_us.max(ran.clock_us);
        }
        if !is_charged && back == [0; 2] {
            return Ok(());
        }
        epoch.latest_us = epoch.latest_us.max(ran.clock_us);
        epoch.charged_us = now_us;
        let change = each(charged, back, |charged, back| i128::from(charged) - i128::from(back));
        epoch.charges.push((epoch.latest_us, change));
        if is_charged {
            within(limit.parts(), &epoch.charges)?;
            add(&mut self.ids[id].charged, charged);
            if exempt.is(Exempt::IdsForgotten, self.unsure.is(now_us)) {
                add(&mut self.ids[id].excused, charged);
                add(&mut self.excused, charged);
            }
            return self.add_up(now_us, exempt);
        }
        Ok(())
    }
}

/// Checks E1 to E5, for all spans that end with the latest charge.
pub(super) fn within(
    parts: impl Iterator<Item = Limit>,
    charges: &[(u64, ByPart<i128>)],
) -> Result<(), Fault> {
    for (place, part) in parts.enumerate() {
        let config = Config::from(part);
        let latest_first = charges.iter().rev().map(|(at_us, charged)| (*at_us, charged[place]));
        let most = |length_us| envelope::bound(&config, length_us);
        if let Some(excess) = envelope::excess(latest_first.clone(), most) {
            let what = format!("{}: {excess:?}", envelope::property(&config));
            return fault(Kind::Envelope, what);
        }
    }
    Ok(())
}
