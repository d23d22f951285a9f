//! Three-way equality: the Rust machine, the shipped Lua in the simulated store, and the shipped Lua on an unmodified
//! server with an injected clock are one machine, outcome by outcome, stored bytes and expiry included.
//!
//! Each body compares the Rust machine with one [place](crate::place::Place) where the scripts run.
//! [`three_way!`](crate::three_way!) makes a test of each: here in the simulated store, in `lockage-tests` on a server,
//! and in a crate of your own on any other place.

pub mod leases;
pub mod limiters;

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
                the_bucket_with_a_warmup_is_one_machine_in_three_places
                the_limit_in_flight_is_one_machine_in_three_places
                the_leaky_bucket_is_one_machine_in_three_places
                the_calendar_window_is_one_machine_in_three_places
                several_limits_in_one_are_one_machine_in_three_places
                adjustments_of_each_limiter_are_one_machine_in_three_places
                adjustments_of_several_limits_are_one_machine_in_three_places
                changes_of_limits_are_one_machine_in_three_places
                costs_by_part_are_one_machine_in_three_places
                turns_of_the_leaky_bucket_are_one_machine_in_three_places
                turns_are_one_machine_in_three_places_whatever_else_becomes_of_the_key
                d12_keys_are_independent
                reservations_are_the_same_in_three_places
                reservations_by_part_are_the_same_in_three_places
                logs_of_thousands_of_entries_are_the_same_in_three_places
                the_largest_counts_come_under_logs_alike_in_three_places
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
