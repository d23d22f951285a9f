//! Every parser and decoder, on bytes of any kind and on near misses: the short slice of the fuzzing.

use lockage_oracle::properties::cases;
use proptest::prelude::*;

// Public there, to the targets.
#[allow(unreachable_pub)]
#[path = "../../../fuzz/src/checks.rs"]
mod checks;

/// Valid inputs, for changes in one place.
const RIGHT: [&str; 16] = [
    "sliding-log 3/7s + fixed-window 20/3600s",
    "token-bucket 8 every 2s burst 8 per client kept 1h",
    "F1 10 60000000 1763700000123456 3",
    "M2 1763700000000000 0 0|g0000000000000000000000000000a11c 2 1763700000000000 1763700030000000 0",
    "K2 0000000000000000000000000000a11c 1763700030000000 1763700000000000 1763700090000000 0 0 0 web-1/77|0000000000000000000000000000a11c 1763700001000000",
    "K2 00000000000000000000000000000000 0 0 1763700090000000 0 0 7||r0000000000000000000000000000a11c 8 1 2>0000000000000000000000000000a11c 7",
    "V1 4 1763700000005842 =value",
    "P1 o 5 1763700060123456 F1 10 60000000 1763700000123456 3",
    "127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 2326\n",
    "timestamp,key,cost\n2026-03-02T09:00:00Z,alice,2\n",
    "seed = 7\nlimits = [\"token-bucket 2/s burst 40\"]\n[traffic]\nshape = \"poisson 20/s\"\n",
    "on-off 100/s for 1s, 1/s for 9s",
    "flash-crowd 2/s peak 200/s at 2min half-life 30s",
    "500 zipf 1.1",
    "1:95% 10:5%",
    "[[rules]]\nname = \"a\"\nid = \"a:{user}\"\nlimit = \"fixed-window 5/s\"\n",
];

fn data() -> impl Strategy<Value = Vec<u8>> {
    let nearly =
        (0..RIGHT.len(), 0..200_usize, any::<u8>(), 0..3_u8).prop_map(|(which, at, byte, how)| {
            let mut data = RIGHT[which].as_bytes().to_vec();
            let at = at % data.len();
            match how {
                0 => data[at] = byte,
                1 => data.insert(at, byte),
                _ => data.truncate(at),
            }
            data
        });
    let ascii = "[ -~\n]{0,80}".prop_map(String::into_bytes);
    prop_oneof![4 => nearly, 1 => ascii, 1 => prop::collection::vec(any::<u8>(), 0..80)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(2_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// D12, and a parsed value is written in a form that is read as the same.
    #[test]
    fn nothing_that_is_read_is_too_wrong_for_an_error(data in data()) {
        checks::limits(&data);
        checks::records(&data);
        checks::replies(&data);
        checks::calls(&data);
        checks::traces(&data);
        checks::scenarios(&data);
        checks::rules(&data);
    }
}

/// Valid inputs are read, as a baseline for near misses.
#[test]
fn valid_inputs_parse() {
    use lockage_core::{Limit, Record, Stored, StoredLimit};
    assert!(RIGHT[0].parse::<Limit>().is_ok() && RIGHT[1].parse::<StoredLimit>().is_ok());
    for text in &RIGHT[2..8] {
        let read = Record::read(&Stored::Text((*text).to_owned()));
        assert!(read.is_ok(), "{text}: {read:?}");
    }
    for text in &RIGHT[10..11] {
        text.parse::<lockage_sim::scenario::Scenario>().unwrap();
    }
}
