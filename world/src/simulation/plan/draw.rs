//! Draws a plan. The draws are biased towards the moments at which something ends: leases, windows,
//! waits and calls.

use lockage_core::{Limit, REMEMBERED_REQUESTS};

use super::limits::{calendar, limit_of};
use super::{
    BY_PART, End, FOREVER, Instead, Job, LEADERS, MILLI, Network, Options, Plan, SECOND, SERVERS,
    SEVERAL, Stored, Terms, Theme, Trouble, Verb, WARMUP, What, Work, Wrong,
};
use crate::simulation::draw::Draw;
use crate::simulation::store::{CACHED, DONE, GATE, LOCK, PLACES, TABLE, VALUE};

impl Plan {
    /// Returns the plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut plan = Plan::without_link(seed);
        plan.reach_by_link(&mut Draw::new(seed, 7));
        plan.leave_idle(&mut Draw::new(seed, 20));
        if (SEVERAL..LEADERS).contains(&seed) {
            plan.ask_for_several(&mut Draw::new(seed, 23));
        }
        if (BY_PART..LEADERS).contains(&seed) {
            plan.ask_by_part(&mut Draw::new(seed, 24));
        }
        if (WARMUP..LEADERS).contains(&seed) {
            plan.warm_up(&mut Draw::new(seed, 25));
        }
        if seed >= LEADERS {
            plan.elect(&mut Draw::new(seed, 21));
        }
        plan.cross_runtimes(&mut Draw::new(seed, 22));
        if plan.link.is_some() {
            // Its servers evict no key.
            plan.troubles.retain(|trouble| !matches!(trouble.what, Wrong::Evict { .. }));
        }
        plan
    }

    /// Returns the plan of a seed whose store is called directly, in every world.
    pub fn without_link(seed: u64) -> Self {
        let draw = &mut Draw::new(seed, 1);
        let theme = draw.one_of(&[
            Theme::Limiters,
            Theme::Limiters,
            Theme::Limiters,
            Theme::Locks,
            Theme::OneLock,
            Theme::OneLock,
            Theme::Values,
            Theme::Latch,
        ]);
        let nodes = draw.between(1, 3) as usize;
        let timeout_us = draw.one_of(&[100 * MILLI, 250 * MILLI, SECOND]);
        let heal_us = draw.between(2, 8) * SECOND;
        let lease_us = match draw.chance(500) {
            true => timeout_us * draw.between(3, 8),
            // Long enough that nothing becomes free by the end of its lease.
            false => 300 * SECOND,
        };
        let limit = limit_of(draw);
        let mut plan = Plan {
            seed,
            heal_us,
            ppm: (0..nodes).map(|_| draw.either_way(400)).collect(),
            runtimes: 1,
            options: Options::draw(&limit, timeout_us, draw),
            limit,
            other: limit_of(draw),
            timeout_us,
            lease_us,
            permits: draw.between(1, 4),
            count: draw.between(1, 3),
            terms: Terms {
                wake_ups: draw.chance(600),
                replicas: draw.chance(100),
                longest_us: draw.chance(100).then(|| timeout_us * draw.between(3, 8)),
                poll_us: None,
                panics: false,
            },
            keep_us: 100 * FOREVER,
            network: Network::draw(timeout_us, draw),
            link: None,
            jobs: Vec::new(),
            troubles: Vec::new(),
        };
        // In some worlds all jobs do the same.
        let focus = draw.chance(350).then(|| draw.bits());
        match (theme, focus) {
            (Theme::Limiters, Some(_)) => plan.meet_at_one_limiter(draw),
            (Theme::OneLock, Some(focus)) if focus % 7 == 0 => plan.lose_leases(draw),
            _ => {}
        }
        if plan.options.stored.is_some() && draw.chance(300) {
            // The stored limit may differ from the default.
            plan.other = calendar(draw);
        }
        for _ in 0..draw.between(2, 10) {
            let job = plan.job(theme, focus, draw);
            plan.jobs.push(job);
        }
        for _ in 0..draw.between(0, 4) {
            let trouble = plan.trouble(draw);
            plan.troubles.push(trouble);
        }
        let leaves_held = |wrong| {
            matches!(wrong, Wrong::Crash { .. } | Wrong::Die { .. }) || Wrong::shakes_store(wrong)
        };
        if plan.has(leaves_held) {
            // Waiters need the lease of an abandoned grant to end.
            plan.lease_us = plan.lease_us.min(10 * SECOND);
        }
        match draw.between(0, 11) {
            0..=2 => plan.calm_down(draw),
            3..=4 => plan.break_connections(draw),
            _ => plan.hold_up_messages(&mut Draw::new(seed, 4)),
        }
        plan.come_close(theme, focus.is_some(), &mut Draw::new(seed, 5));
        plan.sharpen(theme, &mut Draw::new(seed, 18));
        plan.stay_remembered();
        plan.part_runtimes(&mut Draw::new(seed, 6));
        plan.hold_otherwise(theme, &mut Draw::new(seed, 17));
        plan.change_latches(theme, &mut Draw::new(seed, 19));
        plan
    }

    /// Lets some jobs work without a check that their grant is held, some close their locks, and
    /// some worlds lose a key.
    fn hold_otherwise(&mut self, theme: Theme, draw: &mut Draw) {
        let (is_blind, closes) = (draw.chance(300), draw.chance(100));
        for job in &mut self.jobs {
            job.is_blind = is_blind && draw.chance(700);
            if let Work::Hold { end, is_own: true, .. } = &mut job.work
                && closes
            {
                *end = End::Closed;
            }
        }
        if !matches!(theme, Theme::Limiters | Theme::Charges) && draw.chance(30) {
            let key = draw.one_of(&[LOCK, PLACES, TABLE, GATE, VALUE, CACHED, DONE]);
            let at_us = draw.between(0, self.heal_us);
            self.troubles.push(Trouble { at_us, what: Wrong::Evict { key } });
            // A grant that its holder cannot release, and a late request that the store no longer
            // knows, end by themselves.
            (self.lease_us, self.network.stuck) = (self.lease_us.min(10 * SECOND), 0);
        }
    }

    /// Leaves nothing but cancelled jobs to go wrong, and keeps messages in order.
    pub(super) fn calm_down(&mut self, draw: &mut Draw) {
        self.network = self.network.alike();
        self.troubles.retain(|trouble| matches!(trouble.what, Wrong::Cancel { .. }));
        if draw.chance(500) {
            self.keep_us = self.timeout_us * draw.between(1, 4);
        }
    }

    /// Leaves only breaks of connections to go wrong, and lets waiters rely on notifications.
    pub(super) fn break_connections(&mut self, draw: &mut Draw) {
        self.calm_down(draw);
        self.keep_us = 100 * FOREVER;
        self.network.connect_us = draw.between(0, self.timeout_us / 8);
        self.terms = Terms { wake_ups: true, poll_us: Some(15 * SECOND), ..self.terms };
        for job in &mut self.jobs {
            if let Work::Hold { what: What::Lock { is_fair }, .. } = &mut job.work {
                // A lost place in line lasts for two polls.
                *is_fair = false;
            }
        }
        for _ in 0..draw.between(1, 4) {
            let (at_us, node) = (draw.between(0, self.heal_us), self.node(draw));
            self.troubles.push(Trouble { at_us, what: Wrong::Break { node } });
        }
    }

    /// Repeats some requests, and holds up some acquires of locks beyond their last time to run.
    /// Such an acquire would run all the same if the clock of the store is set back, or if the
    /// first call of new locks cannot know that clock: those worlds hold up none.
    fn hold_up_messages(&mut self, draw: &mut Draw) {
        let of = |draw: &mut Draw| if draw.chance(700) { 0 } else { draw.between(1, 200) as u32 };
        (self.network.twice, self.network.stuck) = (of(draw), of(draw));
        let has_own = |work| matches!(work, Work::Hold { is_own: true, .. });
        if self.has(Wrong::shakes_store) || self.works().any(has_own) {
            self.network.stuck = 0;
        }
    }

    pub(super) fn node(&self, draw: &mut Draw) -> usize {
        draw.between(0, self.ppm.len() as u64 - 1) as usize
    }

    /// Returns a span at which something ends, or close to it.
    pub(super) fn span(&self, draw: &mut Draw) -> u64 {
        let (lease_us, prefetch) = (self.lease_us.min(3 * SECOND), self.options.prefetch);
        let about_us = match draw.between(0, 9) {
            0 => lease_us,
            1 => lease_us / 3,
            2 => self.timeout_us,
            3 => self.timeout_us / 2,
            4 => prefetch.map_or(lease_us, |(_, lease_us)| lease_us),
            5..=7 => draw.between(1, 2 * self.timeout_us),
            _ => draw.between(1, 2 * lease_us),
        };
        let beside_us = draw.one_of(&[0, 1, self.network.least_us, 2 * self.network.least_us]);
        match draw.chance(500) {
            true => about_us + beside_us,
            false => about_us.saturating_sub(beside_us).max(1),
        }
    }

    /// One process has a deny cache, a fallback that it needs, or calls for several ids that it
    /// does not outlive.
    fn meet_at_one_limiter(&mut self, draw: &mut Draw) {
        let options = Options { prefetch: None, fallback: None, shadow: false, ..self.options };
        match draw.between(0, 4) {
            0..=1 => {
                self.ppm.truncate(1);
                self.options = Options { deny_cache: true, ..options };
            }
            2 => {
                self.options = Options { fallback: Some(Instead::Share), ..options };
                let what = Wrong::Away { server: 0, for_us: draw.between(SECOND, self.heal_us) };
                self.troubles.push(Trouble { at_us: draw.between(0, SECOND), what });
            }
            _ => {
                self.network.most_us = self.timeout_us / 8;
                let stored = Stored { is_per_client: draw.chance(400), keep_us: None };
                let stored = draw.chance(500).then_some(stored);
                let (idempotency, coalescing, batches) = (false, true, true);
                self.options = Options { idempotency, coalescing, batches, stored, ..options };
                if draw.chance(300) {
                    self.limit = calendar(draw);
                }
                for moment in 0..=3 {
                    let at_us = moment * SECOND / 2 + draw.between(0, self.timeout_us);
                    let (node, for_us) = (self.node(draw), draw.between(1, SECOND / 4));
                    self.troubles.push(Trouble { at_us, what: Wrong::Crash { node, for_us } });
                }
            }
        }
    }

    /// The store is away for about as long as leases last.
    fn lose_leases(&mut self, draw: &mut Draw) {
        self.lease_us = self.timeout_us * 3;
        for _ in 0..2 {
            let for_us = draw.between(self.lease_us / 2, self.lease_us + self.timeout_us);
            let at_us = draw.between(0, self.heal_us.saturating_sub(for_us));
            self.troubles.push(Trouble { at_us, what: Wrong::Away { server: 0, for_us } });
        }
    }

    fn job(&self, theme: Theme, focus: Option<u64>, draw: &mut Draw) -> Job {
        let pick = |most: u64, draw: &mut Draw| match focus {
            Some(focus) => focus % (most + 1),
            None => draw.between(0, most),
        };
        let node = self.node(draw);
        // Several requests at one time share one call.
        let together = if self.options.coalescing { 700 } else { 400 };
        let at_us = match draw.chance(together) {
            true => draw.between(0, 3) * SECOND / 2,
            false => draw.between(0, self.heal_us),
        };
        let mut work = match theme {
            _ if draw.chance(30) => Work::Look,
            Theme::Limiters | Theme::Charges if focus.is_some() => self.ask_for_one(draw),
            Theme::Limiters | Theme::Charges => self.ask(draw),
            Theme::Locks => {
                let what = match pick(9, draw) {
                    0..=2 => What::Permits(draw.between(1, self.permits)),
                    3..=4 => What::Read,
                    5..=6 => What::Write,
                    7 => What::Quorum,
                    _ => What::Lock { is_fair: draw.chance(500) },
                };
                self.hold(what, draw)
            }
            Theme::Quorum => self.hold(What::Quorum, draw),
            Theme::OneLock => match pick(6, draw) {
                0 if draw.chance(200) => Work::Force { for_us: self.span(draw) },
                0 => Work::Once { for_us: self.span(draw) },
                1 => self.hold(draw.one_of(&[What::Both, What::Both, What::Other]), draw),
                _ => self.hold(What::Lock { is_fair: draw.chance(300) }, draw),
            },
            Theme::Values => match draw.between(0, 7) {
                0..=4 => Work::Get { for_us: self.span(draw) },
                5..=6 => Work::Invalidate,
                _ => Work::Once { for_us: self.span(draw) },
            },
            Theme::Latch if draw.chance(400) => Work::Count { count: draw.between(1, 2) },
            Theme::Latch => {
                Work::Await { wait_us: draw.one_of(&[self.timeout_us, 4 * SECOND, FOREVER]) }
            }
        };
        if let Work::Hold { what: What::Permits(count), wait_us: 1.., .. } = &mut work
            && focus.is_some()
        {
            // Several permits that one job releases at once would be for as many waiters.
            *count = 1;
        }
        // A job that looks at all needs many polls.
        let most = if work == Work::Look { 90 } else { 12 };
        let polls = draw.chance(200).then(|| draw.between(1, most) as u32);
        let when_woken = draw.chance(500);
        let (is_blind, is_loose, moves_to) = (false, false, None);
        Job { node, runtime: 0, at_us, work, polls, when_woken, is_blind, is_loose, moves_to }
    }

    fn ask(&self, draw: &mut Draw) -> Work {
        let is_queue = self.limit.parts().any(|part| matches!(part, Limit::LeakyBucket(_)));
        let cost = draw.one_of(&[1, 1, 1, 2, 3]);
        let verb = match draw.between(0, 29) {
            0..=2 => Verb::Each { more: draw.between(1, 3) },
            3..=4 => Verb::Once,
            5..=6 => Verb::Reserve {
                // It is remembered for this long too: beyond its last copy.
                hold_us: self.span(draw).max(2 * self.timeout_us),
                actual: draw.chance(800).then(|| draw.between(0, 4)),
            },
            7..=9 => Verb::Refund,
            10 => Verb::Penalty,
            11 => Verb::TakeUpTo,
            12 => Verb::Block { for_us: self.span(draw) },
            13 => Verb::Peek,
            14 => Verb::Reset,
            15 if self.options.stored.is_some_and(|stored| !stored.is_per_client) => Verb::Store,
            15 if self.options.stored.is_none() => Verb::Under,
            15..=18 if is_queue => Verb::Turn { is_cancelled: draw.chance(500) },
            _ => Verb::Acquire {
                wait_us: draw.one_of(&[0, 0, 0, self.timeout_us, 4 * SECOND, 4 * SECOND]),
            },
        };
        Work::Ask {
            id: usize::from(draw.chance(if self.options.batches { 500 } else { 300 })),
            cost,
            second: None,
            verb,
            times: draw.between(1, 12) as u32,
            every_us: match draw.between(0, 4) {
                0 => 0,
                1 => 1,
                2 => draw.one_of(&[10 * MILLI, SECOND]),
                _ => self.span(draw),
            },
        }
    }

    /// Draws a request for one id, to which others give something back.
    fn ask_for_one(&self, draw: &mut Draw) -> Work {
        let verb = match draw.between(0, 9) {
            0 if self.options.stored.is_some_and(|stored| !stored.is_per_client) => Verb::Store,
            0..=2 => Verb::Refund,
            3 => Verb::Each { more: draw.between(1, 3) },
            4 => Verb::Peek,
            _ => Verb::Acquire { wait_us: draw.one_of(&[0, 0, self.timeout_us]) },
        };
        let every_us = draw.one_of(&[0, 1, self.network.most_us, 10 * MILLI, 100 * MILLI]);
        let id = if self.options.batches { draw.between(0, 1) as usize } else { 0 };
        let (cost, times) = (draw.one_of(&[1, 1, 2, 3]), draw.between(1, 12) as u32);
        Work::Ask { id, cost, second: None, verb, times, every_us }
    }

    fn hold(&self, what: What, draw: &mut Draw) -> Work {
        let (for_us, is_own) = (self.span(draw), draw.chance(100));
        let wait_us = draw.one_of(&[0, self.timeout_us, 4 * SECOND, FOREVER]);
        let end = match draw.between(0, 9) {
            0..=4 => End::Released,
            5 if is_own => End::Closed,
            _ => End::Dropped,
        };
        Work::Hold { what, wait_us, for_us, end, is_own, again: draw.chance(250) }
    }

    /// Keeps the requests with an id to as many as their key remembers, so that a late copy is no
    /// new request.
    fn stay_remembered(&mut self) {
        let mut left = REMEMBERED_REQUESTS as u32;
        for job in &mut self.jobs {
            if let Work::Ask { times, verb, .. } = &mut job.work
                && (self.options.idempotency || matches!(verb, Verb::Once))
            {
                *times = left.min(*times);
                left -= *times;
            }
        }
    }

    fn trouble(&self, draw: &mut Draw) -> Trouble {
        let at_us = draw.between(0, self.heal_us);
        let node = self.node(draw);
        let for_us = match draw.chance(700) {
            true => self.span(draw),
            false => draw.between(1, 3 * SECOND),
        };
        let for_us = for_us.min((self.heal_us - at_us).max(1));
        let what = match draw.between(0, 15) {
            0 => Wrong::Crash { node, for_us },
            1 => Wrong::Die { node, polls: draw.between(1, 9) as u32 },
            2..=3 => Wrong::Pause { node, for_us },
            4..=5 => {
                // The process may send a request by its last reading of the clock.
                let for_us = for_us.min(self.timeout_us / 4);
                Wrong::Stall { node, reads: draw.between(1, 6) as u32, for_us }
            }
            6..=8 => Wrong::Break { node },
            9..=10 => {
                let other = draw.between(1, SERVERS as u64 - 1) as usize;
                Wrong::Away { server: if draw.chance(750) { 0 } else { other }, for_us }
            }
            11 => {
                let old = draw.between(0, self.ppm.len() as u64 - 1) as usize;
                Wrong::Failover {
                    behind_us: draw.between(0, SECOND),
                    old,
                    for_us: for_us * old.min(1) as u64,
                }
            }
            12 => Wrong::Clock { by_us: draw.either_way(2 * SECOND) },
            _ => Wrong::Cancel { job: draw.between(0, self.jobs.len() as u64 - 1) as usize },
        };
        Trouble { at_us, what }
    }
}
