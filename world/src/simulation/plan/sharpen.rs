//! Settings of limiters, and worlds in which they matter, drawn from a stream of their own.

use super::{
    Circuit, Instead, MILLI, Network, Options, Plan, SECOND, Theme, Trouble, Unread, Verb, Work,
    Wrong,
};
use crate::simulation::draw::Draw;
use lockage_core::Limit;

impl Plan {
    pub(super) fn sharpen(&mut self, theme: Theme, draw: &mut Draw) {
        let options = &mut self.options;
        if options.deny_cache && draw.chance(300) {
            options.max_age_us = Some(draw.between(MILLI, 2 * SECOND));
        }
        if options.fallback.is_some() && draw.chance(300) {
            options.circuit = Some(Circuit::draw(draw));
        }
        if options.fallback.is_some() && options.stored.is_some() && draw.chance(600) {
            options.unread = Some(draw.one_of(&[Unread::LastSeen, Unread::Given, Unread::Refused]));
        }
        match (theme, draw.between(0, 29)) {
            (Theme::Limiters, 0..=1) => self.change_beside(draw),
            (Theme::Limiters, 2) => self.break_circuit(draw),
            _ => {}
        }
    }

    /// A key changes all the time, while limiters that remember something of it ask for it.
    fn change_beside(&mut self, draw: &mut Draw) {
        let is_queue = self.limit.parts().any(|part| matches!(part, Limit::LeakyBucket(_)));
        let most = self.limit.capacity() - 1;
        let has_prefetch = most > 0 && !is_queue && draw.chance(500);
        let prefetch =
            has_prefetch.then(|| (draw.between(1, most), draw.between(20 * MILLI, 3 * SECOND)));
        let stored = self.options.stored.filter(|stored| !stored.is_per_client);
        let closed = draw.chance(200).then_some(Instead::Closed);
        let (idempotency, deny_cache) = (draw.chance(300), prefetch.is_none() || draw.chance(400));
        let max_age_us = draw.chance(200).then(|| draw.between(MILLI, SECOND));
        self.options = Options {
            idempotency,
            deny_cache,
            max_age_us,
            stored,
            prefetch,
            fallback: closed,
            ..Options::default()
        };
        self.ppm.truncate(draw.between(1, 2) as usize);
        let nodes = self.ppm.len();
        self.troubles.retain(|trouble| !trouble.what.is_of_node(nodes));
        if draw.chance(500) {
            self.calm_down(draw);
        }
        for (index, job) in self.jobs.iter_mut().enumerate() {
            let span_us = draw.between(MILLI, SECOND);
            let verb = match (index % 3, draw.between(0, 7)) {
                (0, 0 | 1) => Verb::Reset,
                (0, 2) => Verb::Block { for_us: span_us },
                (0, 3 | 4) => Verb::Refund,
                (0, 5) => Verb::TakeUpTo,
                (0, 6) => Verb::Penalty,
                (0, _) if stored.is_some() => Verb::Store,
                (0, _) => {
                    Verb::Reserve { hold_us: 4 * self.timeout_us, actual: Some(draw.between(0, 3)) }
                }
                (_, 0) => Verb::Each { more: 1 },
                (_, 1) => Verb::Peek,
                _ => Verb::Acquire { wait_us: 0 },
            };
            let every_us = draw.one_of(&[0, 1, 10 * MILLI, 50 * MILLI, span_us]);
            let cost = draw.one_of(&[1, 1, 2, 3]);
            job.work = Work::Ask { id: 0, cost, second: None, verb, times: 12, every_us };
            (job.node, job.at_us) = (job.node % nodes, draw.between(0, SECOND));
        }
    }

    /// The store is away now and then, for about as long as breakers count.
    fn break_circuit(&mut self, draw: &mut Draw) {
        let circuit = Circuit::draw(draw);
        let instead = draw.one_of(&[Instead::Open, Instead::Closed, Instead::Share]);
        self.options = Options {
            idempotency: draw.chance(300),
            deny_cache: draw.chance(300),
            fallback: Some(instead),
            circuit: Some(circuit),
            ..Options::default()
        };
        self.troubles.clear();
        self.network = Network { lost: draw.one_of(&[0, 0, 200]), ..self.network.alike() };
        for _ in 0..draw.between(1, 4) {
            let for_us =
                circuit.probe_every_us * draw.between(1, 2 * u64::from(circuit.trip_after));
            let for_us = for_us + draw.between(0, 2 * self.timeout_us);
            let at_us = draw.between(0, self.heal_us);
            let for_us = for_us.min(self.heal_us - at_us).max(1);
            self.troubles.push(Trouble { at_us, what: Wrong::Away { server: 0, for_us } });
        }
        for job in &mut self.jobs {
            let verb = match draw.between(0, 9) {
                0 => Verb::Peek,
                1 => Verb::Once,
                2 => Verb::Refund,
                3 => Verb::Each { more: 1 },
                _ => Verb::Acquire { wait_us: 0 },
            };
            let every_us = draw.one_of(&[
                1,
                circuit.probe_every_us / 3,
                circuit.probe_every_us,
                self.timeout_us,
            ]);
            let id = draw.between(0, 1) as usize;
            job.work = Work::Ask { id, cost: 1, second: None, verb, times: 12, every_us };
            job.at_us = draw.between(0, SECOND);
        }
    }

    /// A latch is changed so often that it forgets changes whose copies are on their way.
    pub(super) fn change_latches(&mut self, theme: Theme, draw: &mut Draw) {
        if theme != Theme::Latch || !draw.chance(200) {
            return;
        }
        if draw.chance(700) {
            self.troubles.retain(|trouble| !trouble.what.shakes_store());
        }
        let [lost, late, twice] = [[0, 100, 300], [0, 200, 400], [0, 100, 400]];
        let (lost, late, twice) = (draw.one_of(&lost), draw.one_of(&late), draw.one_of(&twice));
        let least_us = draw.one_of(&[MILLI, self.timeout_us / 64]);
        let most_us = least_us * draw.between(1, 4);
        self.network = Network { least_us, most_us, lost, late, twice, ..self.network };
        for job in &mut self.jobs {
            let every_us = draw.one_of(&[0, 0, least_us, self.timeout_us / 16]);
            let (count, times) = (draw.between(1, 3), draw.between(4, 16) as u32);
            if draw.chance(800) {
                job.work = Work::Change { count, times, every_us };
                job.at_us = draw.between(0, self.timeout_us);
            }
        }
    }

    /// Returns whether programs report all calls that a circuit breaker counts.
    pub(in crate::simulation) fn shows_circuit(&self) -> bool {
        let Options { fallback, coalescing, prefetch, batches, .. } = self.options;
        let waits = |verb| matches!(verb, Verb::Lazy { .. } | Verb::Acquire { wait_us: 1.. });
        fallback.is_some()
            && !coalescing
            && !batches
            && prefetch.is_none()
            && !self.asks(waits)
            && !self.has(|wrong| matches!(wrong, Wrong::Stall { .. }))
    }
}

impl Circuit {
    fn draw(draw: &mut Draw) -> Self {
        Circuit {
            trip_after: draw.between(1, 4) as u32,
            probe_every_us: draw.one_of(&[20 * MILLI, 100 * MILLI, 500 * MILLI, SECOND]),
            return_after: draw.between(1, 4) as u32,
        }
    }
}

impl Default for Circuit {
    /// Returns the defaults of a fallback.
    fn default() -> Self {
        Circuit { trip_after: 3, probe_every_us: 500 * MILLI, return_after: 3 }
    }
}

impl Wrong {
    /// Returns whether it affects the node of this number or a later one, or an old primary.
    fn is_of_node(self, first: usize) -> bool {
        match self {
            Wrong::Crash { node, .. }
            | Wrong::Die { node, .. }
            | Wrong::Pause { node, .. }
            | Wrong::Stall { node, .. }
            | Wrong::EndRuntime { node, .. }
            | Wrong::BlockRuntime { node, .. }
            | Wrong::Break { node } => node >= first,
            Wrong::Failover { old, .. } => old >= first,
            Wrong::Away { .. }
            | Wrong::Cancel { .. }
            | Wrong::Clock { .. }
            | Wrong::Evict { .. } => false,
        }
    }
}
