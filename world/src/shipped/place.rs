//! Where programs run: on a simulated host, or in a process that calls real servers.

use std::time::Duration;

use lockage::Store;
use lockage::notifications::Notifications;
use lockage::runtime::Spawn;

use super::judge::Seen;

/// What a program stands on. Clones are of the same.
pub trait Place: Clone + Send + Sync + 'static {
    /// The store that it calls.
    type Store: Store + Notifications + Clone + 'static;
    /// Its clock, chance and tasks.
    type Runtime: Spawn;

    /// Returns the store.
    fn store(&self) -> Self::Store;

    /// Returns the clock, chance and tasks.
    fn runtime(&self) -> Self::Runtime;

    /// Tells whoever judges what a program was told.
    fn saw(&self, seen: Seen);

    /// Draws a number from 0 to `most`.
    fn draw(&self, most: u64) -> u64;

    /// Returns the time that all places share, in microseconds.
    fn now_us(&self) -> u64;

    /// Returns that time when the clock of this place shows so much more than now.
    fn true_us_in(&self, duration: Duration) -> u64;
}
