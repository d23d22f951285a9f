//! How a holder of one side of a read-write lock takes the other one, and gives the first one back.

use std::time::Duration;

use lockage_core::flow::own_deadline;
use lockage_core::lock::HoldId;

use super::calls::CallEnd;
use super::holder::{Holder, Step};
use super::returning::PAUSE;
use super::{Body, Flow};
use crate::simulation::check::Violation;
use crate::simulation::message::{Action, Ask, ClaimAsk, Told, WRITE};
use crate::simulation::stage::Stage;

/// The side that is given back first.
#[derive(Debug)]
pub(super) struct Side {
    weight: u64,
    held: Vec<HoldId>,
    token: u64,
    /// When it is free by itself, by the own clock.
    free_at: Duration,
}

impl Holder {
    pub(super) fn switch(&mut self, body: &mut Body, stage: &mut Stage<'_>) {
        self.switches = false;
        let (owner, weight) = (self.owner, other_side(self.weight));
        let id = HoldId::from_u128(body.draw.id());
        let action = self.acquire(body, stage);
        let ask = Ask::Claim(ClaimAsk { owner, id, weight, action });
        let call = body.call(ask, self.timeout, stage);
        self.step = Step::Switching { call, id };
    }

    pub(super) fn switched(
        &mut self,
        end: &CallEnd,
        id: HoldId,
        told: Option<Told>,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<Flow, Violation> {
        let now = body.now(stage);
        let (weight, free_at) = (other_side(self.weight), now + self.lease);
        match told {
            Some(Told::Held { token, .. }) if now < own_deadline(end.sent, self.lease) => {
                let before = Side {
                    weight: self.weight,
                    held: std::mem::replace(&mut self.held, vec![id]),
                    token: self.token,
                    free_at: self.free_at,
                };
                (self.weight, self.token, self.free_at) = (weight, token, free_at);
                (self.other, self.is_switched, self.renewing) = (Some(before), true, None);
                self.renewals.forget(&());
                self.renewals.watch((), end.sent, self.lease, None);
                self.believe(end.sent_us, body, stage)?;
                self.let_other_go(body, stage);
                return Ok(self.look_after(body, stage));
            }
            // It took longer than the lease, or it may have been done.
            Some(Told::Held { .. }) | None => {
                self.other = Some(Side { weight, held: vec![id], token: 0, free_at });
                self.let_other_go(body, stage);
            }
            Some(_) => self.release(body, stage),
        }
        Ok(Flow::On)
    }

    /// Gives it back, and goes on with the one that is kept; or gives that back, too.
    pub(super) fn let_other_go(&mut self, body: &mut Body, stage: &mut Stage<'_>) {
        let other = self.other.as_ref().and_then(|it| Some((it, *it.held.last()?)));
        let Some((&Side { weight, token, .. }, id)) = other else {
            self.other = None;
            if !self.is_switched {
                return self.release(body, stage);
            }
            self.step = Step::Working;
            return body.rest(self.works_for, stage);
        };
        let (owner, action) = (self.owner, Action::Release { token });
        let ask = Ask::Claim(ClaimAsk { owner, id, weight, action });
        let call = body.call(ask, self.timeout, stage);
        self.step = Step::LettingGo { call };
    }

    pub(super) fn let_go_of_other(
        &mut self,
        told: Option<Told>,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Flow {
        let now = body.now(stage);
        match (&mut self.other, told) {
            (Some(other), None) if now < other.free_at => {
                self.step = Step::RestingToLetGo;
                body.rest(PAUSE, stage);
                return Flow::On;
            }
            (Some(other), None) => other.held.clear(),
            (Some(other), Some(_)) => drop(other.held.pop()),
            (None, _) => {}
        }
        self.let_other_go(body, stage);
        Flow::On
    }
}

fn other_side(weight: u64) -> u64 {
    if weight == WRITE { 1 } else { WRITE }
}
