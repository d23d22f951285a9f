//! A client that sets a latch, or counts it down.

use std::time::Duration;

use lockage_core::latch::OperationId;

use super::calls::CallEnd;
use super::{Body, Flow};
use crate::simulation::message::{Ask, CountAsk};
use crate::simulation::stage::Stage;

#[derive(Debug)]
pub(super) struct Counter {
    ask: CountAsk,
    is_insistent: bool,
}

impl Counter {
    pub(super) fn begin(
        (count, is_set, is_insistent): (u64, bool, bool),
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Self {
        let id = OperationId::from_u128(body.draw.id());
        let counter = Counter { ask: CountAsk { id, count, is_set }, is_insistent };
        counter.call(body, stage);
        counter
    }

    fn call(&self, body: &mut Body, stage: &mut Stage<'_>) {
        let timeout = Duration::from_micros(stage.scenario.timeout_us);
        body.call(Ask::Count(self.ask), timeout, stage);
    }

    /// Ended, except for a caller that repeats until it is answered.
    pub(super) fn ended(&self, end: &CallEnd, body: &mut Body, stage: &mut Stage<'_>) -> Flow {
        if end.answer.is_some() || !self.is_insistent {
            return Flow::Done;
        }
        self.call(body, stage);
        Flow::On
    }
}
