//! Which parts each script is made of.

use lockage_core::ScriptId;

const PRELUDE: &str = include_str!("../scripts/prelude.lua");
const REQUESTS: &str = include_str!("../scripts/requests.lua");
const PACKED: &str = include_str!("../scripts/packed.lua");
const FIXED_WINDOW: &str = include_str!("../scripts/fixed_window.lua");
const SLIDING_WINDOW: &str = include_str!("../scripts/sliding_window.lua");
const TOKEN_BUCKET: &str = include_str!("../scripts/token_bucket.lua");
const INTERVAL_BUCKET: &str = include_str!("../scripts/interval_bucket.lua");
const ANY_RECORD: &str = include_str!("../scripts/any_record.lua");
const PLAIN_CALL: &str = include_str!("../scripts/fast_call.lua");
const PENALTY: &str = include_str!("../scripts/penalty.lua");
const PUBLISH: &str = include_str!("../scripts/publish.lua");
const LOCK_RECORD: &str = include_str!("../scripts/lock_record.lua");
const WAKE: &str = include_str!("../scripts/wake.lua");
const PIECES: &str = include_str!("../scripts/pieces.lua");

/// A script without keys that replies whether scripts publish to the channels of shards (1) or to plain ones (0)
/// on the server that runs it.
pub const SHARDED_CHANNELS: &str =
    concat!(include_str!("../scripts/publish.lua"), "return sharded and 1 or 0\n");

/// A script that writes the record of its only key as it is, so that `WAIT` on the same connection tells how many
/// replicas have all that was done to the key before. It replies 1 where it did.
pub const REWRITE: &str = include_str!("../scripts/rewrite.lua");

/// What a script needs that works on any limit and any limiter's record.
const ANY_LIMIT: [&str; 13] = [
    PRELUDE,
    PACKED,
    FIXED_WINDOW,
    SLIDING_WINDOW,
    TOKEN_BUCKET,
    INTERVAL_BUCKET,
    REQUESTS,
    include_str!("../scripts/counters.lua"),
    include_str!("../scripts/log_entries.lua"),
    ANY_RECORD,
    include_str!("../scripts/reservations.lua"),
    include_str!("../scripts/limit_record.lua"),
    include_str!("../scripts/conversion.lua"),
];

/// The text of a script: its parts, one after the other.
pub(crate) fn source(id: ScriptId) -> String {
    match id {
        ScriptId::FixedWindowAcquire => {
            counter(include_str!("../scripts/fixed_window_acquire.lua"))
        }
        ScriptId::SlidingWindowAcquire => {
            counter(include_str!("../scripts/sliding_window_acquire.lua"))
        }
        ScriptId::TokenBucketAcquire => {
            counter(include_str!("../scripts/token_bucket_acquire.lua"))
        }
        ScriptId::IntervalBucketAcquire => {
            counter(include_str!("../scripts/interval_bucket_acquire.lua"))
        }
        ScriptId::LeakyBucketAcquire => {
            counter(include_str!("../scripts/leaky_bucket_acquire.lua"))
        }
        ScriptId::LeakyBucketCancel => {
            let cancel = include_str!("../scripts/leaky_bucket_cancel.lua");
            [PRELUDE, PACKED, TOKEN_BUCKET, REQUESTS, ANY_RECORD, cancel].concat()
        }
        ScriptId::SlidingLogAcquire => {
            [PLAIN_CALL, include_str!("../scripts/sliding_log_acquire.lua")].concat()
        }
        ScriptId::CompositeAcquire => plain(include_str!("../scripts/composite_acquire.lua")),
        ScriptId::LimiterAcquire => any(&[include_str!("../scripts/limiter_acquire.lua")]),
        ScriptId::LimiterPeek => any(&[include_str!("../scripts/limiter_peek.lua")]),
        ScriptId::LimiterAdjust => any(&[PENALTY, include_str!("../scripts/limiter_adjust.lua")]),
        ScriptId::LimiterSettle => any(&[PENALTY, include_str!("../scripts/limiter_settle.lua")]),
        ScriptId::LimiterSet => any(&[include_str!("../scripts/limiter_set.lua")]),
        ScriptId::LimiterReset => {
            [PRELUDE, PACKED, ANY_RECORD, include_str!("../scripts/limiter_reset.lua")].concat()
        }
        ScriptId::LockAcquire => lock(include_str!("../scripts/lock_acquire.lua")),
        ScriptId::LockRenew => lock(include_str!("../scripts/lock_renew.lua")),
        ScriptId::LockRelease => lock(include_str!("../scripts/lock_release.lua")),
        ScriptId::LockForceRelease => lock(include_str!("../scripts/lock_force_release.lua")),
        ScriptId::LockInspect => lock(include_str!("../scripts/lock_inspect.lua")),
        ScriptId::LockWithdraw => lock(include_str!("../scripts/lock_withdraw.lua")),
        ScriptId::FastLockAcquire => fast_lock(include_str!("../scripts/fast_lock_acquire.lua")),
        ScriptId::FastLockRenew => fast_lock(include_str!("../scripts/fast_lock_renew.lua")),
        ScriptId::FastLockRelease => fast_lock(include_str!("../scripts/fast_lock_release.lua")),
        ScriptId::FencedWrite => fenced(include_str!("../scripts/fenced_write.lua")),
        ScriptId::FencedRead => fenced(include_str!("../scripts/fenced_read.lua")),
        ScriptId::SemaphoreAcquire => semaphore(include_str!("../scripts/semaphore_acquire.lua")),
        ScriptId::SemaphoreRenew => semaphore(include_str!("../scripts/semaphore_renew.lua")),
        ScriptId::SemaphoreRelease => semaphore(include_str!("../scripts/semaphore_release.lua")),
        ScriptId::SemaphoreInspect => semaphore(include_str!("../scripts/semaphore_inspect.lua")),
        ScriptId::RwLockAcquire => rw_lock(include_str!("../scripts/rw_lock_acquire.lua")),
        ScriptId::RwLockRenew => rw_lock(include_str!("../scripts/rw_lock_renew.lua")),
        ScriptId::RwLockRelease => rw_lock(include_str!("../scripts/rw_lock_release.lua")),
        ScriptId::RwLockInspect => rw_lock(include_str!("../scripts/rw_lock_inspect.lua")),
        ScriptId::LatchSet => latch(include_str!("../scripts/latch_set.lua")),
        ScriptId::LatchCountDown => latch(include_str!("../scripts/latch_count_down.lua")),
        ScriptId::LatchInspect => latch(include_str!("../scripts/latch_inspect.lua")),
        ScriptId::LatchReset => latch(include_str!("../scripts/latch_reset.lua")),
        _ => panic!("a script without a text"),
    }
}

/// The text that runs this script for each of several keys.
pub(crate) fn many(id: ScriptId) -> String {
    let source = source(id);
    [
        "local function run(redis, KEYS, ARGV)\n",
        &source,
        "end\n",
        include_str!("../scripts/many.lua"),
    ]
    .concat()
}

/// Of a record that is packed, and written whole: without functions.
fn plain(operation: &str) -> String {
    let string = include_str!("../scripts/fast_string.lua");
    [PLAIN_CALL, string, operation, include_str!("../scripts/fast_store.lua")].concat()
}

/// Of a record that is packed, of whose numbers those are written that change.
fn counter(operation: &str) -> String {
    let string = include_str!("../scripts/fast_string.lua");
    [PLAIN_CALL, string, operation, include_str!("../scripts/counter_store.lua")].concat()
}

fn fast_lock(operation: &str) -> String {
    plain(&[include_str!("../scripts/fast_lock.lua"), operation].concat())
}

fn any(operation: &[&str]) -> String {
    [&ANY_LIMIT, operation].concat().concat()
}

fn fenced(operation: &str) -> String {
    [PRELUDE, include_str!("../scripts/fenced_record.lua"), operation].concat()
}

fn lock(operation: &str) -> String {
    [PRELUDE, PUBLISH, LOCK_RECORD, operation].concat()
}

fn semaphore(operation: &str) -> String {
    let record = include_str!("../scripts/semaphore_record.lua");
    [PRELUDE, PIECES, PUBLISH, WAKE, record, operation].concat()
}

fn rw_lock(operation: &str) -> String {
    let record = include_str!("../scripts/rw_lock_record.lua");
    [PRELUDE, PIECES, PUBLISH, WAKE, record, operation].concat()
}

fn latch(operation: &str) -> String {
    let record = include_str!("../scripts/latch_record.lua");
    [PRELUDE, PIECES, PUBLISH, record, operation].concat()
}
