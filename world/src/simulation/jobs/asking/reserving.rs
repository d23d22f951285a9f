//! Programs that take turns and reserve, and hold what they reserved.

use std::time::Duration;

use lockage::Decision;
use lockage::limiter::{Origin, Reserved};
use lockage::runtime::Runtime;
use lockage_core::{Limit, Settlement};

use super::{AtEnd, Request};
use crate::simulation::by_part::{ByPart, each};
use crate::simulation::jobs::{IDS, Life};
use crate::simulation::judge::{Answer, Op, Seen};
use crate::simulation::place::Place;

impl<P: Place> Life<P> {
    /// Asks for a reservation, which a guard renews for so long.
    pub(super) async fn ask_and_hold(
        &self,
        request: Request,
        is_by_part: bool,
        (hold, span): (Duration, Duration),
        is_dropped: bool,
        actual: Option<u64>,
    ) {
        let Request { id, cost, .. } = request;
        let actual = actual.map(|actual| actual_of(cost, actual));
        self.asks(id, each(cost, actual.unwrap_or_default(), u64::max));
        let held = match is_by_part {
            true => self.limiter.hold_parts(IDS[id], &cost, hold).await,
            false => self.limiter.hold(IDS[id], cost[0], hold).await,
        };
        let held = match held {
            Ok(Ok(held)) => held,
            Ok(Err(_)) => return,
            Err(error) => return self.failed("hold", &error),
        };
        self.tell(request, false, held.decision());
        let parts: Vec<Limit> = self.plan.limit.parts().collect();
        let place = parts.iter().position(|part| part.has_places()).unwrap_or_default();
        let places = cost[place];
        self.place.saw(Seen::TakesPlaces { id, cost: places });
        let seen = Seen::LeavesPlaces { id, cost: places };
        let in_flight = AtEnd { place: &self.place, seen };
        self.runtime.sleep(span).await;
        drop(in_flight);
        if is_dropped {
            return;
        }
        let (cost, since_us) = (actual.unwrap_or(cost), self.place.now_us());
        let request = Request { op: Op::Settle, cost, since_us, ..request };
        // There is nothing to settle where shadow mode let it through, also without the store.
        let Decision { origin, shadow, .. } = held.decision();
        let is_reserved = *origin == Origin::Store && shadow.is_none();
        let changing = is_reserved.then(|| self.changing(id, false));
        let settled = match actual {
            Some(actual) if is_by_part => held.commit_parts(&actual).await,
            Some([actual, _]) => held.commit(actual).await,
            None => held.end().await,
        };
        match settled {
            Ok(None) => {}
            Ok(Some(Settlement::Expired)) if self.plan.is_calm_for_two_keys() => {
                let what = "a reservation has expired that its guard renews".to_owned();
                self.place.saw(Seen::Wrong { what });
            }
            Ok(Some(settlement)) => self.answered(request, Ok(Answer::Settlement(settlement))),
            Err(error) => self.failed("end", &error),
        }
        drop(changing);
    }

    pub(super) async fn take_turn(&self, request: Request, is_cancelled: bool) {
        let Request { id, cost, .. } = request;
        self.asks(id, cost);
        let turn =
            self.call(self.limiter.take_turn(IDS[id], cost[0]), |it| it.decision.origin).await;
        let turn = match turn {
            Ok(turn) => turn,
            Err(error) => return self.failed("take a turn", &error),
        };
        self.tell(request, false, &turn.decision);
        let Some(ticket) = turn.ticket else { return };
        self.runtime.sleep(turn.decision.turn_after / 2).await;
        if is_cancelled {
            let since_us = self.place.now_us();
            let changing = self.changing(id, false);
            let answer = self.limiter.cancel_turn(IDS[id], ticket).await.map(Answer::Cancellation);
            self.answered(
                Request { op: Op::CancelTurn, cost: [0; 2], since_us, ..request },
                answer,
            );
            drop(changing);
        }
    }

    pub(super) async fn reserve(
        &self,
        request: Request,
        is_by_part: bool,
        hold: Duration,
        actual: Option<u64>,
    ) {
        let Request { id, cost, since_us, .. } = request;
        let actual = actual.map(|actual| actual_of(cost, actual));
        self.asks(id, each(cost, actual.unwrap_or_default(), u64::max));
        let reserved = match is_by_part {
            true => self.limiter.reserve_parts(IDS[id], &cost, hold).await,
            false => self.limiter.reserve(IDS[id], cost[0], hold).await,
        };
        let Reserved { decision, reservation, .. } = match reserved {
            Ok(reserved) => reserved,
            Err(error) => return self.failed("reserve", &error),
        };
        self.tell(request, false, &decision);
        let (Some(reservation), Some(actual)) = (reservation, actual) else { return };
        // Some are settled in time, and some at the very end.
        let at = [hold / 4, hold / 2, hold][self.place.draw(2) as usize];
        self.runtime.sleep(at).await;
        self.place.saw(Seen::Settles { cost, actual });
        let settles =
            Request { op: Op::Settle, cost: actual, since_us: self.place.now_us(), ..request };
        let changing = self.changing(id, false);
        let settlement = match actual {
            [0, 0] => self.limiter.cancel(IDS[id], &reservation).await,
            actual if is_by_part => self.limiter.commit_parts(IDS[id], &reservation, &actual).await,
            [actual, _] => self.limiter.commit(IDS[id], &reservation, actual).await,
        };
        if let Ok(settlement) = &settlement {
            let settlement = settlement.clone();
            self.place.saw(Seen::Settled { id, reservation, since_us, actual, settlement });
        }
        self.answered(settles, settlement.map(Answer::Settlement));
        drop(changing);
    }
}

/// Returns costs with another one for the first part, and for the second one only if both were equal.
pub(super) fn with_first([cost, second]: ByPart, first: u64) -> ByPart {
    [first, if cost == second { first } else { second }]
}

/// Returns the actual cost of each part, with this one for the first: of a cost by part, one may be above its estimate and
/// another below.
fn actual_of([cost, second]: ByPart, actual: u64) -> ByPart {
    [actual, if cost == second { actual } else { (actual + second) % 5 }]
}
