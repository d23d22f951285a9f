//! Decisions on the requests for several ids: how the store runs them, and their judgement (D18).

use lockage::StoreError;
use lockage_core::{Acquire, AcquireAll, AnyCommand, AnyOutcome, OneOfAll, OneOutcome};
use lockage_redis::Reply;

use super::judge::{Fault, Kind, fault};
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
        if self.misses(0, from) {
            return Ok(());
        }
        let answer = self.on_primary(from.node, |world, is_old| {
            world.run_all((from, sent_us, is_old), &keys, &command, None)
        })?;
        if !self.is_well()
            && self.draw.chance(self.plan.network.twice)
            && command.is_repeatable()
            && answer.as_ref().is_ok_and(|all| all.iter().all(OneOutcome::is_allowed))
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
        caller: (From, u64, bool),
        keys: &[String],
        command: &AcquireAll,
        replied: Option<&Reply>,
    ) -> Result<Result<Vec<OneOutcome>, StoreError>, Fault> {
        let (now_us, limit) = (self.now_us, self.plan.limit);
        let before: Vec<_> = keys.iter().map(|key| self.look(limit, key)).collect();
        let answer = self.keys.run_all(keys, command, replied, now_us)?;
        self.say(Who::Store, || {
            let what = if answer.is_ok() { "done" } else { "refused" };
            format!("{command:?} on {keys:?}: {what}")
        });
        let Ok(outcomes) = &answer else { return Ok(answer) };
        let is_admitted = outcomes.iter().all(OneOutcome::is_allowed);
        let asked = keys.iter().zip(command.requests());
        for (((key, one), outcome), before) in asked.zip(outcomes).zip(before) {
            // One that is not charged, because another one is denied, is only looked at.
            let ran = as_ran(one, outcome, is_admitted || !outcome.is_allowed());
            let id = limiter_of(key).expect("it is of a limiter");
            let ran = (&ran.0, &ran.1, is_admitted);
            let left = self.ran_on_limiter(caller, (id, key, limit), ran, &before)?;
            if !is_admitted && left != before.1 {
                let what = format!("{:?} remain of {key}, and then {left:?}", before.1);
                return fault(Kind::Partly, what);
            }
        }
        Ok(answer)
    }
}

/// Returns a request and its outcome as the judge knows them: as a call by itself, which charges or only looks.
fn as_ran(one: &OneOfAll, outcome: &OneOutcome, charges: bool) -> (AnyCommand, AnyOutcome) {
    match (one, outcome) {
        (OneOfAll::Given(acquire), OneOutcome::Done { outcome, .. }) => {
            let command = match charges {
                true => AnyCommand::new(*acquire),
                false => AnyCommand::new(acquire.peek()),
            };
            (command, Box::new(outcome.clone()))
        }
        (OneOfAll::Stored(stored), _) if !charges => {
            (AnyCommand::new(stored.map(Acquire::peek)), Box::new(outcome.clone()))
        }
        _ => (AnyCommand::new(one.clone()), Box::new(outcome.clone())),
    }
}
