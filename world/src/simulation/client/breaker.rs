//! A client that asks who holds the lock, and frees it by force.

use std::time::Duration;

use super::calls::CallEnd;
use super::{Body, Flow};
use crate::simulation::message::{Answer, Ask};
use crate::simulation::server::Outcome;
use crate::simulation::stage::Stage;

#[derive(Debug)]
pub(super) struct Breaker {
    after: Duration,
    /// How often it is still to be done.
    times: u32,
    /// Of the grant that was seen.
    token: Option<u64>,
}

impl Breaker {
    pub(super) fn begin(
        (after_us, is_twice): (u64, bool),
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Self {
        call(Ask::Inspect, body, stage);
        let times = if is_twice { 2 } else { 1 };
        Breaker { after: Duration::from_micros(after_us), times, token: None }
    }

    pub(super) fn ended(&mut self, end: &CallEnd, body: &mut Body, stage: &mut Stage<'_>) -> Flow {
        if let Some(Answer::Done(Outcome::Inspected(seen))) = &end.answer {
            self.token = seen.holder.map(|holder| holder.hold.token);
        }
        if self.token.is_none() || self.times == 0 {
            return Flow::Done;
        }
        body.rest(self.after, stage);
        Flow::On
    }

    pub(super) fn rested(&mut self, body: &mut Body, stage: &mut Stage<'_>) -> Flow {
        let Some(token) = self.token else { return Flow::Done };
        self.times = self.times.saturating_sub(1);
        call(Ask::Break { token }, body, stage);
        Flow::On
    }
}

fn call(ask: Ask, body: &mut Body, stage: &mut Stage<'_>) {
    let timeout = Duration::from_micros(stage.scenario.timeout_us);
    body.call(ask, timeout, stage);
}
