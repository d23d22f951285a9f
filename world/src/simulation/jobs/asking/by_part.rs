//! Programs that ask with a cost for each part of a limit.

use super::Request;
use crate::simulation::jobs::{IDS, LONG, Life};
use crate::simulation::judge::Op;
use crate::simulation::place::Place;
use crate::simulation::plan::Verb;

impl<P: Place> Life<P> {
    pub(super) async fn ask_by_part(&self, request: Request, verb: Verb) {
        let Request { id, cost, .. } = request;
        let name = IDS[id];
        match verb {
            Verb::Acquire { wait_us: 0 } => {
                self.asks(id, cost);
                let acquire = self.limiter.try_acquire_parts(name, &cost);
                let answer = self.call(acquire, |it| it.origin).await;
                self.decided(request, answer).await;
            }
            Verb::Once => {
                self.asks(id, cost);
                let id = self.random_id();
                let once = self.limiter.try_acquire_parts_once(name, &cost, id, LONG);
                let answer = self.call(once, |it| it.origin).await;
                self.decided(request, answer).await;
            }
            Verb::Peek => {
                match self.call(self.limiter.peek_parts(name, &cost), |it| it.origin).await {
                    Ok(decision) => {
                        self.tell(Request { op: Op::Peek, ..request }, false, &decision)
                    }
                    Err(error) => self.failed("peek", &error),
                }
            }
            Verb::Refund => {
                let changing = self.changing(id, false);
                let answer = self.limiter.refund_parts(name, &cost).await;
                self.adjusted(Request { op: Op::Refund, ..request }, answer);
                drop(changing);
            }
            Verb::Penalty => {
                self.asks(id, cost);
                let changing = self.changing(id, false);
                let answer = self.limiter.penalty_parts(name, &cost).await;
                self.adjusted(Request { op: Op::Penalty, ..request }, answer);
                drop(changing);
            }
            _ => unreachable!("{verb:?} has one cost for all parts"),
        }
    }
}
