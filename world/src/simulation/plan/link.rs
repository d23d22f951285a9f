//! The way to stores in worlds in which the shipped one talks to servers, and the failures on that
//! way.

use super::{Network, Plan, SECOND, Trouble, Wrong};
use crate::simulation::draw::Draw;

/// Connections to servers that run the scripts. Chances are per thousand requests, until all is
/// well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::simulation) struct Link {
    /// Whether the store is a cluster of two nodes.
    pub(in crate::simulation) is_cluster: bool,
    /// Whether channels are sharded.
    pub(in crate::simulation) is_sharded: bool,
    /// When each node calls many keys at once, in addition to its jobs.
    pub(in crate::simulation) sweep_us: Option<u64>,
    /// The server has lost its scripts.
    pub(in crate::simulation) forgets: u32,
    /// A slot takes a step on its way to the other node.
    pub(in crate::simulation) moves: u32,
    /// A replica lags behind.
    pub(in crate::simulation) lags: u32,
    /// The server refuses it, for a temporary reason.
    pub(in crate::simulation) refuses: u32,
    /// The server has no memory left for it.
    pub(in crate::simulation) full: u32,
    /// The server accepts no new connection.
    pub(in crate::simulation) rejects: u32,
    /// The server restarts before it, with its data.
    pub(in crate::simulation) restarts: u32,
    /// The connection is closed before it runs.
    pub(in crate::simulation) closes: u32,
    /// The connection is closed after it has run.
    pub(in crate::simulation) cuts: u32,
    /// The connection carries nothing any more, and neither side notices.
    pub(in crate::simulation) silences: u32,
    /// How long without a request it takes a connection to stop carrying anything.
    pub(in crate::simulation) idle_us: Option<u64>,
}

impl Link {
    fn draw(is_calm: bool, draw: &mut Draw) -> Link {
        let mut of = |is_drawn: bool, most: u64| match draw.chance(400) && is_drawn {
            true => draw.between(1, most) as u32,
            false => 0,
        };
        // These cost a call some more messages, and nothing else.
        let (forgets, moves) = (of(true, 300), of(true, 200));
        let hard = !is_calm;
        let link = Link {
            forgets,
            moves,
            lags: of(hard, 300),
            refuses: of(hard, 100),
            full: of(hard, 100),
            rejects: of(hard, 300),
            restarts: of(hard, 20),
            closes: of(hard, 60),
            cuts: of(hard, 60),
            silences: of(hard, 20),
            ..Link::default()
        };
        Link {
            is_cluster: draw.chance(300),
            is_sharded: draw.chance(500),
            sweep_us: draw.chance(100).then(|| draw.between(0, 3 * SECOND)),
            idle_us: (hard && draw.chance(300)).then(|| draw.between(SECOND, 4 * SECOND)),
            ..link
        }
    }

    /// Returns whether each call is answered, where a connection that was idle is checked.
    fn is_only_idle(self) -> bool {
        !self.is_cluster && self.idle_us.is_some() && Link { idle_us: None, ..self }.is_calm()
    }

    /// Returns whether each call is answered: at most, scripts are lost and slots move.
    pub(super) fn is_calm(self) -> bool {
        let Link { is_cluster, is_sharded, sweep_us, forgets, moves, .. } = self;
        self == Link { is_cluster, is_sharded, sweep_us, forgets, moves, ..Link::default() }
    }
}

impl Plan {
    /// Returns how many messages fit into the time of a call: an attempt has a quarter of it. An
    /// attempt may first make and check a connection, and send a script.
    pub(in crate::simulation) fn hops(&self) -> u64 {
        if self.link.is_some() { 64 } else { 16 }
    }

    /// Leaves nothing to be lost but connections that are idle, the first of them before it was used.
    pub(super) fn leave_idle(&mut self, draw: &mut Draw) {
        let Some(link) = self.link.filter(|link| !link.is_cluster && draw.chance(100)) else {
            return;
        };
        let idle_us = draw.between(SECOND, 2 * SECOND);
        let Link { is_sharded, forgets, .. } = link;
        let idle = Link { is_sharded, forgets, idle_us: Some(idle_us), ..Link::default() };
        self.link = Some(idle);
        self.network = self.network.alike();
        self.troubles.clear();
        self.ppm.truncate(1);
        for (index, job) in self.jobs.iter_mut().enumerate() {
            job.node = 0;
            job.at_us = draw.between(1, 4) * idle_us + draw.between(0, SECOND);
            if index == 0 {
                (job.at_us, job.polls) = (0, Some(draw.between(1, 4) as u32));
            }
        }
    }

    /// Returns whether each call is answered, where a connection that was idle is checked, and callers poll their calls.
    pub(in crate::simulation) fn is_only_idle(&self) -> bool {
        let Network { most_us, lost, late, .. } = self.network;
        self.link.is_some_and(Link::is_only_idle)
            && (lost, late) == (0, 0)
            && self.unpolled_us() == 0
            && self.hops() * most_us < self.timeout_us
            && !self.has(|wrong| !matches!(wrong, Wrong::Cancel { .. }))
    }

    /// Lets the shipped store call simulated servers in some worlds.
    pub(super) fn reach_by_link(&mut self, draw: &mut Draw) {
        if draw.chance(80) {
            self.call_servers(draw);
        }
    }

    /// Lets the shipped store call simulated servers.
    pub(super) fn call_servers(&mut self, draw: &mut Draw) {
        let is_calm = self.is_calm() || draw.chance(300);
        self.link = Some(Link::draw(is_calm, draw));
        // A connection carries each request once, and only while it lasts.
        (self.network.twice, self.network.stuck) = (0, 0);
        if !is_calm && draw.chance(100) {
            // A server restarts without its data.
            let at_us = draw.between(0, self.heal_us);
            let what = Wrong::Failover { behind_us: u64::MAX, old: 0, for_us: 0 };
            self.troubles.push(Trouble { at_us, what });
            self.lease_us = self.lease_us.min(10 * SECOND);
        }
    }
}
