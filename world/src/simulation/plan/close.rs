//! Turns some worlds into ones in which rare events coincide: each kind finds bugs that no other
//! finds within thousands of worlds.

use super::limits::{calendar, single_limit};
use super::{
    End, FOREVER, Network, Options, Plan, SECOND, SERVERS, Stored, Terms, Theme, Trouble, Verb,
    What, Work, Wrong,
};
use crate::simulation::draw::Draw;

impl Plan {
    pub(super) fn come_close(&mut self, theme: Theme, has_focus: bool, draw: &mut Draw) {
        match (theme, draw.between(0, 19)) {
            // Programs that ask for one thing get close to something else.
            (Theme::Limiters, _) if has_focus => {}
            (Theme::Limiters, 0) => self.overtake(draw),
            (Theme::Limiters, 1) => self.lose_answers(draw),
            (Theme::Limiters, 5) => self.meet_boundaries(draw),
            (Theme::Limiters, 6) => self.stand_in_line(draw),
            (Theme::Limiters, 7) => self.leave_shared_calls(draw),
            (Theme::OneLock, 0..=2) => self.copy_late(draw),
            (Theme::OneLock, 3..=5) => self.wake_one(What::Lock { is_fair: false }, draw),
            (Theme::OneLock, 6) => self.lose_while_working(What::Both, draw),
            (Theme::Locks, 0..=5) => self.wake_one(What::Permits(1), draw),
            (Theme::Locks, 6..=8) => self.wake_one(What::Read, draw),
            (Theme::Locks, 9..=10) => self.lose_while_working(What::Quorum, draw),
            (Theme::Latch, 0..=4) => self.wake_all(draw),
            _ => {}
        }
    }

    /// Calls that make room overtake denials, on their way to one process with a deny cache.
    fn overtake(&mut self, draw: &mut Draw) {
        let kind = draw.one_of(&["fixed-window", "sliding-log", "sliding-window"]);
        self.limit = format!("{kind} {}/3s", draw.between(1, 4)).parse().expect("a limit");
        self.options = Options { deny_cache: true, ..Options::default() };
        self.ppm.truncate(1);
        self.troubles.clear();
        self.network = Network { late: 300, ..self.network.alike() };
        self.jobs.truncate(4);
        for (index, job) in self.jobs.iter_mut().enumerate() {
            // One caller gives back now and then, and the others ask all the time.
            let (cost, verb, every_us) = match index {
                0 => (4, Verb::Refund, self.timeout_us / 2),
                _ => (1, Verb::Acquire { wait_us: 0 }, self.timeout_us / 10),
            };
            let every_us = draw.between(every_us / 2, every_us);
            job.work = Work::Ask { id: 0, cost, second: None, verb, times: 12, every_us };
            (job.node, job.at_us, job.polls) = (0, draw.between(0, self.timeout_us), None);
        }
    }

    /// Answers are lost, and then the store is away.
    fn lose_answers(&mut self, draw: &mut Draw) {
        self.options = Options { idempotency: true, ..Options::default() };
        self.limit = "fixed-window 12/3s".parse().expect("a limit");
        self.troubles.clear();
        self.network = Network { lost: 250, ..self.network.alike() };
        for job in &mut self.jobs {
            let (verb, every_us) = (Verb::Acquire { wait_us: 0 }, draw.between(1, self.timeout_us));
            job.work = Work::Ask { id: 0, cost: 1, second: None, verb, times: 4, every_us };
            (job.at_us, job.polls) = (draw.between(0, 3 * self.timeout_us), None);
        }
        for _ in 0..4 {
            let (at_us, for_us) = (draw.between(0, 6 * self.timeout_us), self.timeout_us);
            self.troubles.push(Trouble { at_us, what: Wrong::Away { server: 0, for_us } });
        }
    }

    /// Processes repeat requests, for the boundaries of a stored calendar window or for each
    /// client's own key of a batch; they end, or their jobs do, in between.
    fn meet_boundaries(&mut self, draw: &mut Draw) {
        let coalescing = draw.chance(500);
        let stored = Some(Stored { is_per_client: coalescing, keep_us: None });
        self.options = Options { stored, coalescing, batches: coalescing, ..Options::default() };
        self.limit = "token-bucket 20/s".parse().expect("a limit");
        self.other = calendar(draw);
        self.ppm.truncate(2);
        self.troubles.clear();
        let slow_us = self.timeout_us / 4;
        self.network = Network { least_us: slow_us / 2, most_us: slow_us, ..self.network.alike() };
        for (index, job) in self.jobs.iter_mut().enumerate() {
            let verb = match index {
                0 if !coalescing => Verb::Store,
                _ => Verb::Acquire { wait_us: 0 },
            };
            let every_us = draw.one_of(&[1, slow_us, 2 * slow_us]);
            job.work =
                Work::Ask { id: index % 2, cost: 1, second: None, verb, times: 12, every_us };
            job.node %= self.ppm.len();
            job.at_us = if index == 0 { 0 } else { draw.between(0, 8) * SECOND / 4 };
            job.polls = (index > 0 && draw.chance(500)).then(|| draw.between(2, 4) as u32);
        }
        for moment in 0..8 {
            let at_us = moment * SECOND / 4 + draw.between(0, 4 * slow_us);
            let (node, for_us) = (self.node(draw), draw.between(1, slow_us));
            self.troubles.push(Trouble { at_us, what: Wrong::Crash { node, for_us } });
        }
    }

    /// Callers of one process wait in line, some large and some small; some leave, and some are not polled.
    fn stand_in_line(&mut self, draw: &mut Draw) {
        self.calm_down(draw);
        self.limit = single_limit(draw, &["100ms", "450ms", "1s"]).parse().expect("a limit");
        self.options = Options { deny_cache: draw.chance(300), ..Options::default() };
        if draw.chance(700) {
            self.ppm.truncate(1);
        }
        let (has_lazy, has_hasty) = (draw.chance(400), draw.chance(300));
        let large = self.limit.capacity();
        for job in &mut self.jobs {
            let wait_us = draw.one_of(&[self.timeout_us, 4 * SECOND, FOREVER, FOREVER]);
            let verb = match draw.between(0, 3) {
                0 if has_lazy => {
                    let for_us = draw.one_of(&[self.timeout_us, 4 * SECOND, 30 * SECOND]);
                    Verb::Lazy { wait_us, for_us }
                }
                1 if has_hasty => Verb::Acquire { wait_us: 0 },
                _ => Verb::Acquire { wait_us },
            };
            let (cost, every_us) = (draw.one_of(&[1, 1, 2, large]), draw.one_of(&[0, 1, 10_000]));
            job.work =
                Work::Ask { id: 0, cost: cost.min(large), second: None, verb, times: 4, every_us };
            job.node %= self.ppm.len();
            let later_us = draw.between(0, SECOND);
            job.at_us = draw.one_of(&[0, later_us]);
        }
    }

    /// Callers of one process share slow calls, and some of these callers are dropped.
    fn leave_shared_calls(&mut self, draw: &mut Draw) {
        self.calm_down(draw);
        self.options =
            Options { coalescing: true, deny_cache: draw.chance(300), ..Options::default() };
        self.ppm.truncate(1);
        let slow_us = self.timeout_us / draw.between(3, 40);
        self.network = Network { least_us: slow_us / 2, most_us: slow_us, ..self.network.alike() };
        for job in &mut self.jobs {
            let (verb, every_us) = (Verb::Acquire { wait_us: 0 }, draw.one_of(&[0, 1, slow_us]));
            job.work = Work::Ask {
                id: 0,
                cost: draw.one_of(&[1, 1, 2]),
                second: None,
                verb,
                times: 8,
                every_us,
            };
            job.node = 0;
            job.at_us = draw.one_of(&[0, slow_us, SECOND]);
            job.polls = draw.chance(500).then(|| draw.between(1, 12) as u32);
        }
    }

    /// Copies of acquires arrive late, and find the lock free.
    fn copy_late(&mut self, draw: &mut Draw) {
        let gives_up = draw.chance(500);
        self.troubles.clear();
        let stuck = if gives_up { 200 } else { 0 };
        self.network = Network { late: 400, stuck, ..self.network.alike() };
        self.lease_us = if gives_up { 300 * SECOND } else { 3 * self.timeout_us };
        for job in &mut self.jobs {
            let for_us = draw.between(1, self.timeout_us / 2);
            let wait_us = if gives_up { 0 } else { 4 * SECOND };
            let (what, end) = (What::Lock { is_fair: false }, End::Released);
            job.work = Work::Hold { what, wait_us, for_us, end, is_own: false, again: false };
            job.at_us = draw.between(0, 2 * self.timeout_us);
        }
    }

    /// All wait for a latch and rely on notifications, and some go when they get one.
    fn wake_all(&mut self, draw: &mut Draw) {
        self.calm_down(draw);
        self.keep_us = 100 * FOREVER;
        self.terms = Terms { wake_ups: true, replicas: false, ..self.terms };
        for (index, job) in self.jobs.iter_mut().enumerate() {
            let at_us = draw.between(0, self.timeout_us);
            (job.work, job.at_us) = match index {
                0 => (Work::Count { count: self.count }, 2 * self.timeout_us + at_us),
                _ => (Work::Await { wait_us: FOREVER }, at_us),
            };
            (job.polls, job.when_woken) = (None, true);
            if index > 0 && draw.chance(200) {
                job.polls = Some(draw.between(3, 12) as u32);
            }
        }
    }

    /// Servers are away for about as long as leases last, while jobs work.
    fn lose_while_working(&mut self, what: What, draw: &mut Draw) {
        self.calm_down(draw);
        self.lease_us = self.timeout_us * 3;
        self.terms = Terms { replicas: false, ..self.terms };
        self.jobs.truncate(4);
        self.troubles.clear();
        for job in &mut self.jobs {
            let for_us = draw.between(self.lease_us / 2, 3 * self.lease_us);
            let (wait_us, end) = (4 * SECOND, End::Released);
            job.work = Work::Hold { what, wait_us, for_us, end, is_own: false, again: false };
            (job.at_us, job.polls) = (draw.between(0, SECOND), None);
        }
        for _ in 0..draw.between(1, 3) {
            let server = match what {
                What::Quorum => draw.between(0, SERVERS as u64 - 1) as usize,
                _ => 0,
            };
            let for_us = draw.between(self.lease_us / 4, 3 * self.lease_us / 2);
            let at_us = draw.between(0, self.heal_us.saturating_sub(for_us));
            self.troubles.push(Trouble { at_us, what: Wrong::Away { server, for_us } });
        }
    }

    /// Waiters rely on notifications, one after the other, and some go when they get one.
    fn wake_one(&mut self, what: What, draw: &mut Draw) {
        match draw.chance(400) {
            true => self.break_connections(draw),
            false => self.calm_down(draw),
        }
        self.keep_us = 100 * FOREVER;
        self.terms = Terms { wake_ups: true, replicas: false, ..self.terms };
        let all = match what {
            What::Permits(_) => Some(What::Permits(self.permits)),
            What::Read => Some(What::Write),
            _ => None,
        };
        for job in &mut self.jobs {
            // A job that holds several permits, or keeps readers out, releases them to as many
            // waiters.
            let all = all.filter(|_| draw.chance(300));
            let (what, wait_us, at_us) = match all {
                Some(all) => (all, 0, 0),
                None => (what, FOREVER, draw.between(0, self.timeout_us)),
            };
            let for_us = draw.between(1, self.timeout_us);
            let end = draw.one_of(&[End::Released, End::Dropped]);
            job.work = Work::Hold { what, wait_us, for_us, end, is_own: false, again: false };
            (job.at_us, job.when_woken) = (at_us, true);
            job.polls = draw.chance(300).then(|| draw.between(3, 9) as u32);
        }
    }
}
