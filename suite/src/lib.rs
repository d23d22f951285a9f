#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod adjustments;
mod all;
mod faults;
mod idle;
#[cfg(feature = "laws")]
mod laws;
mod leases;
mod limiters;
mod locks;
mod own_clock;
pub mod ports;
mod proxy;
mod refusals;
mod reservations;
mod stored;
mod turns;

use std::time::Duration;

use lockage::{Limit, Limiter, Store};

pub use faults::{FaultInjector, Faults, IDLE};
pub use idle::Idle;
pub use own_clock::OwnClock;
pub use proxy::Proxy;

/// When every scenario begins, in microseconds since the epoch: the start of an hour in 2025.
pub const START_US: u64 = 1_763_697_600_000_000;

/// A store, and the clock that it goes by.
pub struct Bench<'a, S> {
    /// Said when a scenario fails.
    pub name: &'a str,
    /// The store under test; clones share their records.
    pub store: S,
    /// Sets the store's clock, in microseconds since the epoch.
    pub set_us: &'a dyn Fn(u64),
}

impl<S: Store + Clone> Bench<'_, S> {
    /// Runs every scenario, each under a prefix of its own.
    ///
    /// # Panics
    /// Where the store does not behave as it should.
    pub async fn run(&self) {
        limiters::admits_the_capacity_and_recovers(self).await;
        limiters::lists_are_decided_as_if_sent_singly(self).await;
        limiters::long_lists_are_decided_as_if_sent_singly(self).await;
        limiters::peeks_and_denials_change_nothing(self).await;
        limiters::resets_forget(self).await;
        limiters::keys_are_independent(self).await;
        limiters::a_request_id_is_charged_once(self).await;
        limiters::many_expired_entries_are_no_trouble(self).await;
        self.several_keys(0..2).await;
        adjustments::usage_can_be_adjusted(self).await;
        adjustments::each_part_is_adjusted_by_its_own_cost(self).await;
        adjustments::a_block_ends_to_the_microsecond(self).await;
        adjustments::changed_limits_keep_the_usage(self).await;
        turns::turns_are_in_order_and_given_back(self).await;
        refusals::bad_input_is_refused_before_it_is_sent(self).await;
        refusals::another_record_is_refused_and_kept(self).await;
        reservations::a_reservation_is_settled_once(self).await;
        reservations::a_renewed_reservation_is_settled_later(self).await;
        reservations::places_are_given_back(self).await;
        stored::all_clients_follow_the_stored_limit(self).await;
        stored::one_message_per_number_and_minute(self).await;
        stored::each_client_has_a_limit_of_its_own(self).await;
        locks::a_lock_is_taken_held_and_given_back(self).await;
        locks::a_repeated_operation_is_done_once(self).await;
        locks::a_late_copy_of_a_forgotten_hold_takes_nothing(self).await;
        leases::permits_are_leased(self).await;
        leases::many_read_or_one_writes(self).await;
        leases::a_latch_opens_at_zero(self).await;
        leases::a_value_is_fenced(self).await;
    }

    /// Runs histories of requests on several keys in one decision, beside the same requests one by one. The same seed makes
    /// the same history; a failure names its seed.
    ///
    /// # Panics
    /// Where a store charges only some of them, or decides otherwise than on each alone.
    pub async fn several_keys(&self, seeds: std::ops::Range<u64>) {
        let Bench { name, store, set_us } = self;
        let both = all::Both { name, store, set_us, start_us: START_US };
        all::a_refused_call_keeps_no_limit(&both).await;
        for seed in seeds {
            all::all_are_charged_or_none(&both, seed, 40).await;
        }
    }

    fn limiter(&self, scenario: &str, limit: &str) -> Limiter<S> {
        self.at(Duration::ZERO);
        let limit: Limit = limit.parse().expect("the suite's limits are well formed");
        // The limit stands in the prefix, so each pair of scenario and limit has keys of its own.
        let prefix = format!("{}-{scenario}-{limit}", self.name);
        Limiter::new(self.store.clone(), limit).with_prefix(&prefix).expect("no braces")
    }
}

impl<S> Bench<'_, S> {
    /// Sets the clock to this time after the start.
    fn at(&self, since_start: Duration) {
        (self.set_us)(START_US + u64::try_from(since_start.as_micros()).expect("a short scenario"));
    }
}

/// A limit of each kind, and several together, with capacity 5.
const LIMITS: [&str; 8] = [
    "fixed-window 5/10s",
    "sliding-log 5/10s",
    "sliding-window 5/10s",
    "token-bucket 5/10s burst 5",
    "token-bucket 2 every 3s burst 5",
    "leaky-bucket 5/10s queue 5",
    "fixed-window 5/10s + token-bucket 5/10s burst 5",
    "sliding-log 5/10s + sliding-window 5/10s + sliding-log 5/3s",
];
