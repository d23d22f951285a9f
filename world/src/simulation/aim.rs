//! Requests that arrive at the very microsecond at which something ends at the store, or right before or after it: that is where a
//! comparison is off by one, and by chance alone hardly any of them come there.

use super::check::Truth;
use super::draw::Draw;
use super::message::{Action, Ask, ClaimAsk, Request};
use super::scenario::Scenario;
use super::stage::Stage;

/// The stream that says how often they do. With this one no world that has failed once is changed.
const AIMS: u64 = (1 << 41) + 67_273;

impl Scenario {
    /// In half of the worlds some requests are aimed.
    pub(super) fn aim(&mut self) {
        let draw = &mut Draw::new(self.seed, AIMS);
        if draw.chance(500) {
            self.network.aimed = draw.between(1, 1000) as u32; // as it says
        }
    }
}

impl Stage<'_> {
    /// When a request arrives that is sent now, if it is aimed and something ends between these times.
    pub(super) fn aimed(
        &self,
        request: &Request,
        (soonest_us, latest_us): (u64, u64),
        draw: &mut Draw,
    ) -> Option<u64> {
        let network = &self.scenario.network;
        if !draw.chance(network.aimed) {
            return None;
        }
        let beside_us = if network.grain_us == 1 { draw.one_of(&[0, 0, -1, 1]) } else { 0 };
        let arrives_us = |end_us: u64| {
            let at_us = self.node.when(end_us.saturating_add_signed(beside_us))?;
            let is_right = (soonest_us..=latest_us).contains(&at_us);
            (is_right && at_us.is_multiple_of(network.grain_us)).then_some(at_us)
        };
        let ends = self.checks.truths[request.key].ends_us();
        let all: Vec<u64> =
            ends.into_iter().chain(request.ask.ends_us()).filter_map(arrives_us).collect();
        (!all.is_empty()).then(|| draw.one_of(&all))
    }
}

impl Truth {
    /// When something ends, by the store's clock: what has ended already may be among them.
    fn ends_us(&self) -> Vec<u64> {
        match self {
            Truth::Lock(truth) => truth.ends_us().collect(),
            Truth::Shared(truth) => truth.ends_us().collect(),
            Truth::Latch(truth) => vec![truth.until_us()],
            Truth::Limiter(truth) => truth.ends_us().collect(),
        }
    }
}

impl Ask {
    /// When it comes too late, by the store's clock.
    fn ends_us(&self) -> Option<u64> {
        match self {
            Ask::Claim(ClaimAsk { action: Action::Acquire { not_after, .. }, .. }) => {
                Some(not_after.as_micros())
            }
            _ => None,
        }
    }
}
