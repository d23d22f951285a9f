//! Records and their text: every record reads back, and nothing else reads as one.

use std::time::Duration;

use lockage_core::lock::{Answer, HoldId, Lock, OwnerId};
use lockage_core::rw_lock::{self, RwLock};
use lockage_core::semaphore::{self, PermitId, Semaphore};
use lockage_core::{
    Acquire, AcquireEach, Adjust, Command, CostError, Limit, MAX_COSTS, Peek, Record, RecordError,
    RequestId, Reset, SetLimit, Stored, StoredLimit, Timestamp, Verdict, WithStoredLimit,
};

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

/// Returns the record after requests of these costs at these times.
fn record(text: &str, requests: &[(u64, u64)]) -> Record {
    let mut slot = None;
    for &(cost, time) in requests {
        _ = Acquire::new(limit(text), cost).unwrap().apply(&mut slot, at(time)).unwrap();
    }
    slot.unwrap()
}

fn text(stored: &str) -> Stored {
    Stored::Text(stored.to_owned())
}

fn list(stored: &[&str]) -> Stored {
    Stored::List(stored.iter().map(|item| (*item).to_owned()).collect())
}

#[test]
fn records_are_readable_and_read_back() {
    let cases = [
        ("fixed-window 10/60s", text("F1 10 60000000 100 5")),
        ("sliding-window 10/1ms", text("S1 10 1000 3 2 1050")),
        ("token-bucket 10/20us burst 10", text("T1 1 2 10 4 1050")),
        ("token-bucket 2 every 100us burst 5", text("I1 2 100 5 2 1050")),
        ("leaky-bucket 10/20us queue 10", text("Q1 1 2 10 4 1050")),
        ("sliding-log 10/60s", list(&["L1 10 60000000 5 1050", "100:3", "1050:2"])),
    ];
    for (limit, stored) in cases {
        let record = record(limit, &[(3, 100), (1, 1050), (1, 1050)]);
        assert_eq!(record.stored(), stored, "{limit}");
        assert_eq!(Record::read(&stored).as_ref(), Ok(&record), "{limit}");
    }
}

#[test]
fn a_locks_record_is_readable_and_reads_back() {
    let lock = Lock::new(Duration::from_secs(30), Duration::from_secs(60)).unwrap();
    let owner = OwnerId::from_u128(0xa11ce);
    let mut slot = None;
    let ids = (1..).map(HoldId::from_u128);
    for (id, time) in ids.zip([1_000_000, 2_000_000, 2_000_000]) {
        lock.acquire(owner, id, at(time + 7)).apply(&mut slot, at(time)).unwrap();
    }
    lock.release(owner, HoldId::from_u128(1)).apply(&mut slot, at(2_000_000)).unwrap();
    let record = slot.unwrap();
    let stored = text(
        "K2 000000000000000000000000000a11ce 32000000 1000000 136000000 0 0 0\
         |00000000000000000000000000000002 2000007 00000000000000000000000000000003 2000007\
         |r00000000000000000000000000000001 1000007 1000000 2",
    );
    assert_eq!(record.stored(), stored);
    assert_eq!(Record::read(&stored), Ok(record));
}

/// In a lock's record.
const OWNER: &str = "000000000000000000000000000a11ce";
/// A hold, and until when no acquire of it can arrive.
const HOLD: &str = "000000000000000000000000000a11ce 7";
const LATEST: u64 = Timestamp::MAX.as_micros();
/// The numbers of its head.
const SPANS: &str = "32000000 1000000 92000000 0 0 0";

#[test]
fn a_locks_queue_and_label_are_readable_and_read_back() {
    let lock = Lock::new(Duration::from_secs(30), Duration::from_secs(60)).unwrap();
    let mut slot = None;
    let ids = (1..).map(HoldId::from_u128);
    let span = Duration::from_secs(4);
    for (id, (owner, time)) in ids.zip([(0xa11ce, 1_000_000), (0xb0b, 2_000_000), (7, 3_000_000)]) {
        let acquire = lock.acquire(OwnerId::from_u128(owner), id, Timestamp::MAX).queued(span);
        acquire.labelled("web-1/77".parse().unwrap()).apply(&mut slot, at(time)).unwrap();
    }
    let record = slot.unwrap();
    let stored = text(
        "K2 000000000000000000000000000a11ce 31000000 1000000 136000000 6000000 0 0 web-1/77\
         |00000000000000000000000000000001 0\
         >00000000000000000000000000000b0b 8000000\
         >00000000000000000000000000000007 9000000",
    );
    assert_eq!(record.stored(), stored);
    assert_eq!(Record::read(&stored), Ok(record));
}

#[test]
fn invalid_records_are_classified() {
    use RecordError::{Damaged, OtherKind, OtherVersion};
    let cases = [
        (text(""), OtherKind),
        (text("hello"), OtherKind),
        (text("hello world"), OtherKind),
        (text("F 10 60000000 100 5"), OtherKind),
        (text("L1 10 60000000 5 1050"), OtherKind),
        (list(&["F1 10 60000000 100 5"]), OtherKind),
        (list(&[]), OtherKind),
        (text("F2 10 60000000 100 5"), OtherVersion),
        (list(&["L9 anything"]), OtherVersion),
        (text("F1 10 60000000 100"), Damaged),
        (text("F1 10 60000000 100 9007199254740992"), Damaged),
        (text("F1 0 60000000 100 0"), Damaged),
        (text("F1 10 60000000 100 0x5"), Damaged),
        (text("F1 10 60000000 100 +5"), Damaged),
        (text("F1 10 60000000 99999999999999999999 5"), Damaged),
        (text("T1 1 2 10 2251799813685249 1050"), Damaged),
        (text("T1 2 4 10 0 1050"), Damaged),
        (text("Q1 2 4 10 0 1050"), Damaged),
        (text("S1 10 1125899906842624 32 2 1050"), Damaged),
        (text("I1 2 100 5 45035996273705 1050"), Damaged),
        (list(&["L1 10 60000000 5 1050"]), Damaged),
        (list(&["L1 10 60000000 4 1050", "100:3", "1050:2"]), Damaged),
        (list(&["L1 10 60000000 5 1050", "100:3", "1050", "1050"]), Damaged),
        (list(&["L1 10 60000000 5 1050", "1050:3", "100:2"]), Damaged),
        (list(&["L1 10 60000000 5 1050", "100:3:1", "1050:2"]), Damaged),
        (text("K1 owner 0 1 1 0 0|"), OtherVersion),
        (text("K3 anything"), OtherVersion),
        (text("K2 owner 0 1 1 0 0 0|"), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}").to_uppercase()), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}")), Damaged),
        (text(&format!("K2 {OWNER} 32000000 1000000 92000000 0 0|{HOLD}")), Damaged),
        (text(&format!("K2 {OWNER} 32000000 1000000 92000000 0 1000001 0|{HOLD}")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS} a b|{HOLD}")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS} |{HOLD}")), Damaged),
        (text(&format!("K2 {OWNER} 32000000 1000000 92000000 0 0 {LATEST}|{HOLD}")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{OWNER} {LATEST}")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}|x{OWNER} {LATEST}")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|x")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{OWNER}")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD} ")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}| {HOLD}")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}  {HOLD}")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}{}", format!(" {HOLD}").repeat(64))), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}|r{OWNER} 7 1")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}|f{OWNER} 7")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}|x{OWNER} 7 1")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}|x{OWNER}a 7")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}|y{OWNER} 7")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}{}", format!("|x{OWNER} 7").repeat(5))), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}>x")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}>{OWNER} 1|")), Damaged),
        (text(&format!("K2 {OWNER} {SPANS}|{HOLD}>{OWNER} 9007199254740992")), Damaged),
    ];
    for (stored, error) in cases {
        assert_eq!(Record::read(&stored), Err(error), "{stored:?}");
    }
}

/// D12: a command on a record that is not its own fails and leaves the record unchanged.
#[test]
fn d12_another_record_is_refused_and_kept() {
    let lock = Lock::new(Duration::from_secs(1), Duration::from_secs(1)).unwrap();
    let (owner, id) = (OwnerId::from_u128(1), HoldId::from_u128(1));
    let now = at(200);
    let mut held = None;
    lock.acquire(owner, id, Timestamp::MAX).apply(&mut held, now).unwrap();
    let kept = held.clone();
    for text in ["fixed-window 10/60s", "sliding-log 10/60s", "fixed-window 9/s + sliding-log 1/s"]
    {
        let (other, refused) = (limit(text), RecordError::OtherKind);
        assert_eq!(Acquire::new(other, 1).unwrap().apply(&mut held, now), Err(refused), "{text}");
        assert_eq!(Peek::new(other, 1).apply(&mut held, now), Err(refused), "{text}");
        let refund = Adjust::refund(other, 1).unwrap().apply(&mut held, now);
        assert_eq!(refund, Err(refused), "{text}");
        assert_eq!(Reset.apply(&mut held, now), Err(refused), "{text}");
        assert_eq!(held, kept);
        let used = record(text, &[(1, 100)]);
        let mut slot = Some(used.clone());
        assert_eq!(lock.inspect().apply(&mut slot, now), Err(refused), "{text}");
        assert_eq!(slot, Some(used));
        // A reset clears the record of any limiter.
        assert_eq!(Reset.apply(&mut slot, now), Ok(true));
        assert_eq!(slot, None);
    }
}

/// Rates that are the same rate are one limit, however they are written.
#[test]
fn equal_rates_share_a_record() {
    let mut slot = Some(record("token-bucket 10/60s burst 5", &[(5, 100)]));
    let same = Acquire::new(limit("token-bucket 1/6s burst 5"), 1).unwrap();
    assert!(!same.apply(&mut slot, at(200)).unwrap().is_allowed());
}

#[test]
fn costs_are_checked_before_anything_else() {
    let ten = limit("fixed-window 10/s");
    assert_eq!(Acquire::new(ten, 0), Err(CostError::Zero));
    assert_eq!(AcquireEach::new(ten, vec![]), Err(CostError::Empty));
    assert_eq!(AcquireEach::new(ten, vec![1, 0]), Err(CostError::Zero));
    let many = AcquireEach::new(ten, vec![1; MAX_COSTS + 1]);
    assert_eq!(many, Err(CostError::TooMany { count: MAX_COSTS + 1, most: MAX_COSTS }));
    // A cost above the capacity is an answer, even the largest there is.
    for text in [
        "fixed-window 10/s",
        "sliding-log 10/s",
        "sliding-window 10/s",
        "token-bucket 10/s",
        "token-bucket 10 every s",
        "leaky-bucket 10/s",
    ] {
        let mut slot = None;
        let decision =
            Acquire::new(limit(text), u64::MAX).unwrap().apply(&mut slot, at(5)).unwrap();
        assert_eq!(decision.verdict, Verdict::Never, "{text}");
        assert_eq!(decision.retry_after(), None);
        assert_eq!((decision.remaining, slot), (10, None), "{text}");
    }
}

/// The machines stay exact, and do not overflow, at both ends of the range of times.
#[test]
fn the_latest_time_is_exact() {
    for text in [
        "fixed-window 10/71day",
        "sliding-log 10/71day",
        "sliding-window 10/71day",
        "token-bucket 10/71day",
        "token-bucket 10 every 71day",
        "leaky-bucket 10/71day",
    ] {
        for now in [Timestamp::EPOCH, Timestamp::MAX] {
            let mut slot = None;
            let full = Acquire::new(limit(text), 10).unwrap();
            assert!(full.apply(&mut slot, now).unwrap().is_allowed(), "{text}");
            let decision = full.apply(&mut slot, now).unwrap();
            assert!(decision.retry_after().unwrap() > Duration::ZERO, "{text}");
            let record = slot.unwrap();
            assert!(record.forget_at() > now);
            assert_eq!(Record::read(&record.stored()), Ok(record));
        }
    }
    let longest = Lock::new(Duration::from_micros(1 << 50), Duration::from_micros(1 << 50));
    let (owner, id) = (OwnerId::from_u128(1), HoldId::from_u128(1));
    let acquire = longest.unwrap().acquire(owner, id, Timestamp::MAX);
    let mut slot = None;
    let reply = acquire.apply(&mut slot, Timestamp::MAX).unwrap();
    assert!(matches!(reply.answer, Answer::Held(_)));
    let record = slot.unwrap();
    assert_eq!(Record::read(&record.stored()), Ok(record));
}

/// D9, bug 7: the time to live is rounded up, and never nothing.
#[test]
fn d9_the_time_to_live_is_rounded_up() {
    for (window, ttl) in [("1us", 1), ("999us", 1), ("1ms", 1), ("1001us", 2), ("1s", 1000)] {
        let record = record(&format!("fixed-window 1/{window}"), &[(1, 12_345)]);
        assert_eq!(record.ttl_ms(at(12_345)), ttl, "{window}");
    }
}

/// A store leaves the expiry of a key unchanged only where the same limit's record is kept until the same time.
#[test]
fn a_record_is_kept_as_one_of_the_same_limit_with_the_same_end() {
    let window = |text, cost| record(text, &[(cost, 100)]);
    for (kind, other) in [
        ("fixed-window 10/1ms", "fixed-window 20/1ms"),
        ("sliding-log 10/1ms", "sliding-log 20/1ms"),
    ] {
        let first = window(kind, 1);
        assert!(first.is_kept_as(&first), "{kind}");
        assert!(record(kind, &[(1, 100), (1, 100)]).is_kept_as(&first), "{kind}");
        assert!(!record(kind, &[(1, 5_100)]).is_kept_as(&first), "{kind}");
        assert!(!window(other, 1).is_kept_as(&first), "{kind}");
    }
    // A record without such an end is kept as no other: more charged than there is room for, nothing charged, several
    // limits.
    let after = |kind, adjust: Adjust| {
        let mut slot = Some(window(kind, 1));
        _ = adjust.apply(&mut slot, at(100)).unwrap();
        slot.unwrap()
    };
    let (log, bucket) = ("sliding-log 10/1ms", "token-bucket 10/1ms burst 10");
    for record in [
        after(bucket, Adjust::penalty(limit(bucket), 15).unwrap()),
        after(log, Adjust::refund(limit(log), 1).unwrap()),
        window("fixed-window 10/1ms + sliding-log 20/1ms", 1),
    ] {
        assert!(!record.is_kept_as(&record), "{record:?}");
    }
    // And where more was written than its state, in either of the two.
    let span = Duration::from_micros(50);
    for kind in ["fixed-window 10/1ms", log] {
        let plain = window(kind, 1);
        let acquire = Acquire::new(limit(kind), 1).unwrap();
        let requested = |remember| {
            let mut requested = Some(plain.clone());
            let request = acquire.with_request(RequestId::from_u128(1), remember).unwrap();
            _ = request.apply(&mut requested, at(100)).unwrap();
            requested.unwrap()
        };
        let short = requested(span);
        assert_eq!(short.is_kept_as(&plain), kind != log, "{kind}: no longer than its window");
        let mut stored = None;
        SetLimit::new(StoredLimit::new(limit(kind))).apply(&mut stored, at(100)).unwrap();
        WithStoredLimit::new(acquire).apply(&mut stored, at(100)).unwrap();
        let blocked = after(kind, Adjust::block(limit(kind), span).unwrap());
        for more in [requested(Duration::from_secs(1)), stored.unwrap(), blocked] {
            assert!(!more.is_kept_as(&plain), "{more:?}");
            assert!(!plain.is_kept_as(&more), "{more:?}");
        }
    }
}

/// L10: tokens that run ahead of the clock are remembered until it has passed them. Here each of nine is given back at
/// once, so that nothing else is remembered for that long.
#[test]
fn l10_free_records_are_kept_until_their_token_is_past() {
    let (micro, owner, latest) = (Duration::from_micros(1), OwnerId::from_u128(1), Timestamp::MAX);
    let (mut slots, mut tokens) = ([const { None }; 3], [0; 3]);
    let lock = Lock::new(micro, micro).unwrap();
    let rw_lock = RwLock::new(micro, micro).unwrap();
    let semaphore = Semaphore::new(1, micro, micro).unwrap();
    for id in (1..=9).map(HoldId::from_u128) {
        let [first, second, third] = &mut slots;
        let reply = lock.acquire(owner, id, latest).apply(first, at(100)).unwrap();
        let Answer::Held(hold) = reply.answer else { panic!("{reply:?}") };
        lock.release(owner, id).apply(first, at(100)).unwrap();
        let reply = rw_lock.write(owner, id, latest).apply(second, at(100)).unwrap();
        let rw_lock::Answer::Held(write) = reply.answer else { panic!("{reply:?}") };
        rw_lock.release(owner, rw_lock::Mode::Write, id).apply(second, at(100)).unwrap();
        let id = PermitId::from_u128(id.as_u128());
        let reply = semaphore.acquire(id, 1, latest).unwrap().apply(third, at(100)).unwrap();
        let semaphore::Answer::Held(grant) = reply.answer else { panic!("{reply:?}") };
        semaphore.release(id, None).apply(third, at(100)).unwrap();
        tokens = [hold.token, write.token, grant.token];
    }
    assert_eq!((tokens, slots.map(|slot| slot.unwrap().forget_at())), ([108; 3], [at(109); 3]));
}

/// D12: the result of any call at the latest time ends in the exact range.
#[test]
fn records_past_the_exact_range_are_damaged() {
    let exact = (1_u64 << 53) - 1;
    let (latest, span) = (Timestamp::MAX.as_micros(), 1_u64 << 51);
    let end = exact - span / 2;
    let damaged = |stored: Stored| match Record::read(&stored) {
        Ok(_) => false,
        Err(error) => error == RecordError::Damaged,
    };
    let followed = |until: u64, window: u64| {
        damaged(text(&format!("P1 o 5 {until} F1 10 {window} {latest} 3")))
    };
    assert_eq!([end, end + 1, exact].map(|until| followed(until, 6_000_000)), [false, true, true]);
    // Its own state counts for as long.
    assert_eq!([span, span - 1].map(|window| followed(exact, window)), [false, true]);
    let lock = |deadline: u64, token: u64| {
        let id = OwnerId::from_u128(1);
        text(&format!("K2 {id} {deadline} {token} {exact} 0 0 0|{id} 0"))
    };
    assert_eq!([end, end + 1, exact].map(|at| damaged(lock(at, 1))), [false, true, true]);
    assert_eq!([end, end + 1, exact].map(|token| damaged(lock(1, token))), [false, true, true]);
    for place in [3, 11] {
        let mut packed = lock(1, 1).to_bytes().remove(0);
        packed[place..place + 8].copy_from_slice(&((end + 1) as f64).to_le_bytes());
        assert!(damaged(Stored::of_string(&packed)), "packed, at {place}");
    }
}

/// D12: a lease can end after the latest time, at which no command runs.
#[test]
fn no_command_runs_after_the_latest_time() {
    let (owner, id) = (OwnerId::from_u128(1), HoldId::from_u128(1));
    let longest = Duration::from_micros(1 << 50);
    let lock = Lock::new(longest, longest).unwrap();
    let acquire = lock.acquire(owner, id, Timestamp::MAX);
    let mut slot = None;
    acquire.apply(&mut slot, Timestamp::MAX).unwrap();
    let end = slot.as_ref().unwrap().forget_at();
    assert_eq!(end.as_micros(), (1 << 53) - 1);
    let before = slot.clone();
    assert_eq!(acquire.apply(&mut slot, end), Err(RecordError::ClockOff));
    assert_eq!(lock.inspect().apply(&mut slot, end), Err(RecordError::ClockOff));
    assert_eq!(slot, before);
    let acquire = Acquire::new(limit("fixed-window 10/s"), 1).unwrap();
    assert_eq!(acquire.apply(&mut None, end), Err(RecordError::ClockOff));
    let set = SetLimit::new(StoredLimit::new(limit("fixed-window 10/s")));
    assert_eq!(set.apply(&mut None, end), Err(RecordError::ClockOff));
    let followed = WithStoredLimit::new(acquire).apply(&mut None, end);
    assert_eq!(followed, Err(RecordError::ClockOff));
}
