//! Requests with an id: the memory of them in records, and its duration (D11).

use std::time::Duration;

use lockage_core::lock::{HoldId, Lock, OwnerId};
use lockage_core::{
    Acquire, AcquireEach, CallTime, Command, ConfigError, Decision, Encoded, IdError, Limit, Peek,
    REMEMBERED_REQUESTS, Record, RecordError, RequestId, Reset, Stored, Timestamp,
};

const LIMITS: [&str; 6] = [
    "fixed-window 10/1ms",
    "sliding-log 10/1ms",
    "sliding-window 10/1ms",
    "token-bucket 10/1ms burst 10",
    "token-bucket 2 every 100us burst 10",
    "leaky-bucket 10/1ms queue 10",
];

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn request(text: &str, cost: u64, id: u128, remember_us: u64) -> Acquire {
    let acquire = Acquire::new(limit(text), cost).unwrap();
    let id = RequestId::from_u128(id);
    acquire.with_request(id, Duration::from_micros(remember_us)).unwrap()
}

/// Runs an acquire without an id.
fn acquire(text: &str, cost: u64, slot: &mut Option<Record>, now: u64) -> Decision {
    Acquire::new(limit(text), cost).unwrap().apply(slot, at(now)).unwrap()
}

#[test]
fn records_with_request_ids_round_trip() {
    let id = "|q 850 2|0000000000000000000000000000c0de";
    let other = "|0000000000000000000000000000beef";
    let cases = [
        (LIMITS[0], vec![format!("F1 10 1000 50 6{id} 600 3 100 50 1{other} 700 2 200 50 4")]),
        (
            LIMITS[1],
            vec![
                format!("L1 10 1000 6 200{id} 600 3 100 1 50{other} 700 2 200 4 100"),
                "50".into(),
                "100:3".into(),
                "200:2".into(),
            ],
        ),
        (
            LIMITS[2],
            vec![format!("S1 10 1000 0 6 200{id} 600 3 100 0 1 50{other} 700 2 200 0 4 100")],
        ),
        (
            LIMITS[3],
            vec![format!("T1 1 100 10 450 200{id} 600 3 100 100 50{other} 700 2 200 350 100")],
        ),
        (LIMITS[4], vec![format!("I1 2 100 10 4 150{id} 600 3 100 1 50{other} 700 2 200 4 50")]),
        (
            LIMITS[5],
            vec![format!("Q1 1 100 10 450 200{id} 600 3 100 100 50{other} 700 2 200 350 100")],
        ),
    ];
    for (text, mut stored) in cases {
        let mut slot = None;
        _ = acquire(text, 1, &mut slot, 50);
        _ = request(text, 3, 0xc0de, 500).apply(&mut slot, at(100)).unwrap();
        _ = request(text, 2, 0xbeef, 500).apply(&mut slot, at(200)).unwrap();
        let stored = match stored.len() {
            1 => Stored::Text(stored.remove(0)),
            _ => Stored::List(stored),
        };
        let record = slot.unwrap();
        assert_eq!(record.stored(), stored, "{text}");
        assert_eq!(Record::read(&stored), Ok(record), "{text}");
    }
}

/// D11: the same answer, charged once, until it is no longer remembered.
#[test]
fn d11_a_remembered_request_gets_the_same_answer() {
    for text in LIMITS {
        let mut slot = None;
        _ = acquire(text, 2, &mut slot, 50);
        let request = request(text, 3, 7, 500);
        let first = request.apply(&mut slot, at(100)).unwrap();
        assert!(first.is_allowed(), "{text}");
        // Others do not make it forget, and a step back changes nothing.
        _ = acquire(text, 1, &mut slot, 300);
        let kept = slot.clone();
        for now in [300, 599, 0] {
            assert_eq!(request.apply(&mut slot, at(now)), Ok(first.clone()), "{text} at {now}");
            assert_eq!(slot, kept, "{text} at {now}");
        }
        let again = request.apply(&mut slot, at(600)).unwrap();
        assert!(again.is_allowed() && slot != kept, "{text}: a new attempt");
    }
}

/// D11: a denied request is not remembered; sent again it is a new attempt.
#[test]
fn d11_a_denied_request_is_a_new_attempt() {
    for text in LIMITS {
        let mut slot = None;
        _ = acquire(text, 10, &mut slot, 50);
        let kept = slot.clone();
        let request = request(text, 1, 7, 10_000);
        let denied = request.apply(&mut slot, at(60)).unwrap();
        assert_eq!(slot, kept, "{text}");
        let then = at(60).saturating_add(denied.retry_after().unwrap());
        assert!(request.apply(&mut slot, then).unwrap().is_allowed(), "{text}");
        assert_ne!(slot, kept, "{text}");
    }
}

/// D11: the oldest of more than eight is forgotten, as is all of it at a reset.
#[test]
fn d11_only_the_last_few_are_remembered() {
    for text in LIMITS {
        let (mut slot, limit) = (None, limit(text));
        for id in 0..=REMEMBERED_REQUESTS as u128 {
            assert!(request(text, 1, id, 500).apply(&mut slot, at(50)).unwrap().is_allowed());
        }
        let kept = slot.clone();
        assert!(request(text, 1, 1, 500).apply(&mut slot, at(50)).unwrap().is_allowed());
        assert_eq!(slot, kept, "{text}: the second is remembered");
        let denied = Acquire::new(limit, 2).unwrap().apply(&mut slot, at(50)).unwrap();
        assert!(!denied.is_allowed(), "{text}: one more fits");
        assert!(request(text, 1, 0, 500).apply(&mut slot, at(50)).unwrap().is_allowed());
        assert_ne!(slot, kept, "{text}: the first is not");

        Reset.apply(&mut slot, at(50)).unwrap();
        let decision = request(text, 1, 8, 500).apply(&mut slot, at(50)).unwrap();
        assert_eq!(decision.remaining, 9, "{text}: charged to a fresh key");
    }
}

/// D9: a record lives for its requests too, and from then on nothing of it matters.
#[test]
fn d9_a_record_lives_as_long_as_it_remembers() {
    for text in LIMITS {
        let mut slot = None;
        let [request, short] = [(7, 1 << 50), (8, 500)].map(|(id, us)| request(text, 1, id, us));
        _ = request.apply(&mut slot, at(50)).unwrap();
        let record = slot.clone().unwrap();
        let kept = 3 << 49;
        assert_eq!(record.forget_at().as_micros(), 50 + kept, "{text}: half as long again");
        assert_eq!(record.ttl_ms(at(50)), kept.div_ceil(1000), "{text}");
        assert_eq!(Record::read(&record.stored()), Ok(record), "{text}");
        // `reset_after` ends when the state is fresh (D4).
        let asked = Peek::new(limit(text), 0).apply(&mut slot, at(5000)).unwrap();
        assert_eq!((asked.remaining, asked.reset_after), (10, Duration::ZERO), "{text}");
        // Another request, whose time is over sooner, leaves the end unchanged, and the first write after it drops all.
        _ = short.apply(&mut slot, at(60)).unwrap();
        assert_eq!(slot.as_ref().unwrap().forget_at().as_micros(), 50 + kept, "{text}");
        _ = acquire(text, 1, &mut slot, 50 + kept);
        let Some(Stored::Text(head)) = slot.map(|record| record.stored()) else { continue };
        assert!(!head.contains('|'), "{head}");
    }
}

#[test]
fn an_id_of_another_cost_is_refused_and_changes_nothing() {
    for text in LIMITS {
        let mut slot = None;
        _ = request(text, 1, 7, 500).apply(&mut slot, at(50)).unwrap();
        let kept = slot.clone();
        let other = request(text, 2, 7, 500);
        assert_eq!(other.apply(&mut slot, at(60)), Err(RecordError::OperationReused), "{text}");
        assert_eq!(slot, kept, "{text}");
        // Under another limit the id means nothing.
        let changed = request("fixed-window 9/3ms", 2, 7, 500).apply(&mut slot, at(60));
        assert!(changed.unwrap().is_allowed(), "{text}");
    }
}

#[test]
fn damaged_request_ids_are_detected() {
    let id = "0000000000000000000000000000c0de";
    let all = |head: &str, one: &str, count: usize| format!("|q {head}{}", one.repeat(count));
    let one = &format!("|{id} 600 3 100 50 1");
    let of = |one: &str| all("850 1", one, 1);
    for broken in [
        "|",
        "|x",
        "x",
        "||",
        one,
        "|q 850 0",
        "|q 850 1",
        &all("850 0", one, 1),
        &all("850 2", one, 1),
        &all("850", one, 1),
        &all("850 1 1", one, 1),
        &all("9007199254740992 1", one, 1),
        &all("850 8", one, 8),
        &all("850 0", one, 9),
        &of(&format!("{one}|")),
        &of(&format!("|{id}")),
        &of(&format!("|{id} 600 3")),
        &of(&format!("|{id} 600 3 100")),
        &of(&format!("|{id} 600 3 100 50")),
        &of(&format!("|{id} 600 3 100 50 1 1")),
        &of(&format!("|{id} 600 3 100 50 1 ")),
        &of(&format!("|{id} 600 3  100 50 1")),
        &of(&format!("|{id} 600 3 100 50 0x1")),
        &of(&format!("|{id} 600 -3 100 50 1")),
        &of(&format!("|{} 600 3 100 50 1", id.to_uppercase())),
        &of(&format!("|{} 600 3 100 50 1", &id[1..])),
        &of(&format!("|{id} 600 0 100 50 1")),
        &of(&format!("|{id} 600 10 100 50 1")),
        &of(&format!("|{id} {} 3 100 50 1", u64::MAX)),
        &of(&format!("|{id} 600 3 {} 50 1", u64::MAX)),
    ] {
        let stored = Stored::Text(format!("F1 10 1000 50 4{broken}"));
        assert_eq!(Record::read(&stored), Err(RecordError::Damaged), "{stored:?}");
    }
    for right in ["", &of(one), &all("850 7", one, 7), &all("850 0", one, 8), &all("850 7", one, 8)]
    {
        let stored = Stored::Text(format!("F1 10 1000 50 4{right}"));
        assert_eq!(Record::read(&stored).unwrap().stored(), stored);
    }
    for told in ["", " 1", " 8 50", " 1 50 1", " 1 18446744073709551615"] {
        let head = format!("L1 10 1000 4 100|q 850 1|{id} 600 3 100{told}");
        let stored = Stored::List(vec![head, "50".into(), "100:3".into()]);
        assert_eq!(Record::read(&stored), Err(RecordError::Damaged), "{stored:?}");
    }
}

#[test]
fn an_id_is_sent_with_how_long_to_remember_it() {
    let request = request(LIMITS[0], 3, 0xc0de, 500);
    let call = Encoded::from(request.encode_text()).at(CallTime::Store);
    let all: Vec<&str> = call.arguments().map(|text| core::str::from_utf8(text).unwrap()).collect();
    let id = "0000000000000000000000000000c0de:500";
    assert_eq!(all, ["", "0", id, "F1", "10", "1000", "3"]);
    let numbers = |all: &[f64]| all.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    let id = 0xc0de_u128.to_be_bytes();
    let packed = [&numbers(&[10.0, 1000.0, 3.0])[..], b"|", &id, &numbers(&[500.0])].concat();
    let call = request.encode().at(CallTime::Store);
    assert_eq!(call.arguments().collect::<Vec<_>>(), [packed]);
}

#[test]
fn times_to_remember_are_checked() {
    let acquire = Acquire::new(limit(LIMITS[0]), 1).unwrap();
    let with = |remember| acquire.with_request(RequestId::from_u128(1), remember);
    assert!(matches!(with(Duration::ZERO), Err(ConfigError::Zero { .. })));
    assert!(matches!(with(Duration::from_nanos(1500)), Err(ConfigError::SubMicrosecond { .. })));
    let longest = Duration::from_micros(1 << 50);
    let refused = with(longest + Duration::from_micros(1)).unwrap_err();
    assert_eq!(with(Duration::MAX).unwrap_err(), refused);
    assert_eq!(
        refused.to_string(),
        "the time to remember a request is too long: at most 1125899906842624us fits within \
         half of the longest time that is remembered, 2^50 us"
    );
    let mut slot = None;
    _ = with(longest).unwrap().apply(&mut slot, Timestamp::MAX).unwrap();
    let record = slot.unwrap();
    assert_eq!(Record::read(&record.stored()), Ok(record));
}

#[test]
fn ids_are_32_hex_digits() {
    let id = RequestId::from_u128(0xc0de << 100);
    assert_eq!(id.to_string(), "000c0de0000000000000000000000000");
    assert_eq!(id.to_string().parse(), Ok(id));
    assert_eq!("c0de".parse::<RequestId>(), Err(IdError));
}

#[test]
fn commands_say_whether_they_may_be_sent_again() {
    let text = LIMITS[0];
    let acquire = Acquire::new(limit(text), 1).unwrap();
    assert!(!acquire.is_repeatable());
    assert!(request(text, 1, 1, 1).is_repeatable());
    assert!(!AcquireEach::new(limit(text), vec![1]).unwrap().is_repeatable());
    assert!(Peek::new(limit(text), 1).is_repeatable());
    assert!(!Reset.is_repeatable());
    let lock = Lock::new(Duration::from_secs(1), Duration::from_secs(1)).unwrap();
    assert!(lock.inspect().is_repeatable());
    let (owner, id) = (OwnerId::from_u128(1), HoldId::from_u128(1));
    assert!(lock.acquire(owner, id, Timestamp::MAX).is_repeatable());
}
