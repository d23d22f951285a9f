//! Calls to the store, each made of attempts as [`Retry`] says.

use std::time::Duration;

use lockage_core::flow::{Failure, Retry};

use super::Body;
use crate::simulation::log::Who;
use crate::simulation::message::{Answer, Ask, Attempt, Request};
use crate::simulation::stage::{Alarm, Event, Stage};

/// One call that is under way.
#[derive(Debug)]
pub(super) struct Call {
    number: u32,
    ask: Ask,
    /// By the own clock, before anything was sent.
    sent: Duration,
    /// In true time.
    sent_us: u64,
    retry: Retry,
    attempt: u32,
    is_resting: bool,
    is_unknown: bool,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub(super) struct CallEnd {
    pub(super) call: u32,
    pub(super) sent: Duration,
    pub(super) sent_us: u64,
    /// Nothing where there was none.
    pub(super) answer: Option<Answer>,
    /// Where there was no answer: whether it may have been carried out.
    pub(super) is_unknown: bool,
}

impl Body {
    /// What its own clock shows.
    pub(super) fn now(&self, stage: &Stage<'_>) -> Duration {
        self.clock.at(stage.now_us)
    }

    /// Is woken when its own clock shows this.
    pub(super) fn set_alarm(&self, at: Duration, alarm: Alarm, stage: &mut Stage<'_>) {
        let at_us = self.clock.when(at).max(stage.now_us);
        let (client, life) = (self.number, self.life);
        stage.queue.push(at_us, Event::Wake { client, life, alarm });
    }

    /// Does nothing for so long, unless it rests anew before.
    pub(super) fn rest(&mut self, time: Duration, stage: &mut Stage<'_>) {
        self.last_rest += 1;
        let alarm = Alarm::Rested { number: self.last_rest };
        self.set_alarm(self.now(stage).saturating_add(time), alarm, stage);
    }

    pub(super) fn call(&mut self, ask: Ask, timeout: Duration, stage: &mut Stage<'_>) -> u32 {
        let now = self.now(stage);
        self.last_call += 1;
        let number = self.last_call;
        let retry = Retry::new(now, timeout, ask.is_repeatable());
        self.calls.push(Call {
            number,
            ask,
            sent: now,
            sent_us: stage.now_us,
            retry,
            attempt: 0,
            is_resting: false,
            is_unknown: false,
        });
        // A new call has time for an attempt, or its alarm is at once.
        let _ = self.attempt(self.calls.len() - 1, stage);
        number
    }

    /// Makes the next attempt; tells whether there was time for one.
    fn attempt(&mut self, index: usize, stage: &mut Stage<'_>) -> bool {
        let now = self.now(stage);
        let call = &mut self.calls[index];
        let patience = call.retry.patience(now);
        call.attempt += 1;
        call.is_resting = false;
        let (number, attempt, ask) = (call.number, call.attempt, call.ask.clone());
        if patience.is_zero() {
            return false;
        }
        let (client, life) = (self.number, self.life);
        let from = Attempt { client, life, call: number, number: attempt, copy: 0 };
        stage.send(Request { from, key: self.key, ask, with_script: false }, &mut self.draw);
        let alarm = Alarm::Patience { call: number, attempt };
        self.set_alarm(now.saturating_add(patience), alarm, stage);
        true
    }

    pub(super) fn answered(
        &mut self,
        from: Attempt,
        answer: Answer,
        stage: &mut Stage<'_>,
    ) -> Option<CallEnd> {
        let is_it = |call: &Call| call.number == from.call && call.attempt == from.number;
        let index = self.calls.iter().position(|call| is_it(call) && !call.is_resting)?;
        match answer {
            Answer::NoScript => {
                let ask = self.calls[index].ask.clone();
                let request = Request { from, key: self.key, ask, with_script: true };
                stage.send(request, &mut self.draw);
                None
            }
            Answer::NotDone => self.failed(index, Failure::NotDone, stage),
            answer => Some(self.end(index, Some(answer), stage)),
        }
    }

    pub(super) fn out_of_patience(
        &mut self,
        call: u32,
        attempt: u32,
        stage: &mut Stage<'_>,
    ) -> Option<CallEnd> {
        let is_it = |it: &Call| it.number == call && it.attempt == attempt && !it.is_resting;
        let index = self.calls.iter().position(is_it)?;
        self.failed(index, Failure::Unknown, stage)
    }

    pub(super) fn again(
        &mut self,
        call: u32,
        attempt: u32,
        stage: &mut Stage<'_>,
    ) -> Option<CallEnd> {
        let is_it = |it: &Call| it.number == call && it.attempt == attempt && it.is_resting;
        let index = self.calls.iter().position(is_it)?;
        match self.attempt(index, stage) {
            true => None,
            false => Some(self.end(index, None, stage)),
        }
    }

    fn failed(&mut self, index: usize, failure: Failure, stage: &mut Stage<'_>) -> Option<CallEnd> {
        let now = self.now(stage);
        let random = self.draw.bits();
        let call = &mut self.calls[index];
        // Once it may have been done that stays so, whatever comes after.
        call.is_unknown |= failure == Failure::Unknown;
        let Some(sleep) = call.retry.after(failure, now, random) else {
            return Some(self.end(index, None, stage));
        };
        call.is_resting = true;
        let alarm = Alarm::Again { call: call.number, attempt: call.attempt };
        self.set_alarm(now.saturating_add(sleep), alarm, stage);
        None
    }

    fn end(&mut self, index: usize, answer: Option<Answer>, stage: &mut Stage<'_>) -> CallEnd {
        let Call { number, ask, sent, sent_us, is_unknown, .. } = self.calls.remove(index);
        stage.log.say(stage.now_us, Who::Client(self.number), || match &answer {
            Some(answer) => format!("is told of {}: {}", ask.words(), answer.words()),
            None => format!("gives up: {}", ask.words()),
        });
        CallEnd { call: number, sent, sent_us, answer, is_unknown }
    }
}
