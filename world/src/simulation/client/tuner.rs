//! A client that asks for several permits at once, takes a turn and gives it back, changes what a limiter has counted, reserves and settles, stores a
//! limit, or only asks.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::{CancelTurn, RequestId, Reservation, Settlement};

use super::calls::CallEnd;
use super::{Body, Flow};
use crate::simulation::job::Work;
use crate::simulation::limiter::{LimiterAsk, What};
use crate::simulation::message::{Answer, Ask};
use crate::simulation::server::Outcome;
use crate::simulation::stage::Stage;

#[derive(Debug)]
pub(super) struct Tuner {
    work: Work,
    reservation: Option<Reservation>,
    settlements: u64,
    turn: Option<Arc<CancelTurn>>,
}

impl Tuner {
    pub(super) fn begin(work: Work, body: &mut Body, stage: &mut Stage<'_>) -> Self {
        let mut id = || RequestId::from_u128(body.draw.id());
        let (what, is_other) = match work {
            Work::Adjust { adjustment, amount, with_id, is_other } => {
                (What::Adjust { adjustment, amount, id: with_id.then(&mut id) }, is_other)
            }
            Work::Reserve { estimate, hold_us, is_other, .. } => {
                (What::Reserve { cost: estimate, id: id(), hold_us }, is_other)
            }
            Work::AskEach { costs, is_other } => (What::AcquireEach { costs }, is_other),
            Work::TakeTurn { cost, with_id, is_other, .. } => {
                (What::TakeTurn { cost, id: with_id.then(&mut id) }, is_other)
            }
            Work::Peek { cost, is_other } => (What::Peek { cost }, is_other),
            Work::Set { setting, is_other } => (What::Set(setting), is_other),
            Work::Hold { .. }
            | Work::Break { .. }
            | Work::Count { .. }
            | Work::Ask { .. }
            | Work::Spend(_) => {
                unreachable!("others do that")
            }
        };
        call(what, is_other, body, stage);
        Tuner { work, reservation: None, settlements: 0, turn: None }
    }

    pub(super) fn ended(&mut self, end: &CallEnd, body: &mut Body, stage: &mut Stage<'_>) -> Flow {
        let Some(Answer::Done(outcome)) = &end.answer else { return Flow::Done };
        let (for_us, is_twice) = match (self.work, outcome) {
            (Work::Reserve { for_us, is_twice, .. }, _) => (for_us, is_twice),
            (Work::TakeTurn { after_us, .. }, Outcome::Turn { cancel: Some(turn), .. }) => {
                self.turn = Some(turn.clone());
                body.rest(Duration::from_micros(after_us), stage);
                return Flow::On;
            }
            _ => return Flow::Done,
        };
        match outcome.inner() {
            Outcome::Reserved(reserved) if reserved.reservation.is_some() => {
                self.reservation = reserved.reservation;
                body.rest(Duration::from_micros(for_us), stage);
                Flow::On
            }
            Outcome::Settled(Settlement::Settled { .. }) if is_twice && self.settlements < 2 => {
                self.settle(body, stage)
            }
            _ => Flow::Done,
        }
    }

    pub(super) fn rested(&mut self, body: &mut Body, stage: &mut Stage<'_>) -> Flow {
        match (self.work, self.turn.take()) {
            (Work::TakeTurn { is_other, .. }, Some(turn)) => {
                call(What::Cancel(turn), is_other, body, stage);
                Flow::On
            }
            _ => self.settle(body, stage),
        }
    }

    /// A second time with one more.
    fn settle(&mut self, body: &mut Body, stage: &mut Stage<'_>) -> Flow {
        let (Some(reservation), Work::Reserve { actual, is_other, .. }) =
            (self.reservation, self.work)
        else {
            return Flow::Done;
        };
        let actual = actual + self.settlements;
        self.settlements += 1;
        call(What::Settle { reservation, actual }, is_other, body, stage);
        Flow::On
    }
}

fn call(what: What, is_other: bool, body: &mut Body, stage: &mut Stage<'_>) {
    let timeout = Duration::from_micros(stage.scenario.timeout_us);
    body.call(Ask::Limiter(LimiterAsk { is_other, what }), timeout, stage);
}
