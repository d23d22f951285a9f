//! The index against each rule by itself, and globs against their definition.

use lockage_rules::{Format, Request, Rules};
use proptest::prelude::*;

/// Returns whether the pattern matches, by its definition.
fn is_match(pattern: &[u8], value: &[u8]) -> bool {
    match pattern.split_first() {
        None => value.is_empty(),
        Some((b'*', rest)) => (0..=value.len()).any(|taken| is_match(rest, &value[taken..])),
        Some((first, rest)) => value.first() == Some(first) && is_match(rest, &value[1..]),
    }
}

fn rule(number: usize, when: &str) -> String {
    format!(
        "[[rules]]\nname = 'r{number}'\nid = 'r{number}'\nlimit = 'fixed-window 9/s'\nwhen = {{ {when} }}\n"
    )
}

fn condition() -> impl Strategy<Value = String> {
    let pattern = "[ab*]{1,4}";
    let values = prop::collection::vec(pattern, 1..3);
    let network = (0..4_u8, 0..4_u8, prop::sample::select(vec![0, 8, 9, 10, 16, 32]));
    prop_oneof![
        4 => ("[xyz]", values).prop_map(|(key, values)| {
            format!("{key} = [{}]", values.iter().map(|one| format!("'{one}'")).collect::<Vec<_>>().join(", "))
        }),
        1 => ("[xyz]", any::<bool>()).prop_map(|(key, given)| format!("{key} = {given}")),
        2 => network.prop_map(|(first, second, bits)| {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            let address = std::net::Ipv4Addr::from_bits(
                u32::from_be_bytes([first, second << 6, 0, 0]) & if bits == 0 { 0 } else { mask },
            );
            format!("address = '{address}/{bits}'")
        }),
    ]
}

/// Returns conditions on different keys.
fn when() -> impl Strategy<Value = String> {
    prop::collection::vec(condition(), 0..4).prop_map(|mut conditions| {
        conditions.sort();
        conditions
            .dedup_by_key(|condition| condition.split(' ').next().unwrap_or_default().to_owned());
        conditions.join(", ")
    })
}

type Said = (Vec<(String, String)>, Option<(u8, u8)>);

fn said() -> impl Strategy<Value = Said> {
    let values = prop::collection::vec(("[xyzw]", "[ab]{0,4}"), 0..5);
    (values, prop::option::of((0..4_u8, any::<u8>())))
}

fn request((values, address): &Said) -> Request<'_> {
    let mut request = Request::new();
    for (key, value) in values {
        request = request.with(key.as_str(), value.as_str());
    }
    match address {
        Some((first, second)) => request.address([*first, *second, 0, 0]),
        None => request,
    }
}

proptest! {
    #[test]
    fn the_index_finds_the_rules_that_each_match_by_themselves(
        rules in prop::collection::vec(when(), 1..20),
        requests in prop::collection::vec(said(), 1..20),
    ) {
        let all: String = rules.iter().enumerate().map(|(number, when)| rule(number, when)).collect();
        let all = Rules::parse(&all, Format::Toml).map_err(|error| TestCaseError::fail(format!("{error}\n{all}")))?;
        let alone: Vec<Rules> = rules.iter().enumerate()
            .map(|(number, when)| Rules::parse(&rule(number, when), Format::Toml).unwrap())
            .collect();
        for said in &requests {
            let request = request(said);
            let found: Vec<_> = all.matches(&request).into_iter().map(|matched| matched.id).collect();
            let expected: Vec<_> = alone.iter().flat_map(|rules| rules.matches(&request)).map(|one| one.id).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn wildcards_match_by_their_definition(pattern in "[ab*]{1,7}", value in "[ab]{1,7}") {
        let rules = Rules::parse(&rule(0, &format!("x = '{pattern}'")), Format::Toml).unwrap();
        let matched = !rules.matches(&Request::new().with("x", value.as_str())).is_empty();
        prop_assert_eq!(matched, is_match(pattern.as_bytes(), value.as_bytes()));
    }

    /// A rule that the check calls unreachable is never the one that applies.
    #[test]
    fn the_first_match_is_the_first_that_matches_by_itself(
        rules in prop::collection::vec(when(), 1..8),
        requests in prop::collection::vec(said(), 1..20),
    ) {
        let text = |rules: &[(usize, &String)]| -> String {
            let each = rules.iter().map(|(number, when)| rule(*number, when));
            format!("match = 'first'\n{}", each.collect::<String>())
        };
        let mut kept: Vec<(usize, &String)> = rules.iter().enumerate().collect();
        let reachable = loop {
            match Rules::parse(&text(&kept), Format::Toml) {
                Ok(rules) => break rules,
                Err(mistakes) => {
                    let last = mistakes.iter().last().unwrap();
                    prop_assert!(last.message.contains("can never apply"), "{}", last);
                    kept.remove((last.line - 2) / 5);
                }
            }
        };
        for said in &requests {
            let request = request(said);
            let first = rules.iter().enumerate().find_map(|(number, when)| {
                let alone = Rules::parse(&rule(number, when), Format::Toml).unwrap();
                alone.matches(&request).first().map(|matched| matched.id.clone())
            });
            let found = reachable.matches(&request).first().map(|matched| matched.id.clone());
            prop_assert_eq!(found, first);
        }
    }
}
