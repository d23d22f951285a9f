//! Records that cannot be read, and invalid arguments.

use lockage_core::ScriptId::{
    LimiterAcquire, LimiterAdjust, LimiterPeek, LimiterReserve, LimiterReset, LimiterSettle,
};
use lockage_sim::store::RespValue;

use super::both::{Both, ID, KEY};

#[test]
fn records_that_cannot_be_read_are_refused_and_stay() {
    let Some(mut both) = Both::new() else { return };
    let one = format!("|{ID} 9000 1 5000 5000 5");
    let remembered = format!("|q 13500 1{one}");
    let head = "F1 9 1000 5000 6";
    for (record, status) in [
        (&["K1 0 0 0 0 0"][..], 1),
        (&["hello world"], 1),
        (&["Z1 9 1000 5 6"], 1),
        (&["C1 F1 9 1000 Z1 9 1000 5 6"], 1),
        (&["F2 9 1000 5 6"], 2),
        (&["C2 F1 9 1000 F1 9 1000 1 1 1 1"], 2),
        (&["C1 F1 9 1000 F2 9 1000 1 1 1 1"], 2),
        (&["F1 9 1000 5"], 4),
        (&["F1 9 1000 5 6 7"], 4),
        (&["F1 9 1000 5 -6"], 4),
        (&["F1 9 1000 5  6"], 4),
        (&["F1 9 1000 5 6 "], 4),
        (&["F1 0 1000 5 6"], 4),
        (&["F1 9 1000 5 9007199254740992"], 4),
        (&["F1 9 2251799813685249 5 6"], 4),
        (&["C1 F1 9 1000 5 6"], 4),
        (
            &[
                "C1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
            ],
            4,
        ),
        (&[&format!("{head}|")], 4),
        (&[&format!("{head}|blocked")], 4),
        (&[&format!("{head}|blocked 9007199254740992")], 4),
        (&[&format!("{head}|blocked 5|blocked 6")], 4),
        (&[&format!("{head}{remembered}|blocked 6")], 4),
        (&[&format!("{head}{remembered} 1")], 4),
        (&[&format!("{head}{}", remembered.replace(" 1 ", " t1 "))], 4),
        (&[&format!("{head}{}", remembered.replace(" 1 ", " x1 "))], 4),
        (&[&format!("{head}|q 13500 0{}", one.repeat(9))], 4),
        (&[&format!("{head}|q 13500 2{one}")], 4),
        (&[&format!("{head}{one}")], 4),
        (&[&format!("{head}|r")], 4),
        (&[&format!("{head}|r 2")], 4),
        (&[&format!("{head}|r 0 2")], 4),
        (&[&format!("{head}|r 2 2 2")], 4),
        (&[&format!("{head}|r 2 9007199254740992")], 4),
        (&[&format!("{head}|r2 2")], 4),
        (&[&format!("{head}|r 2 2|blocked 10")], 4),
        (&["L1 9 1000 6 5"], 4), // not a list
        (&["F1 9 1000 5 6", "5"], 4),
        (&["L1 9 1000 6 4999", "x"], 4),
        (&["L1 9 1000 6 4999", "1:7"], 4), // more than what counts
        (&["L1 9 1000 6 4999", "9007199254740992"], 4),
        (&["C1 L1 9 1000 L1 9 100 1 4999 1 4998", "4999"], 4),
        (&["C1 L1 9 1000 L1 9 100 1 4999 2 4999", "4999"], 4),
    ] {
        let limit = if record[0].contains('L') { "C1 L1 9 1000 L1 9 100" } else { "F1 9 1000" };
        for limit in [limit, "S1 5 5"] {
            for (script, arguments) in [
                (LimiterAcquire, format!("- {limit} 1")),
                (LimiterPeek, format!("{limit} 1")),
                (LimiterAdjust, format!("- f 1 {limit}")),
                (LimiterAdjust, format!("- b 1 {limit}")),
                (LimiterReserve, format!("{ID}:9000 {limit} 1")),
                (LimiterSettle, format!("9000 1 {limit}")),
            ] {
                both.put(record);
                if record == ["L1 9 1000 6 5"] {
                    both.put_text(record[0]);
                }
                let before = both.stored();
                assert_eq!(both.call(script, 5000, &arguments), [status], "{record:?} {arguments}");
                assert_eq!(both.stored(), before, "D12: {record:?} {arguments}");
            }
        }
    }
    both.clear();
    both.run(&["HSET", KEY, "a", "b"]);
    for (script, arguments) in [
        (LimiterAcquire, "- F1 9 1000 1"),
        (LimiterPeek, "C1 F1 9 1000 L1 9 1000 1"),
        (LimiterAdjust, "- b 1 L1 9 1000"),
        (LimiterReset, ""),
    ] {
        assert_eq!(both.call(script, 5000, arguments), [1]);
    }
}

#[test]
fn wrong_arguments_are_errors_and_write_nothing() {
    let Some(mut both) = Both::new() else { return };
    for (script, at, arguments) in [
        (LimiterAcquire, 3, "x F1 9 1000 1"),
        (LimiterAcquire, 3, &format!("{ID}:5 F1 9 1000 1 1")),
        (LimiterAcquire, 4, "-"),
        (LimiterAcquire, 4, "- F2 9 1000 1"),
        (LimiterAcquire, 4, "- K1 9 1000 1"),
        (LimiterAcquire, 5, "- F1 0 1000 1"),
        (LimiterAcquire, 6, "- F1 9 x 1"),
        (LimiterAcquire, 6, "- F1 9 2251799813685249 1"),
        (LimiterAcquire, 7, "- F1 9 1000"),
        (LimiterAcquire, 7, "- F1 9 1000 1.5"),
        (LimiterAcquire, 8, "- F1 9 1000 1 0"),
        (LimiterAcquire, 5, "- C1"),
        (LimiterAcquire, 5, "- C1 C1 F1 9 1000 F1 9 1000 1"),
        (LimiterAcquire, 8, "- C1 F1 9 1000 1"),
        (
            LimiterAcquire,
            29,
            "- C1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 F1 9 1 1",
        ),
        (LimiterPeek, 6, "F1 9 1000"),
        (LimiterPeek, 6, "F1 9 1000 1 1"),
        (LimiterPeek, 6, "F1 9 1000 -1"),
        (LimiterAdjust, 4, "- x 1 F1 9 1000"),
        (LimiterAdjust, 4, "- tf 1 F1 9 1000"),
        (LimiterAdjust, 5, "- t 0 F1 9 1000"),
        (LimiterAdjust, 5, "- u 1 F1 9 1000"),
        (LimiterAdjust, 5, "- p 9007199254740992 F1 9 1000"),
        (LimiterAdjust, 5, "- b 1125899906842625 F1 9 1000"),
        (LimiterAdjust, 5, "- t +1 F1 9 1000"),
        (LimiterAdjust, 5, "- f +0 F1 9 1000"),
        (LimiterAdjust, 5, "- f +1+ F1 9 1000"),
        (LimiterAdjust, 6, "- t 1"),
        (LimiterAdjust, 9, "- t 1 F1 9 1000 1"),
        (LimiterAdjust, 3, "x t 1 F1 9 1000"),
        (LimiterReserve, 3, "- F1 9 1000 1"),
        (LimiterReserve, 3, &format!("{ID} F1 9 1000 1")),
        (LimiterReserve, 3, &format!("r{ID}:5 F1 9 1000 1")),
        (LimiterReserve, 7, &format!("{ID}:5 F1 9 1000")),
        (LimiterReserve, 7, &format!("{ID}:5 F1 9 1000 0")),
        (LimiterReserve, 7, &format!("{ID}:5 F1 9 1000 1 1")),
        (LimiterReserve, 7, &format!("{ID}:5 F1 9 1000 =x")),
        (LimiterReserve, 7, &format!("{ID}:5 F1 9 1000 =9 1")),
        (LimiterSettle, 3, "x 1 F1 9 1000"),
        (LimiterSettle, 4, "9000 -1 F1 9 1000"),
        (LimiterSettle, 4, "9000 9007199254740992 F1 9 1000"),
        (LimiterSettle, 5, "9000 1"),
        (LimiterSettle, 8, "9000 1 F1 9 1000 1"),
    ] {
        let refused = both.refused(script, arguments);
        let expected = format!("LOCKAGE_ARGUMENT ARGV[{at}] must be ");
        assert!(refused.starts_with(&expected), "{arguments}: {refused}");
        assert_eq!(both.stored(), RespValue::Nil, "{arguments}");
    }
}
