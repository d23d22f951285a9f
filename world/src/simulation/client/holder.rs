//! A client that wants the lock: asks, waits, works under it while it is renewed, and gives it back, as the
//! guards of `lockage` do.

use std::time::Duration;

use lockage_core::Timestamp;
use lockage_core::flow::{Polling, Renewals, own_deadline};
use lockage_core::lock::{HoldId, OwnerId};

use super::calls::CallEnd;
use super::returning::PAUSE;
use super::switching::Side;
use super::{Body, Flow};
use crate::simulation::check::Violation;
use crate::simulation::job::Work;
use crate::simulation::message::{Action, Ask, ClaimAsk, Told};
use crate::simulation::scenario::Machine;
use crate::simulation::stage::Stage;

#[derive(Debug)]
pub(super) struct Holder {
    pub(super) lease: Duration,
    pub(super) poll: Duration,
    pub(super) timeout: Duration,
    pub(super) is_lock: bool,
    pub(super) weight: u64,
    /// How long it says that it waits, where it waits in line or as a writer.
    pub(super) span_us: u64,
    /// It may have a place in line.
    pub(super) is_placed: bool,
    pub(super) works_for: Duration,
    pub(super) holds: u32,
    /// The other side is asked for, too, once the work is done.
    pub(super) switches: bool,
    pub(super) is_switched: bool,
    /// The side that is given back before the one that it holds.
    pub(super) other: Option<Side>,
    pub(super) give_up_at: Duration,
    pub(super) owner: OwnerId,
    pub(super) polling: Polling,
    pub(super) renewals: Renewals<()>,
    /// The renewal that is under way.
    pub(super) renewing: Option<u32>,
    pub(super) alarm: Option<Duration>,
    pub(super) step: Step,
    pub(super) has_worked: bool,
    pub(super) token: u64,
    /// What it holds, and may hold, the oldest first.
    pub(super) held: Vec<HoldId>,
    /// When what it may have taken is free by itself, by the own clock.
    pub(super) free_at: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Asking {
        call: u32,
        id: HoldId,
        sent: Duration,
    },
    RestingToAsk,
    Entering {
        call: u32,
        id: HoldId,
    },
    Working,
    Releasing {
        call: u32,
        id: HoldId,
    },
    RestingToRelease {
        id: HoldId,
    },
    /// It asks for the other side.
    Switching {
        call: u32,
        id: HoldId,
    },
    LettingGo {
        call: u32,
    },
    RestingToLetGo,
    /// An acquire was not answered: what it has taken, if anything, is given back.
    Searching {
        call: u32,
        id: HoldId,
        sent: Duration,
    },
    RestingToSearch {
        id: HoldId,
        sent: Duration,
    },
    /// It waits in line no longer.
    Leaving {
        call: u32,
    },
    RestingToLeave,
}

impl Holder {
    pub(super) fn begin(work: Work, body: &mut Body, stage: &mut Stage<'_>) -> Self {
        let machine = stage.machine(body.key);
        let (Some(claim), Work::Hold { weight, in_line, for_us, holds, wait_us, switches }) =
            (machine.claim(), work)
        else {
            unreachable!("worlds of limiters have no such jobs")
        };
        let (poll, timeout_us) = (Duration::from_micros(claim.poll_us), stage.scenario.timeout_us);
        let is_lock = matches!(machine, Machine::Lock { .. });
        let says_so = if is_lock { in_line } else { weight == claim.capacity };
        let give_up_at = body.now(stage) + Duration::from_micros(wait_us);
        let mut holder = Holder {
            lease: Duration::from_micros(claim.lease_us),
            poll,
            timeout: Duration::from_micros(timeout_us),
            is_lock,
            weight,
            // Who sleeps for a poll and then makes a call is back before that.
            span_us: if says_so { 2 * claim.poll_us + timeout_us } else { 0 },
            is_placed: false,
            works_for: Duration::from_micros(for_us),
            holds,
            switches,
            is_switched: false,
            other: None,
            give_up_at,
            owner: OwnerId::from_u128(body.draw.id()),
            polling: Polling::new(poll, Some(give_up_at)),
            renewals: Renewals::new(),
            renewing: None,
            alarm: None,
            step: Step::RestingToAsk,
            has_worked: false,
            token: 0,
            held: Vec::new(),
            free_at: Duration::ZERO,
        };
        holder.ask(body, stage);
        holder
    }

    pub(super) fn rested(
        &mut self,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<Flow, Violation> {
        match self.step {
            Step::RestingToAsk => self.ask(body, stage),
            Step::Working => {
                // It was paused here, maybe: that is what the token is for.
                self.write(body, stage);
                self.has_worked = true;
                match self.switches {
                    true => self.switch(body, stage),
                    false => self.release(body, stage),
                }
            }
            Step::RestingToRelease { id } => self.release_as(id, body, stage),
            Step::RestingToSearch { id, sent } => self.search(id, sent, body, stage),
            Step::RestingToLeave => self.leave(body, stage),
            Step::RestingToLetGo => self.let_other_go(body, stage),
            Step::Asking { .. }
            | Step::Entering { .. }
            | Step::Switching { .. }
            | Step::LettingGo { .. }
            | Step::Releasing { .. }
            | Step::Searching { .. }
            | Step::Leaving { .. } => {}
        }
        Ok(Flow::On)
    }

    pub(super) fn ended(
        &mut self,
        end: CallEnd,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<Flow, Violation> {
        let told = end.answer.as_ref().map(|answer| match answer.told() {
            Some((now, told)) => {
                body.store_clock = Some((end.sent, now));
                told
            }
            None => Told::Nothing,
        });
        if self.renewing == Some(end.call) {
            self.renewing = None;
            return self.renewed(&end, told, body, stage);
        }
        match self.step {
            Step::Asking { call, id, sent } if call == end.call => match told {
                Some(told) => self.asked(&end, id, told, body, stage),
                None if end.is_unknown => {
                    self.search(id, sent, body, stage);
                    Ok(Flow::On)
                }
                None => Ok(self.over(body, stage)),
            },
            Step::Entering { call, id } if call == end.call => {
                self.entered(&end, id, told, body, stage)
            }
            Step::Switching { call, id } if call == end.call => {
                self.switched(&end, id, told, body, stage)
            }
            Step::LettingGo { call } if call == end.call => {
                Ok(self.let_go_of_other(told, body, stage))
            }
            Step::Releasing { call, id } if call == end.call => {
                Ok(self.released(id, told, body, stage))
            }
            Step::Searching { call, id, sent } if call == end.call => {
                Ok(self.searched(id, sent, told, body, stage))
            }
            Step::Leaving { call } if call == end.call => match told {
                Some(_) => {
                    self.is_placed = false;
                    Ok(self.over(body, stage))
                }
                None => {
                    self.step = Step::RestingToLeave;
                    body.rest(PAUSE, stage);
                    Ok(Flow::On)
                }
            },
            _ => Ok(Flow::On),
        }
    }

    pub(super) fn ask(&mut self, body: &mut Body, stage: &mut Stage<'_>) {
        let (id, sent) = (HoldId::from_u128(body.draw.id()), body.now(stage));
        let action = self.acquire(body, stage);
        self.is_placed = self.is_lock && self.span_us > 0;
        let call = self.call(id, action, self.timeout, body, stage);
        self.step = Step::Asking { call, id, sent };
    }

    fn asked(
        &mut self,
        end: &CallEnd,
        id: HoldId,
        told: Told,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<Flow, Violation> {
        let now = body.now(stage);
        let free_in = match told {
            Told::Held { token, .. } => return self.granted(end, id, token, body, stage),
            Told::Busy { free_in } => free_in,
            Told::Nothing => Duration::ZERO,
        };
        let random = body.draw.bits();
        Ok(match self.polling.after(free_in, now, random) {
            Some(sleep) => {
                self.step = Step::RestingToAsk;
                body.rest(sleep, stage);
                Flow::On
            }
            None => self.over(body, stage),
        })
    }

    fn granted(
        &mut self,
        end: &CallEnd,
        id: HoldId,
        token: u64,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<Flow, Violation> {
        (self.held, self.token) = (vec![id], token);
        self.is_placed = false;
        self.free_at = body.now(stage) + self.lease;
        if body.now(stage) >= own_deadline(end.sent, self.lease) {
            // The answer took longer than the lease.
            self.release(body, stage);
            return Ok(Flow::On);
        }
        self.renewals.watch((), end.sent, self.lease, None);
        self.believe(end.sent_us, body, stage)?;
        self.enter(body, stage);
        Ok(self.look_after(body, stage))
    }

    /// Takes it once more, or begins to work.
    fn enter(&mut self, body: &mut Body, stage: &mut Stage<'_>) {
        if self.held.len() < self.holds as usize {
            let id = HoldId::from_u128(body.draw.id());
            let action = self.acquire(body, stage);
            let call = self.call(id, action, self.timeout, body, stage);
            self.step = Step::Entering { call, id };
            return;
        }
        self.step = Step::Working;
        self.write(body, stage);
        body.rest(self.works_for, stage);
    }

    fn entered(
        &mut self,
        end: &CallEnd,
        id: HoldId,
        told: Option<Told>,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> Result<Flow, Violation> {
        match told {
            Some(Told::Held { token, .. }) if token == self.token => {
                self.held.push(id);
                self.extend(end, body, stage)?;
                self.enter(body, stage);
            }
            // It was lost meanwhile, and is another grant now.
            Some(Told::Held { token, .. }) => {
                return self.granted(end, id, token, body, stage);
            }
            Some(_) => return Ok(self.lose(body, stage)),
            // If it was done, that shows when it is given back.
            None => {
                self.held.push(id);
                self.holds = self.held.len() as u32; // at most three
                self.enter(body, stage);
            }
        }
        Ok(Flow::On)
    }

    /// Writes the value that the lock protects, and does not wait for the answer.
    fn write(&mut self, body: &mut Body, stage: &mut Stage<'_>) {
        // Others hold what is shared, in no order of their tokens.
        if !self.is_lock {
            return;
        }
        body.call(Ask::Write { token: self.token }, self.timeout, stage);
    }

    pub(super) fn call(
        &self,
        id: HoldId,
        action: Action,
        timeout: Duration,
        body: &mut Body,
        stage: &mut Stage<'_>,
    ) -> u32 {
        let (owner, weight) = (self.owner, self.weight);
        body.call(Ask::Claim(ClaimAsk { owner, id, weight, action }), timeout, stage)
    }

    pub(super) fn acquire(&self, body: &Body, stage: &Stage<'_>) -> Action {
        Action::Acquire { not_after: self.not_after(body, stage), span_us: self.span_us }
    }

    /// The latest time of the store at which an acquire of now may be carried out; the end of time while
    /// the store's is not known.
    fn not_after(&self, body: &Body, stage: &Stage<'_>) -> Timestamp {
        let Some((asked, time)) = body.store_clock else { return Timestamp::MAX };
        let passed = body.now(stage).saturating_sub(asked);
        let drift = passed / 1000 + Duration::from_millis(1);
        time.saturating_add(passed + drift).saturating_add(self.timeout)
    }
}
