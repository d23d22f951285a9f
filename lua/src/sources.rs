//! Which parts each script is made of.

use lockage_core::ScriptId;

/// The text of a script: its parts, one after the other.
pub(crate) const fn source(id: ScriptId) -> &'static str {
    match id {
        ScriptId::FixedWindowAcquire => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/fixed_window.lua"),
            include_str!("../scripts/requests.lua"),
            include_str!("../scripts/counter_record.lua"),
            include_str!("../scripts/counter_acquire.lua"),
        ),
        ScriptId::SlidingWindowAcquire => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/sliding_window.lua"),
            include_str!("../scripts/requests.lua"),
            include_str!("../scripts/counter_record.lua"),
            include_str!("../scripts/counter_acquire.lua"),
        ),
        ScriptId::TokenBucketAcquire => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/token_bucket.lua"),
            include_str!("../scripts/requests.lua"),
            include_str!("../scripts/counter_record.lua"),
            include_str!("../scripts/counter_acquire.lua"),
        ),
        ScriptId::IntervalBucketAcquire => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/interval_bucket.lua"),
            include_str!("../scripts/requests.lua"),
            include_str!("../scripts/counter_record.lua"),
            include_str!("../scripts/counter_acquire.lua"),
        ),
        ScriptId::LeakyBucketAcquire => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/token_bucket.lua"),
            include_str!("../scripts/leaky_bucket.lua"),
            include_str!("../scripts/requests.lua"),
            include_str!("../scripts/counter_record.lua"),
            include_str!("../scripts/counter_acquire.lua"),
        ),
        ScriptId::LeakyBucketCancel => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/requests.lua"),
            include_str!("../scripts/counter_record.lua"),
            include_str!("../scripts/leaky_bucket_cancel.lua"),
        ),
        ScriptId::CounterPeek => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/requests.lua"),
            include_str!("../scripts/counter_record.lua"),
            include_str!("../scripts/counter_peek.lua"),
        ),
        ScriptId::SlidingLogAcquire => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/requests.lua"),
            include_str!("../scripts/sliding_log.lua"),
            include_str!("../scripts/sliding_log_acquire.lua"),
        ),
        ScriptId::SlidingLogPeek => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/requests.lua"),
            include_str!("../scripts/sliding_log.lua"),
            include_str!("../scripts/sliding_log_peek.lua"),
        ),
        ScriptId::LimiterReset => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/limiter_reset.lua"),
        ),
        ScriptId::LockAcquire => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/lock_record.lua"),
            include_str!("../scripts/lock_acquire.lua"),
        ),
        ScriptId::LockRenew => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/lock_record.lua"),
            include_str!("../scripts/lock_renew.lua"),
        ),
        ScriptId::LockRelease => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/lock_record.lua"),
            include_str!("../scripts/lock_release.lua"),
        ),
        ScriptId::LockForceRelease => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/lock_record.lua"),
            include_str!("../scripts/lock_force_release.lua"),
        ),
        ScriptId::LockInspect => concat!(
            include_str!("../scripts/prelude.lua"),
            include_str!("../scripts/lock_record.lua"),
            include_str!("../scripts/lock_inspect.lua"),
        ),
        _ => panic!("a script without a text"),
    }
}
