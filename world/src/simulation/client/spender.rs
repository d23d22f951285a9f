//! A client that makes many requests and takes permits ahead for them, as [`Prefetch`] says.

use std::time::Duration;

use lockage_core::flow::{Ask as Ahead, Next, Prefetch, PrefetchConfig};
use lockage_core::{RequestId, Verdict};

use super::calls::CallEnd;
use super::{Body, Flow};
use crate::simulation::check::Violation;
use crate::simulation::coverage::Coverage;
use crate::simulation::job::{Flaw, Spending};
use crate::simulation::limiter::{LimiterAsk, What};
use crate::simulation::message::{Answer, Ask};
use crate::simulation::stage::Stage;

#[derive(Debug)]
pub(super) struct Spender {
    work: Spending,
    config: PrefetchConfig,
    held: Prefetch,
    /// Requests that are still to be made.
    left: u32,
    /// Requests that wait for what is asked for ahead.
    waiting: u32,
    calls: Vec<(u32, Ahead)>,
}

impl Spender {
    pub(super) fn begin(
        work: Spending,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<Self, Violation> {
        let config = work.config(&stage.machine(body.key)).expect("scenarios are in range");
        let (held, left) = (Prefetch::new(), work.requests);
        let mut spender = Spender { work, config, held, left, waiting: 0, calls: Vec::new() };
        spender.rested(body, stage)?;
        Ok(spender)
    }

    /// Makes the next request.
    pub(super) fn rested(
        &mut self,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<Flow, Violation> {
        if self.left > 0 {
            self.left -= 1;
            self.request(true, body, stage)?;
            body.rest(Duration::from_micros(self.work.every_us), stage);
            return Ok(Flow::On);
        }
        self.flow(body, stage)
    }

    fn request(
        &mut self,
        may_wait: bool,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<(), Violation> {
        let cost = self.work.cost;
        match self.held.next(&self.config, cost, may_wait, body.now(stage)) {
            Next::Spent { .. } => stage.spent_ahead(body.number, cost)?,
            Next::Wait => self.waiting += 1,
            Next::Ask(ahead) => self.ask(ahead, body, stage),
        }
        Ok(())
    }

    fn ask(&mut self, ahead: Ahead, body: &mut Body, stage: &mut Stage<'_>) {
        let id = self.work.with_id.then(|| RequestId::from_u128(body.draw.id()));
        let cost = self.work.cost + ahead.ahead();
        let what = What::Acquire { cost, id, patience: Duration::ZERO };
        let ask = Ask::Limiter(LimiterAsk { is_other: false, what });
        let call = body.call(ask, Duration::from_micros(stage.scenario.timeout_us), stage);
        if ahead.ahead() > 0 {
            stage.checks.ahead.asked((body.number, body.life, call), ahead.ahead(), stage.now_us);
        }
        self.calls.push((call, ahead));
    }

    pub(super) fn ended(
        &mut self,
        end: CallEnd,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<Flow, Violation> {
        let Some(index) = self.calls.iter().position(|(call, _)| *call == end.call) else {
            return Ok(Flow::On);
        };
        let (_, ahead) = self.calls.swap_remove(index);
        let now = body.now(stage);
        let outcome = match &end.answer {
            Some(Answer::Done(outcome)) => outcome.decision(),
            _ => None,
        };
        match outcome.map(|decision| decision.verdict) {
            Some(Verdict::Allowed) => self.granted(&ahead, now, stage),
            Some(Verdict::Denied { retry_after, .. }) if ahead.ahead() > 0 => {
                self.held.denied(&self.config, &ahead, retry_after, now);
                stage.checks.ahead.denied((body.number, body.life, end.call));
                // Nothing is to be brought along.
                let alone = Prefetch::new().next(&self.config, u64::MAX, false, now);
                if let Next::Ask(alone) = alone {
                    self.ask(alone, body, stage);
                }
            }
            Some(_) => {}
            None if self.work.flaw == Some(Flaw::LostIsGranted) => {
                self.held.granted(&self.config, &ahead, now);
            }
            None => self.held.lost(&self.config, &ahead, now),
        }
        if ahead.ahead() > 0 {
            for _ in 0..std::mem::take(&mut self.waiting) {
                self.request(false, body, stage)?;
            }
        }
        self.flow(body, stage)
    }

    fn granted(&mut self, ahead: &Ahead, now: Duration, stage: &mut Stage<'_>) {
        if self.work.flaw == Some(Flaw::LeaseFromArrival) && ahead.ahead() > 0 {
            self.held.forget();
            if let Next::Ask(ahead) = self.held.next(&self.config, self.work.cost, true, now) {
                self.held.granted(&self.config, &ahead, now);
            }
            return;
        }
        if ahead.ahead() > 0 && self.held.granted(&self.config, ahead, now) == 0 {
            stage.checks.rare.saw(Coverage::AheadTooLate);
        }
    }

    fn flow(&self, body: &Body, stage: &mut Stage<'_>) -> Result<Flow, Violation> {
        if self.left > 0 || !self.calls.is_empty() {
            return Ok(Flow::On);
        }
        stage.checks.ahead.over(body.number)?;
        Ok(Flow::Done)
    }
}
