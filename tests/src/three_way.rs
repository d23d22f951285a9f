//! Three-way equality: the Rust machine, the shipped Lua in the simulated store, and the shipped Lua on an unmodified
//! server with an injected clock are one machine: outcome by outcome, stored bytes and expiry included.
//!
//! Each body compares the Rust machine with one place where the scripts run. [`three_way!`](crate::three_way) makes a
//! test of each: the program `unit` in the simulated store, the program `server` on a server.

pub mod leases;
pub mod limiters;

use std::cell::RefCell;

use lockage_sim::store::SimStore;

use crate::key::Holds;
use crate::stores::{Real, Session, Simulated, Time};

/// A place where the shipped scripts run.
pub trait Place {
    /// A key there.
    type Key<'p>: Holds
    where
        Self: 'p;

    /// Returns unused keys that share one clock. Keys from an earlier call may be gone.
    fn keys<const N: usize>(&self, time: Time) -> [Self::Key<'_>; N];

    /// Returns one unused key.
    fn key(&self, time: Time) -> Self::Key<'_> {
        let [key] = self.keys(time);
        key
    }
}

/// Returns a simulated store.
///
/// # Panics
/// Where Lua gets no memory.
pub fn simulated() -> RefCell<SimStore> {
    RefCell::new(SimStore::new().expect("Lua gets its memory"))
}

/// Starts a server.
///
/// # Panics
/// As [`Session::start`].
pub fn server() -> RefCell<Session> {
    RefCell::new(Session::start())
}

impl Place for RefCell<SimStore> {
    type Key<'p> = Simulated<'p>;

    fn keys<const N: usize>(&self, time: Time) -> [Simulated<'_>; N] {
        self.borrow_mut().flush_all();
        std::array::from_fn(|id| Simulated::new(self, time, &id.to_string()))
    }
}

impl Place for RefCell<Session> {
    type Key<'p> = Real<'p>;

    fn keys<const N: usize>(&self, time: Time) -> [Real<'_>; N] {
        std::array::from_fn(|_| Real::new(self, time))
    }
}

/// Makes a test of each body on the place that the expression starts.
#[macro_export]
macro_rules! three_way {
    ($place:expr) => {
        $crate::three_way! { $place =>
            limiters {
                the_fixed_window_is_one_machine_in_three_places
                the_sliding_log_is_one_machine_in_three_places
                the_sliding_window_is_one_machine_in_three_places
                the_token_bucket_is_one_machine_in_three_places
                the_interval_bucket_is_one_machine_in_three_places
                the_leaky_bucket_is_one_machine_in_three_places
                several_limits_in_one_are_one_machine_in_three_places
                adjustments_of_each_limiter_are_one_machine_in_three_places
                adjustments_of_several_limits_are_one_machine_in_three_places
                changes_of_limits_are_one_machine_in_three_places
                turns_of_the_leaky_bucket_are_one_machine_in_three_places
                turns_are_one_machine_in_three_places_whatever_else_becomes_of_the_key
                d12_keys_are_independent
                reservations_are_the_same_in_three_places
                stored_limits_are_the_same_in_three_places
            }
            leases {
                the_lock_is_one_machine_in_three_places
                the_semaphore_is_one_machine_in_three_places
                a_semaphore_of_the_most_permits_is_the_same_in_three_places
                the_read_write_lock_is_one_machine_in_three_places
                as_many_readers_as_fit_are_the_same_in_three_places
                the_latch_is_one_machine_in_three_places
                fenced_values_are_the_same_in_three_places
            }
        }
    };
    ($place:expr => $($module:ident { $($test:ident)* })*) => {
        $(mod $module {
            $(#[test]
            fn $test() {
                $crate::three_way::$module::$test(&$place);
            })*
        })*
    };
}
