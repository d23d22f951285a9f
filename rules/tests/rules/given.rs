//! Limits of files with their places: a limit that replaces one there is the rule's.

use lockage_rules::{Format, GivenLimit, Rules};

const BOOK: &str = include_str!("../../files/rules.toml");
const SAAS: &str = include_str!("../../files/saas.toml");
const LLM: &str = include_str!("../../files/llm.yaml");
const FIRST: &str = include_str!("../../files/first.json");

fn list(text: &str, format: Format) -> Vec<GivenLimit> {
    GivenLimit::list(text, format).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"))
}

fn line(given: &GivenLimit) -> String {
    let tier = given.tier.as_ref().map_or_else(String::new, |tier| format!(" of {tier}"));
    format!("{}{tier}: {}", given.rules.join(", "), given.limit)
}

/// Returns another limit with as many parts, of the same names.
fn other(given: &GivenLimit) -> String {
    let mut names = given.limit.part_names();
    let parts = given.limit.parts().zip(7..).map(|(_, seconds)| {
        let name = names.next().map_or_else(String::new, |name| format!("{name}: "));
        format!("{name}fixed-window 7_777_777/{seconds}s")
    });
    parts.collect::<Vec<_>>().join(" + ")
}

/// Replaces each limit alone, and checks that the file then has the new one, and all others as they were.
fn replace_each(text: &str, format: Format) {
    let before = list(text, format);
    assert!(!before.is_empty(), "{text}");
    for (place, given) in before.iter().enumerate() {
        let mut changed = text.to_owned();
        changed.replace_range(given.span.clone(), &format!("{:?}", other(given)));
        Rules::parse(&changed, format).unwrap_or_else(|mistakes| panic!("{mistakes}\n{changed}"));
        let mut expected: Vec<String> = before.iter().map(line).collect();
        let new = other(given).parse().unwrap();
        expected[place] = line(&{
            let mut given = given.clone();
            given.limit = new;
            given
        });
        assert_eq!(
            list(&changed, format).iter().map(line).collect::<Vec<_>>(),
            expected,
            "{changed}"
        );
    }
}

#[test]
fn limits_of_the_book_are_listed_by_rule_and_tier() {
    let lines: Vec<String> = list(BOOK, Format::Toml).iter().map(line).collect();
    let expected = [
        "exports: fixed-window 5/day",
        "requests: token-bucket 60/min burst 10",
        "requests of pro: token-bucket 600/min burst 100",
        "chat: requests: token-bucket 60/min burst 10 + tokens: token-bucket 90000/min burst 90000",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn shared_limit_is_listed_once_and_other_effects_are_not() {
    let text = "limits: { few: fixed-window 5/s }\n\
        rules:\n\
        - { name: a, id: 'a:{user}', limit: few }\n\
        - { name: b, id: 'b:{user}', limit: few, stored: true }\n\
        - { name: c, when: { user: x }, limit: blocked }\n\
        - { name: d, when: { user: y }, limit: unlimited }\n\
        - { name: e, id: 'e:{user}', stored: true }\n\
        - { name: f, id: 'f:{user}', stored: true, limit: fixed-window 6/s per client }\n\
        - { name: g, id: 'g:{user}', stored: true, limit: fixed-window 7/s }\n";
    let given = list(text, Format::Yaml);
    let lines: Vec<String> = given.iter().map(line).collect();
    assert_eq!(lines, ["a, b: fixed-window 5/s", "g: fixed-window 7/s"]);
    assert!(given.iter().all(|given| text[given.span.clone()].starts_with("fixed-window")));
}

#[test]
fn limit_can_be_replaced_at_its_place_in_each_format() {
    replace_each(BOOK, Format::Toml);
    replace_each(SAAS, Format::Toml);
    replace_each(LLM, Format::Yaml);
    replace_each(FIRST, Format::Json);
    replace_each(&format!("\u{feff}{BOOK}"), Format::Toml);
    let rule = |limit: &str| {
        format!(
            "# é\n[[rules]]\nname = 'a'\nid = 'a:{{user}}'\nlimit = {limit} # why\nshadow = true\n"
        )
    };
    for limit in [
        "'fixed-window 5/s'",
        "'''fixed-window 5/s'''",
        "\"\"\"\nfixed-window 5/s\"\"\"",
        "\"fixed-window \\u0035/s\"",
    ] {
        replace_each(&rule(limit), Format::Toml);
    }
    let rule = |limit: &str| {
        format!("# é\nrules:\n- name: a\n  id: 'a:{{user}}'\n  limit: {limit}\n  shadow: true\n")
    };
    for limit in [
        "fixed-window 5/s # why",
        "'fixed-window 5/s'",
        "\"fixed-window 5/s\"",
        "&few fixed-window 5/s",
        "!!str fixed-window 5/s",
    ] {
        replace_each(&rule(limit), Format::Yaml);
    }
    let surrogates = r#"{"rules": [
        {"name": "a", "id": "\ud83d\ude00,a:{user}", "limit": "fixed-window 5/s"},
        {"name": "b", "id": "b", "limit": "fixed-window 5/s"}]}"#;
    replace_each(surrogates, Format::Json);
}

#[test]
fn mistakes_are_those_of_parsing() {
    let text = "[[rules]]\nname = 'a'\nid = 'a:{user}'\nlimit = 'fixed-window 5/fortnight'\nshadwo = true\n";
    let mistakes = GivenLimit::list(text, Format::Toml).unwrap_err();
    assert_eq!(mistakes, Rules::parse(text, Format::Toml).unwrap_err());
    assert_eq!(mistakes.iter().len(), 2);
}
