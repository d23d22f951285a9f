//! Records of stored limits and of fenced values: each reads back unchanged, and any damage is reported (D12).

use std::time::Duration;

use lockage_core::fenced::{Access, FencedPeek, FencedRead, FencedWrite, Kept};
use lockage_core::latch::{Latch, OperationId};
use lockage_core::lock::{Lock, OwnerId};
use lockage_core::rw_lock::{HoldId, RwLock};
use lockage_core::semaphore::{PermitId, Semaphore};
use lockage_core::{
    Acquire, Adjust, Command, Cost, CostError, Limit, Record, RecordError, RequestId, SetLimit,
    Stored, StoredLimit, Timestamp, WithStoredLimit,
};

const SPAN: Duration = Duration::from_secs(60);

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn text(text: &str) -> Stored {
    Stored::Text(text.to_owned())
}

fn list(items: &[&str]) -> Stored {
    Stored::List(items.iter().map(|item| (*item).to_owned()).collect())
}

/// Checks that the record is stored as this text, and that this text is read as the record.
fn reads_back(slot: &Option<Record>, stored: &str) {
    let record = slot.as_ref().unwrap();
    assert_eq!(record.stored(), text(stored));
    assert_eq!(Record::read(&text(stored)).as_ref(), Ok(record));
}

fn refused(stored: &str, error: RecordError) {
    assert_eq!(Record::read(&text(stored)), Err(error), "{stored}");
}

#[test]
fn a_fenced_value_reads_back() {
    let slot = &mut None;
    let _ = FencedRead::new(7, SPAN).unwrap().apply(slot, at(5)).unwrap();
    reads_back(slot, "V1 7 60000005 -");
    let _ = FencedWrite::new(8, "a value = of words", SPAN).unwrap().apply(slot, at(6)).unwrap();
    reads_back(slot, "V1 8 60000006 =a value = of words");
    let kept =
        FencedPeek.apply(slot, at(60_000_005)).unwrap().map(|Kept { value, left }| (value, left));
    assert_eq!(kept, Some((b"a value = of words".to_vec(), Duration::from_micros(1))));
    assert_eq!(FencedPeek.apply(slot, at(60_000_006)), Ok(None));
    let old = FencedWrite::new(7, "late", SPAN).unwrap();
    assert_eq!(old.apply(slot, at(60_000_005)), Ok(Access::Stale { newest: 8 }));
    reads_back(slot, "V1 8 60000006 =a value = of words");
    let _ = FencedWrite::new(8, b"\0\xff\\", SPAN).unwrap().apply(slot, at(6)).unwrap();
    reads_back(slot, "V1 8 60000006 =\0\\xff\\x5c");
    assert_eq!(slot.as_ref().unwrap().stored().to_bytes(), [b"V1 8 60000006 =\0\xff\\"]);
    let _ = FencedWrite::new(8, "", SPAN).unwrap().apply(slot, at(6)).unwrap();
    reads_back(slot, "V1 8 60000006 =");
    let removal = FencedWrite::removal(8, SPAN).unwrap();
    assert_eq!(removal.apply(slot, at(7)), Ok(Access::Accepted(())));
    reads_back(slot, "V1 8 60000007 -");
    assert_eq!(old.apply(slot, at(8)), Ok(Access::Stale { newest: 8 }));
}

#[test]
fn damaged_fenced_values_are_detected() {
    assert!(Record::read(&text("V1 9007199254740991 9007199254740991 =")).is_ok());
    for damaged in [
        "V1 9007199254740992 5 =",
        "V1 7 9007199254740992 =",
        "V1 7 5",
        "V1 7 5 value",
        "V1 7 5 --",
        "V1 7 x =",
        "V1 x 5 =",
        "V1 7",
    ] {
        refused(damaged, RecordError::Damaged);
    }
    refused("V2 7 5 =", RecordError::OtherVersion);
}

#[test]
fn a_stored_limit_reads_back() {
    let keep = Duration::from_secs(3600);
    let stored = StoredLimit::new(limit("fixed-window 10/60s")).kept_for(keep).unwrap();
    let slot = &mut None;
    SetLimit::new(stored).apply(slot, at(100)).unwrap();
    let acquire = Acquire::new(limit("fixed-window 1/s"), 3).unwrap();
    WithStoredLimit::new(acquire).apply(slot, at(200)).unwrap();
    reads_back(slot, "P1 o 3600000000 3600000200 F1 10 60000000 200 3");

    let slot = &mut None;
    SetLimit::new(stored.per_client()).apply(slot, at(100)).unwrap();
    WithStoredLimit::new(acquire).apply(slot, at(200)).unwrap();
    // Such a limit is only stored here: its usage counts elsewhere.
    reads_back(slot, "P1 c 3600000000 3600000200 F1 10 60000000 200 0");
    assert_eq!(slot.as_ref().unwrap().tag(), "F1");
}

/// A step is a tenth, rounded up: also of the longest warm-up, which ten steps outlast.
#[test]
fn a_bucket_with_a_warmup_reads_back() {
    for (warmup, step) in [(1, 1), (10, 1), (11, 2), (1_u64 << 50, 112_589_990_684_263_u64)] {
        let slot = &mut None;
        let limit = limit(&format!("token-bucket 1/s burst 5 warmup {warmup}us"));
        assert!(Acquire::new(limit, 2).unwrap().apply(slot, at(200)).unwrap().is_allowed());
        reads_back(slot, &format!("U1 1 10000000 5 {step} 20000000 200 0"));
    }
}

#[test]
fn damaged_stored_limits_are_detected() {
    let record = |policy: &str| format!("P1 {policy} F1 10 60000000 200 3");
    for sound in ["o 1 5", "c 1125899906842624 5", "o 1 7881299347898367"] {
        let read = Record::read(&text(&record(sound)));
        assert_eq!(read.map(|read| read.stored()), Ok(text(&record(sound))));
    }
    for damaged in
        ["x 1 5", "o 0 5", "o 1125899906842625 5", "o 1 7881299347898368", "o x 5", "o 1 x", "o 1"]
    {
        refused(&record(damaged), RecordError::Damaged);
    }
    for damaged in [
        "P1 o 1 5",
        "P1 o 1 5 F1",
        // The rest is no limiter's record.
        "P1 o 1 5 D1 2 60000001 60000000",
        "P1 o 1 5 P1 o 1 5 F1 10 60000000 200 3",
        "P1 o 1 5 L1 10 60000000 0 200",
        "P1 o 1 5 X1 10 60000000 200 3",
        "P1 o 1 5 Fx 10 60000000 200 3",
    ] {
        refused(damaged, RecordError::Damaged);
    }
    refused("P1 o 1 5 F2 10 60000000 200 3", RecordError::OtherVersion);
    refused("P2 o 1 5 F1 10 60000000 200 3", RecordError::OtherVersion);
}

/// No state is later than [`Timestamp::MAX`], which every `now` keeps to.
#[test]
fn a_state_is_not_of_a_time_that_no_machine_takes() {
    let (last, late) = (Timestamp::MAX.as_micros(), Timestamp::MAX.as_micros() + 1);
    for state in [
        "F1 10 60000000 at 3",
        "S1 10 1000 3 2 at",
        "T1 1 2 10 4 at",
        "I1 2 100 5 2 at",
        "Q1 1 2 10 4 at",
    ] {
        let with = |at: u64| state.replace("at", &at.to_string());
        assert!(Record::read(&text(&with(last))).is_ok(), "{state}");
        refused(&with(late), RecordError::Damaged);
    }
    let log = |at: u64| Record::read(&list(&[&format!("L1 10 60000000 1 {at}"), &at.to_string()]));
    assert!(log(last).is_ok());
    assert_eq!(log(late), Err(RecordError::Damaged));
}

#[test]
fn only_logs_that_calls_can_write_are_valid() {
    let log = |entries: &[&str]| Record::read(&list(entries));
    assert!(log(&["L1 10 60000000 3 200", "100:2", "200"]).is_ok());
    for damaged in [
        &["L1 10 60000000 0 200", "200:0"][..],
        &["L1 10 60000000 3 200", "100:3", "200:0"],
        &["L1 10 60000000 3 200", "100:2", "201"],
        &["L1 10 60000000 3 200", "200:2", "100"],
        &["L1 10 60000000 4 200", "100:2", "200"],
        &["L1 10 60000000 2 200", "100:2", "200"],
    ] {
        assert_eq!(log(damaged), Err(RecordError::Damaged), "{damaged:?}");
    }
}

/// Behind a letter that is known there is a version, and nothing else.
#[test]
fn tags_identify_kind_and_version() {
    for other in ["X1 1 2", "F 1 2", "Fx 1 2", "F1x 1 2", "f1 1 2", "", " ", "1 2"] {
        refused(other, RecordError::OtherKind);
    }
    refused("F2 1 2", RecordError::OtherVersion);
    refused("F11 1 2", RecordError::OtherVersion);
    let read = |text: &str| Record::read(&list(&[text]));
    assert_eq!(read("F1 10 60000000 100 5"), Err(RecordError::OtherKind));
    assert_eq!(read("L2 10 60000000 0 0"), Err(RecordError::OtherVersion));
    refused("L1 10 60000000 0 0", RecordError::OtherKind);
}

#[test]
fn each_record_has_its_tag() {
    let tag = |slot: Option<Record>| slot.unwrap().tag();
    let limited = |text: &str| {
        let mut slot = None;
        _ = Acquire::new(limit(text), 1).unwrap().apply(&mut slot, at(100)).unwrap();
        tag(slot)
    };
    for (text, expected) in [
        ("fixed-window 10/60s", "F1"),
        ("sliding-window 10/1ms", "S1"),
        ("token-bucket 10/20us burst 10", "T1"),
        ("token-bucket 2 every 100us burst 5", "I1"),
        ("leaky-bucket 10/20us queue 10", "Q1"),
        ("sliding-log 10/60s", "L1"),
        ("sliding-log 10/60s + fixed-window 10/60s", "C1"),
        ("fixed-window 9/60s + fixed-window 10/90s", "C1"),
    ] {
        assert_eq!(limited(text), expected, "{text}");
    }
    fn made(command: &impl Command) -> &'static str {
        let mut slot = None;
        assert!(command.apply(&mut slot, at(100)).is_ok());
        slot.unwrap().tag()
    }
    let (owner, last) = (OwnerId::from_u128(1), Timestamp::MAX);
    let lock = Lock::new(SPAN, SPAN).unwrap();
    assert_eq!(made(&lock.acquire(owner, HoldId::from_u128(1), last)), "K2");
    let semaphore = Semaphore::new(1, SPAN, SPAN).unwrap();
    assert_eq!(made(&semaphore.acquire(PermitId::from_u128(1), 1, last).unwrap()), "M2");
    let shared = RwLock::new(SPAN, SPAN).unwrap();
    assert_eq!(made(&shared.read(owner, HoldId::from_u128(1), last)), "W2");
    let latch = Latch::new(SPAN).unwrap();
    assert_eq!(made(&latch.set(1, OperationId::from_u128(1), last).unwrap()), "D2");
    assert_eq!(made(&FencedRead::new(1, SPAN).unwrap()), "V1");
}

/// Each adjustment that is remembered by its id is read back as the one that it was, and known again (D11).
#[test]
fn d11_remembered_adjustments_read_back() {
    for text in ["fixed-window 10/60s", "token-bucket 10/60s burst 10", "sliding-log 10/60s"] {
        let (limit, block) = (limit(text), Duration::from_secs(5));
        let by_part = |adjust: fn(Limit, Cost) -> Result<Adjust, CostError>| {
            adjust(limit, Cost::by_part(&[2]).unwrap()).unwrap()
        };
        for (adjust, changed) in [
            (Adjust::take_up_to(limit, 2).unwrap(), Adjust::take_up_to(limit, 3).unwrap()),
            (Adjust::refund(limit, 2).unwrap(), Adjust::penalty(limit, 2).unwrap()),
            (Adjust::penalty(limit, 2).unwrap(), Adjust::take_up_to(limit, 2).unwrap()),
            (by_part(Adjust::refund_by_part), by_part(Adjust::penalty_by_part)),
            (by_part(Adjust::penalty_by_part), Adjust::penalty(limit, 2).unwrap()),
            (Adjust::block(limit, block).unwrap(), Adjust::unblock(limit)),
            (Adjust::unblock(limit), Adjust::block(limit, block).unwrap()),
        ] {
            let named =
                |adjust: Adjust| adjust.with_request(RequestId::from_u128(7), SPAN).unwrap();
            let mut slot = None;
            _ = Acquire::new(limit, 5).unwrap().apply(&mut slot, at(100)).unwrap();
            if adjust == Adjust::unblock(limit) {
                _ = Adjust::block(limit, block).unwrap().apply(&mut slot, at(100)).unwrap();
            }
            let told = named(adjust).apply(&mut slot, at(200)).unwrap();
            let record = slot.unwrap();
            let read = Record::read(&record.stored());
            assert_eq!(read.as_ref(), Ok(&record), "{adjust:?}");
            let mut slot = read.ok();
            assert_eq!(named(adjust).apply(&mut slot, at(300)), Ok(told), "{adjust:?}");
            let reused = Err(RecordError::OperationReused);
            assert_eq!(named(changed).apply(&mut slot, at(300)), reused, "{adjust:?}");
        }
    }
}

/// Times to come are below 2^53.
#[test]
fn a_block_ends_within_the_exact_range() {
    let block = |until: &str| format!("F1 10 60000000 100 5|blocked {until}");
    assert!(Record::read(&text(&block("9007199254740991"))).is_ok());
    refused(&block("9007199254740992"), RecordError::Damaged);
    refused(&block("x"), RecordError::Damaged);
}

/// A record lives at least a millisecond, and for as long as it counts.
#[test]
fn a_record_lives_until_it_may_be_forgotten() {
    let mut slot = None;
    let _ =
        FencedRead::new(7, Duration::from_micros(2_001)).unwrap().apply(&mut slot, at(0)).unwrap();
    let record = slot.unwrap();
    assert_eq!(record.forget_at(), at(2_001));
    let ttl = [0, 1, 2, 1_001, 2_001, 9_999].map(|now| record.ttl_ms(at(now)));
    assert_eq!(ttl, [3, 2, 2, 1, 1, 1]);
}

/// Only admitted requests and operations that ran are remembered, so a record that remembers anything else is damaged
/// (D11).
#[test]
fn d11_calls_without_effect_are_not_remembered() {
    let (limit, id) = (limit("fixed-window 10/60s"), RequestId::from_u128(7));
    let stored = |command: &dyn Fn(&mut Option<Record>)| {
        let mut slot = None;
        _ = Acquire::new(limit, 5).unwrap().apply(&mut slot, at(100)).unwrap();
        command(&mut slot);
        let Stored::Text(text) = slot.unwrap().stored() else { panic!("a list") };
        text
    };
    let acquire = Acquire::new(limit, 2).unwrap().with_request(id, SPAN).unwrap();
    let admitted = stored(&|slot| drop(acquire.apply(slot, at(200)).unwrap()));
    let penalty = Adjust::penalty(limit, 2).unwrap().with_request(id, SPAN).unwrap();
    let done = stored(&|slot| drop(penalty.apply(slot, at(200)).unwrap()));
    for (record, part, nothing) in
        [(admitted, "60000200 2 200", "60000200 0 200"), (done, " p2 200 2 ", " p2 200 0 ")]
    {
        assert!(Record::read(&text(&record)).is_ok() && record.contains(part), "{record}");
        refused(&record.replace(part, nothing), RecordError::Damaged);
    }
}
