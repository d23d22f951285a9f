//! A client that wants a permit, and waits for it as [`Wait`] says.

use std::time::Duration;

use lockage_core::RequestId;
use lockage_core::flow::{Step, Wait};

use super::calls::CallEnd;
use super::{Body, Flow};
use crate::simulation::coverage::Coverage;
use crate::simulation::limiter::{LimiterAsk, What};
use crate::simulation::message::{Answer, Ask};
use crate::simulation::server::Outcome;
use crate::simulation::stage::Stage;

#[derive(Debug)]
pub(super) struct Waiter {
    cost: u64,
    with_id: bool,
    /// Under which of two limits.
    is_other: bool,
    wait: Wait,
    denials: u32,
    has_turn: bool,
}

impl Waiter {
    pub(super) fn begin(
        (cost, with_id, is_other): (u64, bool, bool),
        wait_us: u64,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Self {
        let wait = Wait::new(body.now(stage), Duration::from_micros(wait_us));
        let waiter = Waiter { cost, with_id, is_other, wait, denials: 0, has_turn: false };
        waiter.ask(body, stage);
        waiter
    }

    fn ask(&self, body: &mut Body, stage: &mut Stage<'_>) {
        let id = self.with_id.then(|| RequestId::from_u128(body.draw.id()));
        let patience = self.wait.patience(body.now(stage));
        let patience = Duration::from_micros(patience.as_micros() as u64); // a wait is days at most
        let what = What::Acquire { cost: self.cost, id, patience };
        let ask = Ask::Limiter(LimiterAsk { is_other: self.is_other, what });
        body.call(ask, Duration::from_micros(stage.scenario.timeout_us), stage);
    }

    pub(super) fn ended(&mut self, end: CallEnd, body: &mut Body, stage: &mut Stage<'_>) -> Flow {
        let outcome = match &end.answer {
            Some(Answer::Done(outcome)) => Some(outcome),
            _ => None,
        };
        if let Some(Outcome::NoLimit | Outcome::PerClient(_)) = outcome {
            return Flow::Done;
        }
        let Some(decision) = outcome.and_then(Outcome::decision) else {
            // What was not answered is an error to the caller; one without a deadline asks again.
            if self.wait.patience(body.now(stage)) > FOR_EVER {
                self.denials += 1;
                body.rest(Duration::from_millis(1), stage);
                return Flow::On;
            }
            return Flow::Done;
        };
        if decision.is_allowed() && self.denials > 0 {
            stage.checks.rare.saw(Coverage::AdmittedAfterWaiting);
        }
        self.denials += u32::from(!decision.is_allowed());
        let (now, random) = (body.now(stage), body.draw.bits());
        match self.wait.after(decision, now, random) {
            Step::Done => Flow::Done,
            Step::Turn(time) => {
                self.has_turn = true;
                body.rest(time, stage);
                Flow::On
            }
            Step::Sleep(time) => {
                body.rest(time, stage);
                Flow::On
            }
        }
    }

    pub(super) fn rested(&mut self, body: &mut Body, stage: &mut Stage<'_>) -> Flow {
        if self.has_turn {
            return Flow::Done;
        }
        self.ask(body, stage);
        Flow::On
    }
}

/// A waiter with a longer wait waits until it has the lock.
const FOR_EVER: Duration = Duration::from_secs(1000);
