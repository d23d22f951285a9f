//! Decisions on the requests for several ids: how the store runs them, and their judgement (D18).

use lockage::StoreError;
use lockage_core::{AcquireAll, AnyCommand, AnyOutcome, Decision, Peek, Verdict};
use lockage_redis::Reply;

use super::judge::{self, Fault, Kind, fault};
use super::log::Who;
use super::play::{Event, From, World};
use super::rare::Rare;
use super::wire::limiter_of;

impl World<'_> {
    pub(super) fn request_all(
        &mut self,
        (from, sent_us): (From, u64),
        keys: Vec<String>,
        command: AcquireAll,
    ) -> Result<(), Fault> {
        if self.is_away(0) {
            // The caller may be gone.
            if self.draw.chance(500) {
                self.reply(from, Err(StoreError::NotDone("the store is away".into())));
            }
            return Ok(());
        }
        let is_old = self.keys.is_old(from.node);
        if is_old {
            self.rare.saw(Rare::OldPrimary);
            self.keys.swap();
        }
        let ran = self.run_all((from, sent_us, is_old), &keys, &command, None);
        if is_old {
            self.keys.swap();
        }
        let answer = ran?;
        if !self.is_well()
            && self.draw.chance(self.plan.network.twice)
            && command.is_repeatable()
            && answer.as_ref().is_ok_and(|all| all.iter().all(Decision::is_allowed))
        {
            self.rare.saw(Rare::Twice);
            let at_us = self.draw.between(self.now_us, sent_us + self.plan.timeout_us);
            self.queue.push(at_us, Event::RequestAll { from, sent_us, keys, command });
        }
        self.reply(from, answer.map(|all| Box::new(all) as AnyOutcome));
        Ok(())
    }

    /// Decides on requests of a node, and reports each to the judge. If their script has run before, `replied` is its
    /// reply.
    pub(super) fn run_all(
        &mut self,
        (from, sent_us, is_old): (From, u64, bool),
        keys: &[String],
        command: &AcquireAll,
        replied: Option<&Reply>,
    ) -> Result<Result<Vec<Decision>, StoreError>, Fault> {
        let now_us = self.now_us;
        let limit = self.plan.limit;
        let before: Vec<_> = keys.iter().map(|key| self.look(limit, key)).collect();
        let answer = self.keys.run_all(keys, command, replied, now_us)?;
        self.say(Who::Store, || {
            let what = if answer.is_ok() { "done" } else { "refused" };
            format!("{command:?} on {keys:?}: {what}")
        });
        let Ok(decisions) = &answer else { return Ok(answer) };
        let is_admitted = decisions.iter().all(Decision::is_allowed);
        for (((key, acquire), decision), (before, left_before)) in
            keys.iter().zip(command.requests()).zip(decisions).zip(before)
        {
            let (after, left_after) = self.look(limit, key);
            if !is_admitted && left_after != left_before {
                let what = format!("{left_before} remain of {key}, and then {left_after}");
                return fault(Kind::Partly, what);
            }
            // One that is not charged, because another one is denied, is only looked at.
            let command = match is_admitted || !decision.is_allowed() {
                true => AnyCommand::new(*acquire),
                false => AnyCommand::new(Peek::by_part(*acquire.limit(), *acquire.cost())),
            };
            self.judge.ran(&judge::Ran {
                id: limiter_of(key).expect("it is of a limiter"),
                key,
                life: (from.node, from.life),
                is_old,
                sent_us,
                now_us,
                clock_us: self.keys.time(now_us).as_micros(),
                command: &command,
                outcome: &(Box::new(decision.clone()) as AnyOutcome),
                before: &before,
                left: [left_before, left_after],
            })?;
            if let Verdict::Denied { retry_after, .. } = after.verdict {
                self.end_in(retry_after.as_micros());
            }
        }
        Ok(answer)
    }
}
