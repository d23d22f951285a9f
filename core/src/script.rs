//! The names of the scripts.

/// Declares the scripts, each once: as a variant, in [`ScriptId::ALL`], and with its name.
macro_rules! scripts {
    ($($script:ident = $name:literal,)*) => {
        /// Names one script. Its source is in the crate `lockage-lua`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)] // each is documented by its name and, in full, by its script's header
        pub enum ScriptId {
            $($script,)*
        }

        impl ScriptId {
            /// Every script, in order.
            pub const ALL: [ScriptId; [$($name),*].len()] = [$(ScriptId::$script),*];

            /// Returns the script's name in lower case, such as `token_bucket_acquire`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ScriptId::$script => $name,)*
                }
            }
        }
    };
}

scripts! {
    FixedWindowAcquire = "fixed_window_acquire",
    SlidingWindowAcquire = "sliding_window_acquire",
    TokenBucketAcquire = "token_bucket_acquire",
    IntervalBucketAcquire = "interval_bucket_acquire",
    WarmupBucketAcquire = "warmup_bucket_acquire",
    InFlightAcquire = "in_flight_acquire",
    LeakyBucketAcquire = "leaky_bucket_acquire",
    LeakyBucketCancel = "leaky_bucket_cancel",
    SlidingLogAcquire = "sliding_log_acquire",
    CalendarWindowAcquire = "calendar_window_acquire",
    CompositeAcquire = "composite_acquire",
    StoredAcquire = "stored_acquire",
    LimiterAcquire = "limiter_acquire",
    LimiterReserve = "limiter_reserve",
    FixedWindowReserve = "fixed_window_reserve",
    SlidingWindowReserve = "sliding_window_reserve",
    TokenBucketReserve = "token_bucket_reserve",
    IntervalBucketReserve = "interval_bucket_reserve",
    InFlightReserve = "in_flight_reserve",
    FixedWindowSettle = "fixed_window_settle",
    SlidingWindowSettle = "sliding_window_settle",
    TokenBucketSettle = "token_bucket_settle",
    IntervalBucketSettle = "interval_bucket_settle",
    InFlightSettle = "in_flight_settle",
    LimiterPeek = "limiter_peek",
    LimiterAdjust = "limiter_adjust",
    LimiterSettle = "limiter_settle",
    LimiterSet = "limiter_set",
    LimiterReset = "limiter_reset",
    LockAcquire = "lock_acquire",
    LockRenew = "lock_renew",
    LockRelease = "lock_release",
    LockForceRelease = "lock_force_release",
    LockInspect = "lock_inspect",
    LockWithdraw = "lock_withdraw",
    FastLockAcquire = "fast_lock_acquire",
    FastLockRenew = "fast_lock_renew",
    FastLockRelease = "fast_lock_release",
    FencedWrite = "fenced_write",
    FencedRead = "fenced_read",
    SemaphoreAcquire = "semaphore_acquire",
    SemaphoreRenew = "semaphore_renew",
    SemaphoreRelease = "semaphore_release",
    SemaphoreInspect = "semaphore_inspect",
    RwLockAcquire = "rw_lock_acquire",
    RwLockRenew = "rw_lock_renew",
    RwLockRelease = "rw_lock_release",
    RwLockInspect = "rw_lock_inspect",
    LatchSet = "latch_set",
    LatchCountDown = "latch_count_down",
    LatchInspect = "latch_inspect",
    LatchReset = "latch_reset",
}
