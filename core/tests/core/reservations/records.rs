//! Records of reservations, and calls of their scripts.

use lockage_core::{
    Command, Record, RecordError, Reservation, Settle, Settlement, Stored, TextCall,
};

use super::{HOLD_US, Key, at, id};

#[test]
fn records_show_reservations_and_read_back() {
    for (limit, head, beside, after) in [
        (
            "fixed-window 10/1ms",
            "F1 10 1000 10000 9|r 2 2",
            "R1 0 10020 15020 2 6 10 1000 2 2 10000 10000 7",
            "R1 1 10030 20020 1 6 10 1000 2 1 0 10000 8",
        ),
        (
            "sliding-window 10/1ms",
            "S1 10 1000 0 9 10020|r 2 2",
            "R1 0 10020 15020 2 19 10 1000 2 2 10 0 7 10020",
            "R1 1 10030 20020 1 19 10 1000 2 1 0 0 8 10030",
        ),
        (
            "sliding-log 10/1ms",
            "L1 10 1000 9 10020",
            "R1 0 10020 15020 2 12 10 1000 0 0 10020 7 10010",
            "R1 1 10030 20020 1 12 10 1000 2 1 0 8 10020 0",
        ),
        (
            "token-bucket 10/1ms burst 10",
            "T1 1 100 10 880 10020|r 880 2 2 880 2 1 1 680 2 1 200",
            "R1 0 10020 15020 2 20 1 100 10 2 2 0 680 10020",
            "R1 1 10030 20020 1 20 1 100 10 2 1 0 770 10030",
        ),
    ] {
        let mut key = Key::new(limit);
        key.acquire(1, 10_000);
        let [_, second] = [key.reserve(1, 6, 10_010), key.reserve(2, 2, 10_020)];
        let beside_of = |key: &Key| match key.beside[&2].as_ref().unwrap().stored() {
            Stored::Text(text) => text,
            Stored::List(_) => panic!("a string"),
        };
        assert_eq!((&*key.head(), &*beside_of(&key)), (head, beside));
        // It lives as long as without them.
        assert!(key.slot.as_ref().unwrap().forget_at() < at(10_010 + HOLD_US), "{limit}");
        assert_eq!(key.settled(&second, 1, 10_030), 1);
        assert_eq!(beside_of(&key), after);
        assert_eq!(key.beside[&2].as_ref().unwrap().forget_at(), at(10_020 + 2 * HOLD_US));
    }
}

#[test]
fn damaged_reservations_are_found() {
    let read = |text: &str| Record::read(&Stored::Text(text.to_owned()));
    let (window, bucket) = ("F1 10 1000 10000 9|r", "T1 1 100 10 880 10020|r");
    for sound in [
        format!("{window} 2 2"),
        format!("{bucket} 880 2 2 880 2 1 1 680 2 1 200"),
        format!("{bucket} 880 2 0 0 0"),
        "R1 0 10020 15020 2 6 10 1000 2 2 10000 10000 7".to_owned(),
        "R1 1 10030 20020 1 6 10 1000 2 1 0 10000 8".to_owned(),
    ] {
        assert!(read(&sound).is_ok(), "{sound}");
    }
    let many: String = (0..9).map(|number| format!(" {number} 1 1")).collect();
    for text in [
        window.to_owned(),
        format!("{window} 2"),
        format!("{window} 0 2"),
        format!("{window} 2 2 2"),
        format!("{window} 2 9007199254740992"),
        format!("{window}2 2"),
        format!("{window} 2 2|blocked 10"),
        format!("{bucket} 2 2"),
        format!("{bucket} 880 2 2 880 2 1 1 680 2 1"),
        format!("{bucket} 880 2 2 880 2 1 1 680 2 1 201"),
        format!("{bucket} 880 2 2 880 2 1 1 880 2 1 0"),
        format!("{bucket} 880 2 2 880 2 1 1 680 1 1 200"),
        format!("{bucket} 880 2 1 880 2 1 1 680 2 1 200"),
        format!("{bucket} 880 2 50 9 9{many}"),
        "R1 0 10020 15020 2 6 10 1000 2 2 10000 10000".to_owned(),
        "R1 0 10020 15020 0 6 10 1000 2 2 10000 10000 7".to_owned(),
        "R1 0 15021 15020 2 6 10 1000 2 2 10000 10000 7".to_owned(),
        "R1 2 10020 15020 2 6 10 1000 2 2 10000 10000 7".to_owned(),
        "R1 0 10020 15020 2 7 10 1000 2 2 10000 10000 7".to_owned(),
        "R1 1 10030 20020 1 6 10 1000 2 1 0 10000".to_owned(),
        "R1 1".to_owned(),
        "R1 0 10020 15020 2 0 2 10000 7".to_owned(),
        "R1 1 112 1111111 10 0 500 51100 511120".to_owned(),
    ] {
        assert_eq!(read(&text), Err(RecordError::Damaged), "{text}");
    }
}

#[test]
fn scripts_are_called_as_documented() {
    let key = Key::new("fixed-window 10/1ms");
    let sent = |call: TextCall| {
        let all = call.arguments().map(|text| core::str::from_utf8(text).unwrap());
        all.collect::<Vec<_>>().join(" ")
    };
    let reserve = key.reservation(1, 6);
    let name = format!("{:032x}", 1);
    assert_eq!(sent(reserve.encode_text()), format!("{name}:5000 F1 10 1000 6"));
    let reserved = reserve.outcome(&[0, 10_010, 10_000, 1]).unwrap();
    let reservation = Reservation { id: id(1), cost: 6, expires_at: at(15_010) };
    assert_eq!((reserved.decision.remaining, reserved.reservation), (3, Some(reservation)));
    let settle = Settle::new(key.limit, &reservation, 2);
    assert_eq!(sent(settle.encode_text()), "15010 2 F1 10 1000");
    for (reply, settlement) in
        [(0, Settlement::Unknown), (2, Settlement::AlreadySettled), (3, Settlement::Expired)]
    {
        assert_eq!(settle.outcome(&[0, 10_020, reply]), Ok(settlement));
    }
    let settled = settle.outcome(&[0, 10_020, 1, 4, 0, 10_000, 3]).unwrap();
    let Settlement::Settled { amount, after } = settled else { panic!("{settled:?}") };
    assert_eq!((amount, after.remaining), (4, 7));
    for reply in [&[0, 10_020][..], &[0, 10_020, 4], &[0, 10_020, 1, 4], &[0, 10_020, 3, 1]] {
        assert!(settle.outcome(reply).is_err(), "{reply:?}");
    }
    assert!(reserve.is_repeatable() && settle.is_repeatable());
}
