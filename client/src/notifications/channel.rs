//! One channel: its subscription, and its listeners.

use std::collections::BTreeMap;
use std::mem;
use std::task::Waker;

use futures_util::FutureExt;
use futures_util::future::Shared;

use super::subscriptions::Subscribing;
use super::{Notification, Wake};

/// After this many waits in a row without a signal, a channel is subscribed to again.
pub(super) const SILENCES: u32 = 8;

#[derive(Default)]
pub(super) struct Channel {
    pub(super) listeners: BTreeMap<u64, Waiter>,
    subscription: Subscription,
    has_stood: bool,
    /// Whether the listeners have to be notified of a loss.
    missed: bool,
    /// The number of losses: an attempt that a loss overtakes does not count.
    losses: u64,
    attempts: u64,
    silences: u32,
}

#[derive(Default)]
enum Subscription {
    #[default]
    Absent,
    Attempted {
        attempt: Attempt,
        losses: u64,
    },
    Stands,
}

/// All waiters share it.
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) subscribing: Shared<Subscribing>,
    number: u64,
}

pub(super) struct Waiter {
    pub(super) wake: Wake,
    pub(super) signal: Option<Notification>,
    pub(super) waker: Option<Waker>,
}

impl Channel {
    pub(super) fn attempt(&mut self, subscribe: impl FnOnce() -> Subscribing) -> Option<Attempt> {
        match &self.subscription {
            Subscription::Stands => None,
            Subscription::Attempted { attempt, .. } => Some(attempt.clone()),
            Subscription::Absent => {
                self.attempts += 1;
                let attempt = Attempt { subscribing: subscribe().shared(), number: self.attempts };
                let losses = self.losses;
                self.subscription = Subscription::Attempted { attempt: attempt.clone(), losses };
                Some(attempt)
            }
        }
    }

    pub(super) fn settle(&mut self, settled: &Attempt, stands: bool) -> Vec<Waker> {
        match mem::take(&mut self.subscription) {
            Subscription::Attempted { attempt, losses } if attempt.number == settled.number => {
                if !stands {
                    self.missed = self.has_stood;
                } else if losses == self.losses {
                    self.subscription = Subscription::Stands;
                    (self.has_stood, self.silences) = (true, 0);
                    if mem::take(&mut self.missed) {
                        return self.wake_each(Notification::Lost, |_| true);
                    }
                }
            }
            other => self.subscription = other,
        }
        vec![]
    }

    /// A message with a name is for the listeners by that name, and for all that listen to each; a message without one
    /// is for [`Wake::All`] and one of the others.
    pub(super) fn message(&mut self, name: Option<u128>) -> Vec<Waker> {
        self.silences = 0;
        let named = name.map(Wake::Named);
        let is_meant = |waiter: &Waiter| waiter.wake == Wake::All || Some(waiter.wake) == named;
        let mut woken = self.wake_each(Notification::Message, is_meant);
        if name.is_none() {
            woken.extend(self.wake_one());
        }
        woken
    }

    /// Wakes the listener that has listened the longest among those that all want one thing.
    pub(super) fn wake_one(&mut self) -> Option<Waker> {
        let first = self.listeners.values_mut().find(|waiter| waiter.wake.is_one())?;
        first.signal = Some(Notification::Message);
        first.waker.take()
    }

    fn wake_each(&mut self, signal: Notification, who: impl Fn(&Waiter) -> bool) -> Vec<Waker> {
        let waiters = self.listeners.values_mut().filter(|waiter| who(waiter));
        waiters
            .filter_map(|waiter| {
                waiter.signal = Some(signal);
                waiter.waker.take()
            })
            .collect()
    }

    /// All waiters take part in the new subscription.
    pub(super) fn lost(&mut self) -> Vec<Waker> {
        self.losses += 1;
        self.missed = self.has_stood;
        if matches!(self.subscription, Subscription::Stands) {
            self.subscription = Subscription::Absent;
        }
        self.listeners.values_mut().filter_map(|waiter| waiter.waker.take()).collect()
    }

    pub(super) fn silence(&mut self) {
        self.silences += 1;
        if self.silences >= SILENCES && matches!(self.subscription, Subscription::Stands) {
            self.subscription = Subscription::Absent;
        }
    }
}
