//! How a holder keeps what it has: its lease is renewed, and it is sure of it for as long as its own deadline says.

use super::calls::CallEnd;
use super::holder::Holder;
use super::{Body, Flow};
use crate::simulation::check::{Belief, Violation};
use crate::simulation::coverage::Coverage;
use crate::simulation::log::Who;
use crate::simulation::message::{Action, Told};
use crate::simulation::stage::{Alarm, Stage};

impl Holder {
    /// Leases that are due are renewed, and those that are over are lost.
    pub(super) fn look_after(&mut self, body: &mut Body, stage: &mut Stage<'_>) -> Flow {
        let now = body.now(stage);
        let deadline = self.renewals.deadline(&());
        let plan = self.renewals.plan(now, 1);
        if !plan.lost.is_empty() {
            stage.checks.rare.saw(Coverage::LeaseLost);
            return self.lose(body, stage);
        }
        if let (false, Some(deadline)) = (plan.renew.is_empty(), deadline) {
            let action = Action::Renew { token: self.token };
            let id = *self.held.last().expect("what is renewed is held");
            let left = deadline.saturating_sub(now).min(self.timeout);
            self.renewing = Some(self.call(id, action, left, body, stage));
        }
        if plan.wake_at != self.alarm {
            self.alarm = plan.wake_at;
            if let Some(at) = plan.wake_at {
                body.set_alarm(at, Alarm::Renewals, stage);
            }
        }
        Flow::On
    }

    pub(super) fn renewed(
        &mut self,
        end: &CallEnd,
        told: Option<Told>,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<Flow, Violation> {
        match told {
            Some(Told::Held { .. }) => self.extend(end, body, stage)?,
            Some(_) => return Ok(self.lose(body, stage)),
            None => {
                let (now, random) = (body.now(stage), body.draw.bits());
                self.renewals.failed(&(), now, random);
            }
        }
        Ok(self.look_after(body, stage))
    }

    /// What was sent then has extended the lease, unless the own deadline has passed meanwhile.
    pub(super) fn extend(
        &mut self,
        end: &CallEnd,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<(), Violation> {
        let now = body.now(stage);
        if self.renewals.deadline(&()).is_none_or(|deadline| deadline <= now) {
            return Ok(());
        }
        self.free_at = now + self.lease;
        self.renewals.renewed(&(), end.sent);
        self.believe(end.sent_us, body, stage)
    }

    pub(super) fn believe(
        &mut self,
        sent_us: u64,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<(), Violation> {
        let Some(deadline) = self.renewals.deadline(&()) else { return Ok(()) };
        let until_us = body.clock.when(deadline);
        stage.log.say(stage.now_us, Who::Client(body.number), || {
            format!("is sure of token {} until {until_us} us", self.token)
        });
        let (client, owner, token, weight) = (body.number, self.owner, self.token, self.weight);
        let hold = *self.held.first().expect("what is believed in is held");
        let belief = Belief { client, owner, token, hold, weight, sent_us, until_us };
        let ends_us = stage.node.clock_us(until_us - 1) + 1;
        stage.checks.believes(belief, ends_us)
    }
}
