//! The small values that all machines share: times, clocks, ids, decisions, and the words of errors.

use std::sync::Arc;
use std::time::Duration;

use lockage_core::flow::{CircuitBreakerConfig, PrefetchConfig};
use lockage_core::latch::{Latch, OperationId};
use lockage_core::lock::{self, Lock, OwnerId};
use lockage_core::rw_lock::{HoldId, RwLock};
use lockage_core::semaphore::{PermitId, Semaphore};
use lockage_core::{
    AcquireEach, Clock, Command, ConfigError, CostError, Decision, DenialReason, Denied, Limit,
    MAX_COSTS, MAX_DIFFERENT_COSTS, MAX_SLOW_COSTS, MAX_SPAN, ManualClock, Publish, RecordError,
    ReplyError, RequestId, ScriptId, SystemClock, Timestamp, Verdict,
};

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

#[test]
fn the_range_of_time_is_exact() {
    assert_eq!(MAX_SPAN, Duration::from_micros(2_251_799_813_685_248));
    assert_eq!(Timestamp::MAX.as_micros(), 6_755_399_441_055_743);
    let last = Timestamp::MAX.as_micros();
    assert_eq!(Timestamp::from_micros(last), Ok(Timestamp::MAX));
    let late = Timestamp::from_micros(last + 1).unwrap_err().to_string();
    assert!(late.contains(&format!("{} us", last + 1)), "{late}");
    assert!(late.contains(&format!("at most {last} us")), "{late}");
    assert_eq!(at(5).to_string(), "5us");
}

#[test]
fn time_is_added_to_and_taken_from_without_leaving_the_range() {
    let nanos = Duration::from_nanos;
    assert_eq!(at(7).saturating_add(nanos(3_000)), at(10));
    assert_eq!(at(7).saturating_add(nanos(3_001)), at(11));
    assert_eq!(at(7).saturating_add(Duration::MAX), Timestamp::MAX);
    assert_eq!(at(7).saturating_since(at(5)), Duration::from_micros(2));
    assert_eq!(at(5).saturating_since(at(7)), Duration::ZERO);
}

#[test]
fn references_to_clocks_are_clocks() {
    fn now(clock: impl Clock) -> Timestamp {
        clock.now()
    }
    let clock = ManualClock::starting_at(at(3));
    clock.advance(Duration::from_micros(4));
    assert_eq!((now(&clock), clock.now()), (at(7), at(7)));
    clock.set(at(5));
    assert_eq!(now(Arc::new(clock)), at(5));
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    let shown = Duration::from_micros(SystemClock.now().as_micros());
    assert!(shown.abs_diff(since) < Duration::from_secs(3600), "{shown:?}");
}

#[cfg(feature = "serde")]
#[test]
fn serde_takes_a_time_as_whole_microseconds() {
    assert_eq!(serde_json::to_string(&at(77)).unwrap(), "77");
    assert_eq!(serde_json::from_str::<Timestamp>("77").unwrap(), at(77));
}

#[test]
fn ids_are_32_hexadecimal_digits() {
    let bits = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;
    let text = "0123456789abcdef0f1e2d3c4b5a6978";
    assert_eq!(RequestId::from_u128(bits).to_string(), text);
    assert_eq!(PermitId::from_u128(bits).to_string(), text);
    assert_eq!(HoldId::from_u128(bits).to_string(), text);
    assert_eq!(text.parse(), Ok(RequestId::from_u128(bits)));
    assert_eq!(text.parse(), Ok(PermitId::from_u128(bits)));
    assert_eq!(text.parse(), Ok(HoldId::from_u128(bits)));
    assert_eq!(RequestId::from_u128(bits).as_u128(), bits);
    assert_eq!(PermitId::from_u128(bits).as_u128(), bits);
    assert_eq!(OperationId::from_u128(bits).as_u128(), bits);
    assert_eq!(HoldId::from_u128(bits).as_u128(), bits);
    let upper = text.to_uppercase();
    for wrong in [&text[1..], &format!("{text}0"), &upper, &text.replace('6', "+"), ""] {
        let error = wrong.parse::<RequestId>().unwrap_err().to_string();
        assert!(error.contains("32 hexadecimal digits"), "{wrong}: {error}");
    }
}

#[test]
fn decisions_report_admission_and_retry_after() {
    let wait = Duration::from_micros(7);
    let decision = |verdict| Decision::new(verdict, 10, 3, wait);
    let denied = decision(Verdict::denied(wait));
    let allowed = decision(Verdict::Allowed);
    let never = decision(Verdict::Never);
    assert_eq!([&denied, &allowed, &never].map(Decision::is_allowed), [false, true, false]);
    assert_eq!([&denied, &allowed, &never].map(Decision::retry_after), [Some(wait), None, None]);
    let blocked = Verdict::Denied { retry_after: wait, reason: DenialReason::Blocked };
    for (verdict, told, text) in [
        (denied.verdict, Denied::Limit { retry_after: wait }, "retry in 7µs: the limit is used up"),
        (blocked, Denied::Blocked { retry_after: wait }, "retry in 7µs: the key is blocked"),
        (never.verdict, Denied::Never { limit: 10 }, "the cost is above the limit of 10"),
    ] {
        let asked = decision(verdict);
        assert_eq!(asked.ok(), Err(told));
        assert_eq!((told.retry_after(), told.to_string()), (asked.retry_after(), text.to_owned()));
    }
    let admitted = allowed.ok().unwrap();
    assert_eq!((admitted.limit, admitted.remaining, admitted.reset_after), (10, 3, wait));
    let shadowed = |verdict| {
        let mut decision = allowed.clone();
        decision.shadow = Some(verdict);
        decision
    };
    assert!(!allowed.would_deny() && !denied.would_deny());
    assert!(shadowed(denied.verdict).would_deny() && shadowed(Verdict::Never).would_deny());
    assert!(!shadowed(Verdict::Allowed).would_deny());
}

#[test]
fn config_errors_name_the_field_and_its_bound() {
    let what = "burst";
    let too_large = |max, unit| ConfigError::TooLarge { what, max, unit, bound: "the bound" };
    for (error, words) in [
        (ConfigError::Zero { what }, "the burst is zero"),
        (ConfigError::SubMicrosecond { what }, "the burst has a fraction of a microsecond"),
        (too_large(7, "us"), "the burst is too long: at most 7us fits within the bound"),
        (too_large(7, ""), "the burst is too large: at most 7 fits within the bound"),
        (too_large(0, ""), "the burst is too large: no value fits within the bound"),
        (ConfigError::RefillAboveBurst { amount: 9, burst: 8 }, "9 tokens"),
        (ConfigError::NoShare { what, value: 3, shares: 4 }, "must be at least 4"),
        (ConfigError::LimitCount { count: 9 }, "9 limits together: there must be one to eight"),
        (ConfigError::Nested, "list all its limits"),
        (ConfigError::TooFewServers { count: 2 }, "2 servers"),
        (ConfigError::Conflict { what: "one", with: "the other" }, "one cannot be had together"),
    ] {
        assert!(error.to_string().contains(words), "{error}");
    }
    for (error, words) in [
        (CostError::Zero, "at least 1".to_owned()),
        (CostError::Empty, "at least one".to_owned()),
        (CostError::TooMany { count: 65, most: 64 }, "65 costs in one call: at most 64".to_owned()),
        (CostError::TooManyDifferent, format!("at most {MAX_DIFFERENT_COSTS} fit")),
    ] {
        assert!(error.to_string().contains(&words), "{error}");
    }
    let records = [
        (RecordError::OtherKind, "something else"),
        (RecordError::OtherVersion, "another version"),
        (RecordError::Damaged, "cannot be read"),
        (RecordError::OperationReused, "used before"),
        (RecordError::LimitIsStored, "is stored with it"),
    ];
    for (error, words) in records {
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(ReplyError::from(error).to_string(), error.to_string());
    }
    assert!(ReplyError::Unexpected.to_string().contains("unexpected form"));
}

#[test]
fn a_call_carries_as_many_costs_as_fit_and_no_more() {
    let limit: Limit = "fixed-window 10/s".parse().unwrap();
    let costs = |count| AcquireEach::new(limit, vec![1; count]).map(|_| ());
    assert_eq!((costs(MAX_COSTS), costs(0)), (Ok(()), Err(CostError::Empty)));
    assert_eq!(
        costs(MAX_COSTS + 1),
        Err(CostError::TooMany { count: MAX_COSTS + 1, most: MAX_COSTS })
    );
}

#[test]
fn a_call_to_a_log_carries_few_costs_that_differ() {
    let most = MAX_DIFFERENT_COSTS as u64;
    let few: Vec<u64> = (1..=most).chain(1..=most).collect();
    let many: Vec<u64> = (1..=most + 1).chain([1]).collect();
    let log: Limit = "sliding-log 99/s".parse().unwrap();
    let fitting = |limit, costs: &[u64]| AcquireEach::fitting(limit, costs.iter().copied());
    assert_eq!(fitting(Some(&log), &few), few.len());
    assert_eq!(fitting(Some(&log), &many), MAX_DIFFERENT_COSTS);
    assert_eq!(fitting(None, &few), MAX_SLOW_COSTS, "under a stored limit");
    let slow: Limit = "sliding-log 99/s + fixed-window 9/s".parse().unwrap();
    assert_eq!(fitting(Some(&slow), &few), MAX_SLOW_COSTS, "without a fast script");
    let new = |limit: &str, costs: &[u64]| {
        let limit: Limit = limit.parse().unwrap();
        AcquireEach::new(limit, costs.to_vec()).map(|_| ())
    };
    for limit in ["sliding-log 99/s", "fixed-window 9/s + sliding-log 99/min"] {
        assert_eq!(new(limit, &few), Ok(()));
        assert_eq!(new(limit, &many), Err(CostError::TooManyDifferent));
    }
    assert_eq!(new("token-bucket 99/s + fixed-window 99/s", &many), Ok(()));
}

#[test]
fn scripts_have_names_of_their_own() {
    let mut names: Vec<&str> = ScriptId::ALL.into_iter().map(ScriptId::name).collect();
    assert!(names.contains(&"token_bucket_acquire") && names.contains(&"rw_lock_release"));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ScriptId::ALL.len());
}

#[test]
fn getters_return_the_configured_values() {
    let (lease, remember) = (Duration::from_secs(30), Duration::from_secs(60));
    let semaphore = Semaphore::new(5, lease, remember).unwrap();
    assert_eq!(
        (semaphore.permits(), semaphore.lease(), semaphore.remember()),
        (5, lease, remember)
    );
    let lock = RwLock::new(lease, remember).unwrap();
    assert_eq!((lock.lease(), lock.remember()), (lease, remember));
    let lock = Lock::new(lease, remember).unwrap();
    assert_eq!((lock.lease(), lock.remember()), (lease, remember));
    assert_eq!(Latch::new(remember).unwrap().keep(), remember);
    assert_eq!(CircuitBreakerConfig::new(1, lease, 1).unwrap().probe_every(), lease);
    let limit = "fixed-window 9/s".parse().unwrap();
    let prefetch = PrefetchConfig::new(&limit, 5, lease).unwrap();
    assert_eq!((prefetch.permits(), prefetch.lease()), (5, lease));
}

#[test]
fn announced_waits_are_capped_at_half_the_longest_span() {
    let (span, lease) = (MAX_SPAN / 2, Duration::from_secs(30));
    let lock = Lock::new(lease, lease).unwrap();
    let acquire = lock.acquire(OwnerId::from_u128(1), lock::HoldId::from_u128(1), Timestamp::MAX);
    assert_eq!(acquire.waiting(Duration::MAX), acquire.waiting(span));
    assert_ne!(acquire.waiting(span), acquire.waiting(span - Duration::from_micros(1)));
    let semaphore = Semaphore::new(5, lease, lease).unwrap();
    let acquire = semaphore.acquire(PermitId::from_u128(1), 1, Timestamp::MAX).unwrap();
    assert_eq!(acquire.waiting(Duration::MAX), acquire.waiting(span));
    assert_ne!(acquire.waiting(span), acquire.waiting(span - Duration::from_micros(1)));
}

#[test]
fn an_inspection_says_until_when_readers_are_kept_out() {
    let lock = RwLock::new(Duration::from_secs(30), Duration::from_secs(60)).unwrap();
    let read = |reply: &[i64]| lock.inspect().outcome(reply).unwrap().kept_until;
    assert_eq!([read(&[0, 1_000, 0]), read(&[0, 1_000, 1_050])], [None, Some(at(1_050))]);
    let mut slot = None;
    let (reader, writer) = (OwnerId::from_u128(1), OwnerId::from_u128(2));
    lock.read(reader, HoldId::from_u128(1), Timestamp::MAX).apply(&mut slot, at(1_000)).unwrap();
    let write = lock.write(writer, HoldId::from_u128(2), Timestamp::MAX);
    write.waiting(Duration::from_micros(100)).apply(&mut slot, at(1_000)).unwrap();
    let inspected = lock.inspect().apply(&mut slot, at(1_010)).unwrap();
    assert_eq!(inspected.kept_until, Some(at(1_100)));
}

/// Another waiter is recorded only after half of the time for which the first one waits.
#[test]
fn waiters_are_recorded_only_when_needed() {
    let (lease, span) = (Duration::from_secs(30), Duration::from_micros(100));
    let semaphore = Semaphore::new(1, lease, lease).unwrap();
    let acquire = |id| semaphore.acquire(PermitId::from_u128(id), 1, Timestamp::MAX).unwrap();
    let mut slot = None;
    acquire(1).apply(&mut slot, at(1_000)).unwrap();
    let mut refused = |id, now| {
        let before = slot.clone();
        acquire(id).waiting(span).apply(&mut slot, at(now)).unwrap();
        slot != before
    };
    let written = [(2, 1_000), (3, 1_050), (4, 1_051), (5, 1_101), (6, 1_102)];
    assert_eq!(written.map(|(id, now)| refused(id, now)), [true, false, true, false, true]);
}

/// L12: listeners are notified of a reset where it opens the latch, and only there.
#[test]
fn l12_a_reset_notifies_only_if_the_latch_was_closed() {
    let latch = Latch::new(Duration::from_secs(60)).unwrap();
    let told = |left| latch.reset().publishes(&left, None);
    assert_eq!((told(Some(2)), told(Some(1))), (Publish::Any, Publish::Any));
    assert_eq!((told(Some(0)), told(None)), (Publish::Nothing, Publish::Nothing));
    let mut slot = None;
    latch
        .set(2, OperationId::from_u128(1), Timestamp::MAX)
        .unwrap()
        .apply(&mut slot, at(1))
        .unwrap();
    assert_eq!(latch.reset().apply(&mut slot, at(2)), Ok(Some(2)));
    assert_eq!(latch.reset().apply(&mut slot, at(2)), Ok(None));
}
