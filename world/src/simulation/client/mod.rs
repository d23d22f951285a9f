//! Clients: each does its jobs one after the other, by the flows of `lockage_core::flow` and nothing else.

mod breaker;
mod calls;
mod clock;
mod counter;
mod holder;
mod keeping;
mod returning;
mod spender;
mod switching;
mod tuner;
mod waiter;

use std::collections::VecDeque;
use std::time::Duration;

use lockage_core::Timestamp;

use super::check::Violation;
use super::draw::Draw;
use super::job::{Job, Work};
use super::log::Who;
use super::message::{Answer, Attempt};
use super::stage::{Alarm, Event, Stage};
use breaker::Breaker;
use calls::{Call, CallEnd};
use clock::OwnClock;
use counter::Counter;
use holder::Holder;
use spender::Spender;
use tuner::Tuner;
use waiter::Waiter;

#[derive(Debug)]
pub(super) struct Client {
    pub(super) number: usize,
    /// How often it has begun anew.
    life: u32,
    is_up: bool,
    paused_until_us: u64,
    waiting: VecDeque<Job>,
    body: Body,
    role: Role,
    /// How many of its jobs are done, or were lost in a crash.
    pub(super) done: usize,
}

/// What all of a client's roles need.
#[derive(Debug)]
struct Body {
    number: usize,
    /// The key that it uses.
    key: usize,
    life: u32,
    clock: OwnClock,
    draw: Draw,
    calls: Vec<Call>,
    last_call: u32,
    last_rest: u32,
    /// What the store's clock showed, and by the own one when that was asked.
    store_clock: Option<(Duration, Timestamp)>,
}

/// What it is doing.
#[derive(Debug)]
enum Role {
    Idle,
    Holder(Box<Holder>),
    Breaker(Breaker),
    Waiter(Waiter),
    Counter(Counter),
    Tuner(Tuner),
    Spender(Box<Spender>),
}

/// Whether a role goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Done,
}

impl Client {
    pub(super) fn new(number: usize, key: usize, ppm: i64, seed: u64) -> Self {
        let clock = OwnClock::new(ppm);
        let body = Body {
            number,
            key,
            life: 0,
            clock,
            draw: Draw::new(seed, u64::MAX - number as u64),
            calls: Vec::new(),
            last_call: 0,
            last_rest: 0,
            store_clock: None,
        };
        Client {
            number,
            life: 0,
            is_up: true,
            paused_until_us: 0,
            waiting: VecDeque::new(),
            body,
            role: Role::Idle,
            done: 0,
        }
    }

    /// All that is random around it is drawn from its present job's stream.
    pub(super) fn draw(&mut self) -> &mut Draw {
        &mut self.body.draw
    }

    pub(super) fn job(&mut self, job: Job, stage: &mut Stage<'_>) -> Result<(), Violation> {
        self.waiting.push_back(job);
        self.next(stage)
    }

    /// Until when it stands still, if it does.
    pub(super) fn paused_until(&self, now_us: u64) -> Option<u64> {
        Some(self.paused_until_us).filter(|until_us| now_us < *until_us)
    }

    pub(super) fn pause(&mut self, for_us: u64, stage: &mut Stage<'_>) {
        stage.log.say(stage.now_us, Who::Client(self.number), || {
            format!("stands still for {for_us} us")
        });
        self.paused_until_us = self.paused_until_us.max(stage.now_us + for_us);
    }

    pub(super) fn crash(&mut self, for_us: u64, stage: &mut Stage<'_>) {
        stage
            .log
            .say(stage.now_us, Who::Client(self.number), || format!("crashes, for {for_us} us"));
        if !matches!(self.role, Role::Idle) {
            self.done += 1;
        }
        self.role = Role::Idle;
        self.is_up = false;
        self.life += 1;
        self.body.life = self.life;
        self.body.calls.clear();
        self.body.store_clock = None;
        stage.checks.doubts(self.number);
        stage.queue.push(stage.now_us + for_us, Event::Restart { client: self.number });
    }

    pub(super) fn restart(&mut self, stage: &mut Stage<'_>) -> Result<(), Violation> {
        self.is_up = true;
        self.next(stage)
    }

    pub(super) fn answered(
        &mut self,
        attempt: Attempt,
        answer: Answer,
        stage: &mut Stage<'_>,
    ) -> Result<(), Violation> {
        if attempt.life != self.life {
            return Ok(());
        }
        match self.body.answered(attempt, answer, stage) {
            Some(end) => self.ended(end, stage),
            None => Ok(()),
        }
    }

    pub(super) fn wake(
        &mut self,
        life: u32,
        alarm: Alarm,
        stage: &mut Stage<'_>,
    ) -> Result<(), Violation> {
        if life != self.life {
            return Ok(());
        }
        let flow = match alarm {
            Alarm::Patience { call, attempt } => {
                let Some(end) = self.body.out_of_patience(call, attempt, stage) else {
                    return Ok(());
                };
                return self.ended(end, stage);
            }
            Alarm::Again { call, attempt } => {
                let Some(end) = self.body.again(call, attempt, stage) else { return Ok(()) };
                return self.ended(end, stage);
            }
            Alarm::Renewals => match &mut self.role {
                Role::Holder(holder) => holder.look_after(&mut self.body, stage),
                _ => Flow::On,
            },
            Alarm::Rested { number } if number != self.body.last_rest => Flow::On,
            Alarm::Rested { .. } => match &mut self.role {
                Role::Holder(holder) => holder.rested(&mut self.body, stage)?,
                Role::Breaker(breaker) => breaker.rested(&mut self.body, stage),
                Role::Waiter(waiter) => waiter.rested(&mut self.body, stage),
                Role::Tuner(tuner) => tuner.rested(&mut self.body, stage),
                Role::Spender(spender) => spender.rested(&mut self.body, stage)?,
                Role::Idle | Role::Counter(_) => Flow::On,
            },
        };
        self.go_on(flow, stage)
    }

    fn ended(&mut self, end: CallEnd, stage: &mut Stage<'_>) -> Result<(), Violation> {
        let flow = match &mut self.role {
            Role::Holder(holder) => holder.ended(end, &mut self.body, stage)?,
            Role::Breaker(breaker) => breaker.ended(&end, &mut self.body, stage),
            Role::Waiter(waiter) => waiter.ended(end, &mut self.body, stage),
            Role::Counter(counter) => counter.ended(&end, &mut self.body, stage),
            Role::Tuner(tuner) => tuner.ended(&end, &mut self.body, stage),
            Role::Spender(spender) => spender.ended(end, &mut self.body, stage)?,
            Role::Idle => Flow::On,
        };
        self.go_on(flow, stage)
    }

    fn go_on(&mut self, flow: Flow, stage: &mut Stage<'_>) -> Result<(), Violation> {
        if flow == Flow::On {
            return Ok(());
        }
        self.role = Role::Idle;
        self.done += 1;
        self.body.calls.clear();
        self.body.last_rest += 1;
        self.next(stage)
    }

    /// Begins the next job, if it has time for one.
    fn next(&mut self, stage: &mut Stage<'_>) -> Result<(), Violation> {
        if !self.is_up || !matches!(self.role, Role::Idle) {
            return Ok(());
        }
        let Some(job) = self.waiting.pop_front() else { return Ok(()) };
        self.body.draw = Draw::new(stage.scenario.seed, 1 + u64::from(job.number));
        self.role = match job.work {
            Work::Hold { .. } => {
                Role::Holder(Box::new(Holder::begin(job.work, &mut self.body, stage)))
            }
            Work::Break { after_us, is_twice } => {
                Role::Breaker(Breaker::begin((after_us, is_twice), &mut self.body, stage))
            }
            Work::Count { count, is_set, is_insistent } => {
                let what = (count, is_set, is_insistent);
                Role::Counter(Counter::begin(what, &mut self.body, stage))
            }
            Work::Ask { cost, wait_us, with_id, is_other } => {
                let what = (cost, with_id, is_other);
                Role::Waiter(Waiter::begin(what, wait_us, &mut self.body, stage))
            }
            Work::AskEach { .. }
            | Work::TakeTurn { .. }
            | Work::Adjust { .. }
            | Work::Reserve { .. }
            | Work::Peek { .. }
            | Work::Set { .. } => Role::Tuner(Tuner::begin(job.work, &mut self.body, stage)),
            Work::Spend(work) => {
                Role::Spender(Box::new(Spender::begin(work, &mut self.body, stage)?))
            }
        };
        Ok(())
    }
}
