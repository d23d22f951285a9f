//! The properties of the contract, each a function on any [`Subject`](crate::subject::Subject): the Rust machines, the
//! scripts in the simulated store or on a real server, and the mutants that must fail them.

mod adjustments;
mod changes;
mod decisions;
mod envelopes;
mod equality;
mod requests;
mod run;
mod time;
mod turns;

use crate::subject::Failure;

pub use adjustments::{
    a_blocked_key_admits_nothing_until_the_end, a_penalty_is_charged_in_full_and_admits_nothing,
    a_refund_gives_back_what_was_used, d11_an_adjustment_is_done_once,
    taking_up_to_is_an_acquire_of_what_fits, unblocking_ends_a_block_at_once,
};
pub use changes::{
    a_block_outlasts_a_change, a_change_gives_nothing_away,
    a_log_with_a_shorter_window_counts_its_own_entries, d2_and_d4_hold_after_a_change,
};
pub use decisions::{
    agrees_with, d1_denies_as_the_reference, d1_equals_the_reference, d2_retry_after_is_minimal,
    d3_retry_after_frees_a_prefix, d4_remaining_is_exact, d4_reset_after_is_exact,
    d5_probes_are_transparent, d7_gcra_decides_alike, d8_monotone_in_one_state,
};
pub use envelopes::{admitted_stays_within_the_envelope, d10_a_lost_record_grants_one_allowance};
pub use equality::{d12_a_refusal_changes_nothing, d12_keys_are_independent, equals_the_model};
pub use requests::{
    d11_a_denied_id_is_a_new_attempt, d11_after_k_others_an_id_is_new, d11_after_r_an_id_is_new,
    d11_repeats_change_nothing, d11_without_an_id_a_retry_costs_itself,
};
pub(crate) use run::property_on;
pub use run::{cases, each, kills, property, try_out};
pub use time::{
    d6_refill_composes, d9_a_forgettable_key_is_fresh, d9_memory_is_bounded,
    d10_a_step_back_stalls_no_longer_than_itself, d10_stored_time_never_decreases,
};

pub use turns::{
    d9_cancels_do_not_see_expiry, d13_turns_are_in_order_and_bounded,
    d14_a_cancelled_turn_was_never_asked_for, d14_what_is_not_exact_changes_nothing,
    e6_turns_are_spaced_by_the_rate,
};

/// The result of a check.
pub type Check = Result<(), Failure>;

/// Fails unless `held`.
///
/// # Errors
/// The observation `seen`.
pub fn require(held: bool, seen: impl FnOnce() -> String) -> Check {
    if held { Ok(()) } else { Err(Failure::new(seen())) }
}
