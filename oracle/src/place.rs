//! Places where the machines run: stores that give fresh keys, and the model that says what these must hold.

mod model;

use lockage_core::{CallTime, Timestamp};
#[cfg(feature = "properties")]
use proptest::prelude::*;

use crate::key::{Holds, MAX_TIME_US};

pub use model::{Model, is_fast_path};

/// A store under test.
pub trait Place {
    /// One of its keys.
    type Key<'a>: Holds
    where
        Self: 'a;

    /// Returns unused keys that share one clock. Keys from an earlier call may be gone.
    fn keys<const N: usize>(&self, time: Time) -> [Self::Key<'_>; N];

    /// Whether its keys are seen through a store's seam: see [`Model::behind_a_seam`].
    fn is_behind_a_seam(&self) -> bool {
        false
    }

    /// Returns the machines over an unused key that expires as one of this place, and shows as much.
    fn model(&self, time: Time) -> Model {
        match self.is_behind_a_seam() {
            true => Model::behind_a_seam(),
            false => Model::new(time),
        }
    }

    /// Returns the seed that the cases of properties are drawn from, all the same each time; none of them is kept then.
    /// Without one they are drawn by chance, and those that fail are kept and tried first.
    fn seed(&self) -> Option<u64> {
        None
    }

    /// Of how many cases of a property one runs here by default: of many where a call is a round trip.
    fn one_case_in(&self) -> u32 {
        1
    }

    /// Returns one unused key.
    fn key(&self, time: Time) -> Self::Key<'_> {
        let [key] = self.keys(time);
        key
    }
}

/// Whose clock decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The store's.
    Store,
    /// The caller's, sent along; the store's is off by some of the skew that the caller allows for.
    Caller {
        /// By how much the store's clock is ahead, in microseconds.
        store_ahead_us: i64,
        /// What is added to every expiry, in milliseconds.
        skew_ms: u64,
    },
}

impl Time {
    /// Mostly the store's; else the caller's, with the store's within so many milliseconds of it.
    #[cfg(feature = "properties")]
    pub fn any(most_skew_ms: u64) -> impl Strategy<Value = Time> {
        let caller = (0..=most_skew_ms).prop_flat_map(|skew_ms| {
            let skew_us = i64::try_from(skew_ms * 1000).expect("a few seconds");
            (-skew_us..=skew_us)
                .prop_map(move |store_ahead_us| Time::Caller { store_ahead_us, skew_ms })
        });
        prop_oneof![3 => Just(Time::Store), 1 => caller]
    }

    /// What the store's clock shows when the deciding one shows `now_us`, both in microseconds.
    pub fn store_us(self, now_us: u64) -> u64 {
        match self {
            Time::Store => now_us,
            Time::Caller { store_ahead_us, .. } => {
                now_us.saturating_add_signed(store_ahead_us).min(MAX_TIME_US)
            }
        }
    }

    /// Returns the time that the caller sends along.
    pub fn sent(self, now: Timestamp) -> CallTime {
        match self {
            Time::Store => CallTime::Store,
            Time::Caller { skew_ms, .. } => CallTime::Caller { now, skew_ms },
        }
    }
}
