//! Calls of the corpus on a server whose memory is full.

use std::collections::BTreeMap;

use lockage_core::ScriptId;
use lockage_sim::store::SimStore;

use super::corpus::{Call, KEY, Recorded, Step, held_at};

/// The number of calls of each script while the memory was full, and of refusals.
#[derive(Debug, Default)]
pub struct WhereFull(pub BTreeMap<ScriptId, [u64; 2]>);

impl WhereFull {
    /// Makes the calls of a trace on this store, which is emptied first and full during each call.
    ///
    /// # Panics
    /// Where a call that frees or keeps something has another outcome than with memory left; or another call has
    /// neither that outcome nor a refusal that changed nothing.
    pub fn run(&mut self, trace: &Recorded, store: &mut SimStore) {
        store.flush_all();
        for (step, expected) in &trace.steps {
            let Step::Call(call) = step else {
                step.run(store);
                continue;
            };
            call.set_now(store);
            let before = (held_at(store, KEY), beside(call, store));
            store.set_full(true);
            let seen = step.run(store);
            store.set_full(false);
            let is_refused = seen.reply.as_ref().is_err_and(|error| error.contains("OOM"));
            let counts = self.0.entry(call.fallback.unwrap_or(call.script)).or_default();
            counts[0] += 1;
            counts[1] += u64::from(is_refused);
            if !is_refused {
                assert_eq!(seen, *expected, "{call:?}");
                continue;
            }
            assert!(!frees_or_keeps(call), "it is refused: {call:?}");
            let after = (held_at(store, KEY), beside(call, store));
            assert_eq!((after, seen.published), (before, None), "{call:?}");
            assert_eq!(step.run(store), *expected, "with memory again: {call:?}");
        }
    }
}

/// Returns the record of the second key, if the call has one.
fn beside(call: &Call, store: &SimStore) -> lockage_oracle::key::Held {
    call.beside.as_ref().and_then(|beside| held_at(store, &beside.key()))
}

/// Returns whether the call gives something back, or keeps a lease or a record.
fn frees_or_keeps(call: &Call) -> bool {
    use ScriptId as S;
    let text = if call.fallback.is_some() { &call.slow_path_arguments } else { &call.arguments };
    match call.fallback.unwrap_or(call.script) {
        S::LockRelease | S::LockRenew | S::LockWithdraw | S::LockForceRelease => true,
        S::SemaphoreRelease | S::SemaphoreRenew | S::RwLockRelease | S::RwLockRenew => true,
        S::LatchCountDown | S::LatchReset => true,
        S::LeakyBucketCancel | S::LimiterSettle | S::LimiterReset => true,
        S::LimiterAdjust => matches!(text.get(3).map(String::as_str), Some("f" | "u")),
        S::FencedWrite => text.len() == 4,
        _ => false,
    }
}
