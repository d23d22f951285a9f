//! Places where the machines run: stores that give fresh keys, and the model that these must equal.

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

    /// Returns whether its keys are visible only through a store's seam: see [`Model::behind_a_seam`].
    fn is_behind_a_seam(&self) -> bool {
        false
    }

    /// Returns the model of an unused key of this place: it expires alike, and shows as much.
    fn model(&self, time: Time) -> Model {
        match self.is_behind_a_seam() {
            true => Model::behind_a_seam(),
            false => Model::new(time),
        }
    }

    /// Returns the seed of all cases of properties, none of which is kept then. Without a seed the cases are drawn by
    /// chance, and those that fail are kept and tried first.
    fn seed(&self) -> Option<u64> {
        None
    }

    /// Returns the number of cases of a property for each one that runs here by default: above 1 where a call is a
    /// round trip.
    fn one_case_in(&self) -> u32 {
        1
    }

    /// Returns one unused key.
    fn key(&self, time: Time) -> Self::Key<'_> {
        let [key] = self.keys(time);
        key
    }
}

/// The clock that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The store's clock.
    Store,
    /// The caller's clock, whose time is sent along. The store's is off by some of the skew that the caller allows for.
    Caller {
        /// How far the store's clock is ahead, in microseconds.
        store_ahead_us: i64,
        /// Milliseconds that are added to every expiry.
        skew_ms: u64,
    },
}

impl Time {
    /// Returns mostly the store's clock; otherwise the caller's, with the store's within this many milliseconds of it.
    #[cfg(feature = "properties")]
    pub fn any(most_skew_ms: u64) -> impl Strategy<Value = Time> {
        let caller = (0..=most_skew_ms).prop_flat_map(|skew_ms| {
            let skew_us = i64::try_from(skew_ms * 1000).expect("a few seconds");
            (-skew_us..=skew_us)
                .prop_map(move |store_ahead_us| Time::Caller { store_ahead_us, skew_ms })
        });
        prop_oneof![3 => Just(Time::Store), 1 => caller]
    }

    /// Returns the time of the store's clock when the deciding one shows `now_us`, both in microseconds.
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
