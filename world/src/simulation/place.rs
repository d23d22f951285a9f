//! Where programs run: on a simulated host, or in a process that calls real servers.

use std::time::Duration;

use lockage::notifications::Notifications;
use lockage::runtime::Spawn;
use lockage::{Locks, Store};

use lockage_core::{Clock, Timestamp};

use super::judge::Seen;
use super::store::BEGINNING_US;

/// The environment of a program. Clones share it.
pub trait Place: Clone + Send + Sync + 'static {
    /// The store that it calls.
    type Store: Store + Notifications + Clone + 'static;
    /// Its clock, chance and tasks.
    type Runtime: Spawn;

    /// Returns the store.
    fn store(&self) -> Self::Store;

    /// Returns the clock, chance and tasks.
    fn runtime(&self) -> Self::Runtime;

    /// Reports an event of a program to the judge.
    fn saw(&self, seen: Seen);

    /// Draws a number from 0 to `most`.
    fn draw(&self, most: u64) -> u64;

    /// Returns the time that all places share, in microseconds.
    fn now_us(&self) -> u64;

    /// Returns that time at which the clock of this place shows this much more than now.
    fn true_us_in(&self, duration: Duration) -> u64;

    /// Returns the time that the clock of this place shows, in microseconds.
    fn clock_us(&self) -> u64 {
        self.now_us()
    }

    /// Returns the time of day by the clock of this place.
    fn time_of_day(&self) -> Timestamp {
        // Any beginning is good, if it is late enough.
        let now_us = BEGINNING_US + self.clock_us() % BEGINNING_US;
        Timestamp::from_micros(now_us).expect("some years after 2025")
    }

    /// Leaves the runtime of the calling task for another one of its process, if there is one.
    fn move_to(&self, _runtime: u64) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Returns one of the servers of a quorum. The first is the store.
    fn server(&self, _server: usize) -> Self::Store {
        self.store()
    }

    /// Returns locks whose grants a replica must have, if there is a replica.
    fn replicated(
        &self,
        locks: Locks<Self::Store, Self::Runtime>,
    ) -> Locks<Self::Store, Self::Runtime> {
        locks
    }
}

/// The clock for decisions made in one process alone, and for calendar windows.
pub(super) struct PlaceClock<P>(pub(super) P);

impl<P: Place> Clock for PlaceClock<P> {
    fn now(&self) -> Timestamp {
        self.0.time_of_day()
    }
}
