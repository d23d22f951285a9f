//! How a holder gives back what it has, or may have.

use std::time::Duration;

use lockage_core::Timestamp;
use lockage_core::flow::Polling;
use lockage_core::lock::HoldId;

use super::holder::{Holder, Step};
use super::{Body, Flow};
use crate::simulation::coverage::Coverage;
use crate::simulation::log::Who;
use crate::simulation::message::{Action, Told};
use crate::simulation::stage::Stage;

/// The pause between attempts to give something back.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// A wait for longer than that is without a deadline: after any failure it asks again.
const FOR_EVER: Duration = Duration::from_secs(1000);

impl Holder {
    /// It is lost; what of it may still be there is given back.
    pub(super) fn lose(&mut self, body: &mut Body, stage: &mut Stage<'_>) -> Flow {
        stage.log.say(stage.now_us, Who::Client(body.number), || "has lost the lock".to_owned());
        self.let_go(body, stage);
        self.release(body, stage);
        Flow::On
    }

    pub(super) fn release(&mut self, body: &mut Body, stage: &mut Stage<'_>) {
        if self.held.len() <= 1 {
            self.let_go(body, stage);
        }
        let id = *self.held.last().expect("what is given back is held");
        self.release_as(id, body, stage);
    }

    pub(super) fn let_go(&mut self, body: &mut Body, stage: &mut Stage<'_>) {
        self.renewals.forget(&());
        self.renewing = None;
        stage.checks.doubts(body.number);
    }

    pub(super) fn release_as(&mut self, id: HoldId, body: &mut Body, stage: &mut Stage<'_>) {
        let action = Action::Release { token: self.token };
        let call = self.call(id, action, self.timeout, body, stage);
        self.step = Step::Releasing { call, id };
    }

    pub(super) fn released(
        &mut self,
        id: HoldId,
        told: Option<Told>,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Flow {
        match told {
            // What others of its attempts have taken ends by itself.
            Some(_) => {
                self.held.pop();
                if self.held.is_empty() {
                    self.let_go(body, stage);
                    return self.over(body, stage);
                }
                self.release(body, stage);
                Flow::On
            }
            None if body.now(stage) < self.free_at => {
                self.step = Step::RestingToRelease { id };
                body.rest(PAUSE, stage);
                Flow::On
            }
            None => {
                self.held.clear();
                self.over(body, stage)
            }
        }
    }

    /// As if it came too late: what it has taken is told, and nothing is taken.
    pub(super) fn search(
        &mut self,
        id: HoldId,
        sent: Duration,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) {
        let action = Action::Acquire { not_after: Timestamp::EPOCH, span_us: 0 };
        let call = self.call(id, action, self.timeout, body, stage);
        self.step = Step::Searching { call, id, sent };
    }

    pub(super) fn searched(
        &mut self,
        id: HoldId,
        sent: Duration,
        told: Option<Told>,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Flow {
        let now = body.now(stage);
        let settled = sent + self.timeout * 2;
        match told {
            Some(Told::Held { token, .. }) => {
                stage.checks.rare.saw(Coverage::GrantFoundAgain);
                (self.held, self.token) = (vec![id], token);
                (self.is_placed, self.free_at) = (false, now + self.lease);
                self.release(body, stage);
                return Flow::On;
            }
            Some(_) if now >= settled => return self.over(body, stage),
            None if now >= settled + self.lease => return self.over(body, stage),
            _ => {}
        }
        self.step = Step::RestingToSearch { id, sent };
        body.rest(PAUSE, stage);
        Flow::On
    }

    /// It is over, unless the client waits for ever and has not worked yet, or has a place in line.
    pub(super) fn over(&mut self, body: &mut Body, stage: &mut Stage<'_>) -> Flow {
        if self.has_worked || self.give_up_at.saturating_sub(body.now(stage)) < FOR_EVER {
            if self.is_placed {
                self.leave(body, stage);
                return Flow::On;
            }
            return Flow::Done;
        }
        self.polling = Polling::new(self.poll, Some(self.give_up_at));
        self.ask(body, stage);
        Flow::On
    }

    pub(super) fn leave(&mut self, body: &mut Body, stage: &mut Stage<'_>) {
        let id = HoldId::from_u128(body.draw.id());
        let call = self.call(id, Action::Withdraw, self.timeout, body, stage);
        self.step = Step::Leaving { call };
    }
}
