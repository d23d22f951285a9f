//! The constants that the scripts share with the Rust machines: `$EXACT` in a script is its value here.

use std::collections::BTreeMap;

use lockage_core::lock::{self, Label};
use lockage_core::{
    Composite, EXACT_RESERVATIONS, MAX_SPAN, REMEMBERED_REQUESTS, RecordError, SlidingLog,
    Timestamp, Zone, rw_lock, semaphore,
};

use crate::NEEDS_SLOW_PATH;
use crate::algorithm::tag_number;

/// The first word of a script's error about a wrong argument.
const ARGUMENT: &str = "LOCKAGE_ARGUMENT";

/// The status of a reply where the key is blocked, and nothing was admitted.
const BLOCKED: i64 = 6;

/// The tags of records that are no limiter's: their kind, and the version of the format.
const LOCK: &str = "K2";
const SEMAPHORE: &str = "M2";
const RW_LOCK: &str = "W2";
const LATCH: &str = "D2";
const FENCED: &str = "V1";

/// The tag of one reservation.
const RESERVATION: &str = "R1";

/// The tag of the sliding log, whose entries are a list.
const LOG: &str = "L1";

/// The tag before the record of a limit that is stored for all to follow.
const POLICY: &str = "P1";

/// The tag of several limits together.
const COMPOSITE: &str = "C1";

/// Returns all constants.
pub(crate) fn all() -> BTreeMap<&'static str, String> {
    let span = MAX_SPAN.as_micros() as u64;
    let exact = Timestamp::MAX.as_micros() + span;
    let numbers = [
        // 2^53 - 1: every whole number up to it is exact.
        ("EXACT", exact),
        ("TWO_52", exact.div_ceil(2)),
        // 2^51 us: the longest time that is remembered.
        ("SPAN", span),
        // 2^50 us: the longest time that a call can ask for.
        ("LONGEST", span / 2),
        ("LATEST_TIME", Timestamp::MAX.as_micros()),
        // The latest end of a span that a call can ask for: as long after the latest time.
        ("LATEST_END", exact - span / 2),
        ("COMPOSITE_NUMBER", tag_number(COMPOSITE, b':').into()),
        ("LOCK_NUMBER", tag_number(LOCK, b':').into()),
        ("LOG_NUMBER", tag_number(LOG, b':').into()),
        ("MAX_LOG", SlidingLog::MAX_LIMIT),
        ("MAX_CARRIED", SlidingLog::MAX_CARRIED),
        ("POLICY_NUMBER", tag_number(POLICY, b':').into()),
        ("RESERVATION_NUMBER", tag_number(RESERVATION, b':').into()),
        ("MAX_PERMITS", semaphore::MAX_PERMITS),
        ("ZONES", Zone::COUNT.into()),
    ];
    let counts = [
        ("EXACT_RESERVATIONS", EXACT_RESERVATIONS),
        ("MAX_HOLDS", lock::MAX_HOLDS),
        ("MAX_CHUNK", SlidingLog::MAX_CHUNK),
        ("MAX_IN_HEAD", SlidingLog::MAX_IN_HEAD),
        ("MAX_INSPECTED", semaphore::MAX_INSPECTED),
        ("MAX_LABEL", Label::MAX_LEN),
        ("MAX_LIMITS", Composite::MAX_LIMITS),
        ("MAX_NEWEST", SlidingLog::MAX_NEWEST),
        ("MAX_QUEUED", lock::MAX_QUEUED),
        ("MAX_READERS", rw_lock::MAX_READERS),
        ("MAX_SIDE_HOLDS", rw_lock::MAX_HOLDS),
        ("REMEMBERED_REQUESTS", REMEMBERED_REQUESTS),
        ("REMEMBERED_RELEASES", semaphore::REMEMBERED),
        ("REMEMBERED_SIDES", rw_lock::REMEMBERED),
    ];
    let statuses = [
        ("OTHER_KIND", RecordError::OtherKind.status()),
        ("OTHER_VERSION", RecordError::OtherVersion.status()),
        ("DAMAGED", RecordError::Damaged.status()),
        ("OPERATION_REUSED", RecordError::OperationReused.status()),
        ("LIMIT_IS_STORED", RecordError::LimitIsStored.status()),
        ("BLOCKED", BLOCKED),
        ("CLOCK_OFF", RecordError::ClockOff.status()),
        ("OTHER_PARTS", RecordError::OtherParts.status()),
        ("HOLD_TOO_LONG", RecordError::HoldTooLong.status()),
    ];
    let texts = [
        ("ARGUMENT", ARGUMENT),
        ("NEEDS_SLOW_PATH", NEEDS_SLOW_PATH),
        ("COMPOSITE", COMPOSITE),
        ("FENCED", FENCED),
        ("LATCH", LATCH),
        ("LOCK", LOCK),
        ("LOG", LOG),
        ("POLICY", POLICY),
        ("RW_LOCK", RW_LOCK),
        ("SEMAPHORE", SEMAPHORE),
        // A packed lock, up to its entries, and one of them: see `fast_lock.lua`.
        ("LOCK_HEAD", "<I3ddddddc16I1I1"),
        ("LOCK_ENTRY", "c1c16dI1d"),
    ];
    let numbers = numbers.into_iter().map(|(name, number)| (name, number.to_string()));
    let counts = counts.into_iter().map(|(name, count)| (name, count.to_string()));
    let statuses = statuses.into_iter().map(|(name, status)| (name, status.to_string()));
    let texts = texts.into_iter().map(|(name, text)| (name, text.to_owned()));
    numbers.chain(counts).chain(statuses).chain(texts).collect()
}
