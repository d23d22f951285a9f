//! Mistakes of files: each is found, at its place, with the right input, and all in one run.

use lockage_rules::{Format, Rules};

/// Returns the mistakes of the text, in which `^` marks their places: each `^` is before the character it points to.
fn check(format: Format, marked: &str, expected: &[&str]) {
    let mut places = Vec::new();
    let (mut line, mut column, mut text) = (1, 1, String::new());
    for character in marked.chars() {
        match character {
            '^' => places.push((line, column)),
            '\n' => {
                (line, column) = (line + 1, 1);
                text.push('\n');
            }
            other => {
                column += 1;
                text.push(other);
            }
        }
    }
    let mistakes = match Rules::parse(&text, format) {
        Ok(_) => panic!("no mistake in\n{text}"),
        Err(mistakes) => mistakes,
    };
    let found: Vec<_> = mistakes.iter().collect();
    assert_eq!(found.len(), expected.len(), "{mistakes}\n{text}");
    for (place, (mistake, expected)) in found.iter().zip(expected).enumerate() {
        assert!(mistake.message.contains(expected), "{mistake}\nnot: {expected}\n{text}");
        if let Some(place) = places.get(place) {
            assert_eq!((mistake.line, mistake.column), *place, "{mistake}\n{text}");
        }
    }
    assert_eq!(places.len(), expected.len(), "each mistake has its place\n{text}");
}

fn toml(marked: &str, expected: &[&str]) {
    check(Format::Toml, marked, expected);
}

/// A rule that is right, but for these lines.
fn rule(lines: &str) -> String {
    format!("[[rules]]\nname = 'a'\nid = 'a:{{user}}'\nlimit = 'fixed-window 5/s'\n{lines}")
}

#[test]
fn every_mistake_of_a_file_is_found_in_one_run() {
    toml(
        "^mtach = 'first'\n\
         [limits]\nfew = 'fixed-window 5/s'\nmany = 'fixed-window ^x/s'\n\
         [tiers.pro]\n^fwe = 'fixed-window 50/s'\ninherits = ^'por'\n\
         [[rules]]\nname = 'a'\nid = 'a:{user}'\nlimit = ^'fwe'\n^shadwo = true\nwhen = { tier = ^'prro' }\n\
         [[rules]]\n^name = 'a'\nid = 'a:^{user'\nlimit = 'few'\ncost = ^6\npriority = ^'urgent'\n",
        &[
            "unknown key `mtach` of the file: did you mean `match`?",
            "expected a whole number such as 100 or 1_000_000, found \"x/s\"",
            "`fwe` is no limit of `[limits]`, which has those without a tier: did you mean `few`?",
            "unknown tier `por`: did you mean `pro`?",
            "unknown limit `fwe`: did you mean `few`, or a limit such as",
            "unknown key `shadwo` of a rule: did you mean `shadow`?",
            "unknown tier `prro`: did you mean `pro`?",
            "a second rule `a`: the first one is in line 9",
            "a brace alone",
            "a cost of 6 is never admitted by `fixed-window 5/s`: expected at most 5",
            "unknown priority `urgent`: expected `low`, `normal`, `high` or `critical`",
        ],
    );
}

#[test]
fn mistakes_point_into_the_text_of_a_limit() {
    toml(&rule("").replace("fixed-window 5/s", "token-bucket 5/s ^brust 3"), &["found \"brust\""]);
    let yaml = "rules:\n- {name: a, id: \u{e9},  limit: fixed-window 5/^fortnight}\n";
    check(Format::Yaml, yaml, &["expected a duration such as"]);
    let json =
        "{\"rules\": [{\"name\": \"a\", \"id\": \"all\",\n \"limit\": \"fixed-windw ^5/s\"}]}";
    check(
        Format::Json,
        &json.replace("fixed-windw ^5", "^fixed-windw 5"),
        &["did you mean fixed-window?"],
    );
    // A text that is not written as it is read: the mistake is at its beginning.
    let escaped =
        "[[rules]]\nname = 'a'\nid = 'all'\nlimit = ^\"fixed-window\\u00205/fortnight\"\n";
    toml(escaped, &["expected a duration"]);
}

#[test]
fn syntax_errors_have_places_in_each_format() {
    toml("match = ^all\nlimits = ^first\n", &["string values must be quoted", "invalid boolean"]);
    check(Format::Yaml, "rules:\n  - {name: a\n^", &["expected ',' or '}'"]);
    check(
        Format::Json,
        "{\"rules\": [\n1,, 2]}".replace(",,", ",^,").as_str(),
        &["expected value"],
    );
    check(Format::Yaml, "rules: []\n^---\nrules: []\n", &["a second document"]);
    check(Format::Yaml, "^^a: &a [1]\n", &["unknown key", "no rules"]);
}

#[test]
fn values_of_another_kind_are_mistakes() {
    toml(
        "match = ^3\nlimits = ^'fixed-window 5/s'\ndefaults.cost = ^-1\nrules = ^'all'\n",
        &[
            "found a number",
            "expected a table for limits, found a text",
            "found -1",
            "expected a list",
        ],
    );
    toml(
        "rules = [^1, { name = ^2, id = ^true, limit = ^[], when = ^'x', stored = ^'yes', cost = ^[] }]\n",
        &[
            "expected a table for a rule",
            "expected a name",
            "expected an id",
            "expected a limit",
            "expected a table for `when`",
            "expected true or false for `stored`",
            "no cost",
        ],
    );
    toml(
        &rule(
            "shadow = ^1\nfallback = ^'local-share'\nclient = { status = ^200, fields = ^'x', policy = ^'\"' }\n\
               when.address = [^'10.0.0.1/8', ^'localhost']\nreplaces = ^'b'\ncost = ^'tokens'\n",
        ),
        &[
            "expected true or false for `shadow`",
            "unknown fallback `local-share`: expected `open`, `closed` or `local-share 4`",
            "the status 200: expected one from 400 to 599",
            "expected true or false for `fields`",
            "cannot be a name",
            "did you mean `10.0.0.0/8`?",
            "`localhost` is no address or network",
            "unknown rule `b`: did you mean `a`?",
            "unknown cost `tokens`: add `tokens = 1` to `[costs]`",
        ],
    );
}

#[test]
fn a_rule_without_a_name_is_no_suggestion() {
    toml(
        "[[rules]]\nname = 'first'\nlimit = 'blocked'\nreplaces = [^'b']\n[[rules]]\n^limit = 'blocked'\n",
        &["unknown rule `b`: expected `first`", "without a name"],
    );
}

#[test]
fn a_file_that_cannot_be_read_is_reported_with_its_cause_once() {
    let error = lockage_rules::Rules::load("no/such/file.toml").unwrap_err();
    assert!(error.to_string().starts_with("no/such/file.toml cannot be read: "), "{error}");
    assert!(std::error::Error::source(&error).is_none(), "its cause is in its text");
}

#[test]
fn duplicates_are_mistakes_in_each_format() {
    toml("match = 'all'\n^match = 'all'\nrules = []\n", &["duplicate key"]);
    check(
        Format::Yaml,
        "rules: []\nmatch: all\n^match: first\n",
        &["`match` is there already, in line 2"],
    );
    check(Format::Json, r#"{"rules": [], ^"rules": []}"#, &["`rules` is there already, in line 1"]);
    toml(
        &rule("when = { x.y = 1, ^\"x.y\" = 2 }\n"),
        &["a second condition on `x.y`: expected a list of values"],
    );
}

#[test]
fn a_rule_that_can_never_apply_is_a_mistake() {
    let first = |rules: &str| format!("match = 'first'\n{rules}");
    let rules = |rules: &[(&str, &str)]| -> String {
        let one = |(name, lines): &(&str, &str)| {
            format!(
                "[[rules]]\n{}name = '{}'\nlimit = 'fixed-window 5/s'\n{lines}\n",
                if name.starts_with('^') { "^" } else { "" },
                name.trim_start_matches('^')
            )
        };
        rules.iter().map(one).collect()
    };
    for (wide, narrow) in [
        ("", "when = { user = 'x' }"),
        ("when = { user = 'x*' }", "when = { user = 'xy', route = '/' }"),
        ("when = { user = 'x*' }", "when = { user = ['x*y', 'xa'] }"),
        ("when = { user = true }", "when = { user = '*y' }"),
        ("when = { address = '10.0.0.0/8' }", "when = { address = '10.1.0.0/16' }"),
        ("when = { user = false }", "when = { user = false, route = '/' }"),
    ] {
        let text = first(&rules(&[
            ("a", &format!("id = 'a'\n{wide}")),
            ("^b", &format!("id = 'b'\n{narrow}")),
        ]));
        toml(&text, &["takes all of its requests"]);
    }
    for (one, other) in [
        ("when = { user = 'x' }", ""),
        ("when = { user = 'xy*' }", "when = { user = 'x*' }"),
        ("when = { user = 'x' }", "when = { route = 'x' }"),
        ("when = { user = 'x*' }", "when = { user = ['xy', 'z'] }"),
        ("when = { user = true }", "when = { user = false }"),
        ("exact = true\nwhen = { user = 'x' }", "when = { user = 'x' }"),
        ("when = { address = '10.1.0.0/16' }", "when = { address = '10.0.0.0/8' }"),
    ] {
        let text = first(&rules(&[
            ("a", &format!("id = 'a'\n{one}")),
            ("b", &format!("id = 'b'\n{other}")),
        ]));
        Rules::parse(&text, Format::Toml).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    }
    // A rule whose id needs a value takes only requests that have it.
    let text = first(&rules(&[("a", "id = 'a:{user}'"), ("b", "id = 'b'")]));
    Rules::parse(&text, Format::Toml).unwrap();
    let text = first(&rules(&[("a", "id = 'a:{user}'"), ("^b", "id = 'b:{user}'")]));
    toml(&text, &["can never apply"]);
    // Where all rules apply, only one with the same id takes all.
    Rules::parse(&rules(&[("a", "id = 'a:{user}'"), ("b", "id = 'b:{user}'")]), Format::Toml)
        .unwrap();
    toml(&rules(&[("a", "id = 'a:{user}'"), ("^b", "id = 'a:{user}'")]), &["can never apply"]);
    toml(&rules(&[("^a", "id = 'a:{user}'\nwhen = { user = false }")]), &["can never match"]);
    toml(&rules(&[("a", "id = 'a'\nwhen = { user = ^[] }")]), &["can never match"]);
}

#[test]
fn one_id_has_one_limit() {
    let two = |ids: [&str; 2], when: &str, second: &str| {
        format!(
            "[[rules]]\nname = 'a'\nid = '{}'\nlimit = 'fixed-window 5/s'\nwhen = {{ {when} }}\n\
             [[rules]]\nname = 'b'\nid = ^'{}'\n{second}\n",
            ids[0], ids[1]
        )
    };
    let problem = ["`a` in line 2 counts on such ids too"];
    for ids in [["u:{user}", "u:{user}"], ["{x}:{user}", "u:{user}"], ["u:7", "u:{user}"]] {
        toml(&two(ids, "route = '/a'", "limit = 'fixed-window 6/s'"), &problem);
        toml(&two(ids, "user = 'x'", "stored = true"), &problem);
        for right in [
            two(ids, "route = '/a'", "limit = 'fixed-window 5/s'"),
            two(ids, "user = 'x'", "limit = 'fixed-window 6/s'"),
            two(ids, "route = '/a'", "limit = 'unlimited'"),
        ] {
            let text = right.replace('^', "");
            Rules::parse(&text, Format::Toml)
                .unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
        }
    }
    for ids in [["u:{user}", "v:{user}"], ["u:{user}", "u:{user},x"], ["u:{user},{x}", "u:{user}"]]
    {
        let text = two(ids, "route = '/a'", "limit = 'fixed-window 6/s'").replace('^', "");
        Rules::parse(&text, Format::Toml).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    }
    toml(
        "limits.x = 'fixed-window 1/s'\ntiers.pro.x = 'fixed-window 2/s'\n\
         [[rules]]\nname = 'a'\nid = ^'all'\nlimit = 'x'\n",
        &["the limit differs by tier, and all tiers would count on one id"],
    );
}

#[test]
fn tiers_names_and_costs_are_checked() {
    toml(
        "[limits]\n^unlimited = 'fixed-window 1/s'\n^'a b' = 'fixed-window 1/s'\n\
         [tiers]\n^a.inherits = 'b'\n^b.inherits = 'a'\nc.inherits = 'd'\nd = {}\n[[rules]]\n^^id = 'x'\n",
        &[
            "`unlimited` cannot be the name of a limit",
            "`a b` cannot be the name of a limit",
            "tiers that inherit from each other: a, b",
            "tiers that inherit from each other: b, a",
            "without a name",
            "without a limit",
        ],
    );
}

#[test]
fn costs_fit_their_limit() {
    let both = rule("").replace("5/s", "5/s + token-bucket 10/min");
    toml(
        &format!("{both}cost = ^[1, 2, 3]\n"),
        &["3 costs for `fixed-window 5/s + token-bucket 10/min"],
    );
    toml(
        &format!("{both}cost = ^[1, 11]\n"),
        &["a cost of 11 is never admitted by `token-bucket 10/min"],
    );
    toml(&format!("{both}cost = ^[0, 0]\n"), &["a cost of 0"]);
    toml(&rule("cost = ^0\n"), &["a cost of 0"]);
    toml(&rule("fallback = ^'local-share 6'\n"), &["no share of `fixed-window 5/s` of rule `a`"]);
    Rules::parse(&format!("{both}cost = [0, 10]\n"), Format::Toml).unwrap();
}

#[test]
fn rules_that_replace_each_other_are_a_mistake() {
    let text = "rules = [\n{ name = 'a', id = 'a', limit = 'fixed-window 1/s', replaces = ^'b' },\n\
                { name = 'b', id = 'b', limit = 'fixed-window 1/s', replaces = ^'a' },\n\
                { name = 'c', id = 'c', limit = 'fixed-window 1/s', replaces = ^'c' }]\n";
    toml(text, &["replace each other", "replace each other", "`c` replaces itself"]);
}

#[test]
fn ids_are_checked() {
    for (id, problem) in [
        ("a:^{user", "a brace alone"),
        ("a:^}", "a brace alone"),
        ("a:^{}", "no key"),
        ("a:^{user|}", "an empty default"),
        ("a:{user}^{route}", "expected `,` or `:` or the end after `{user}`"),
        ("a:{user}^/{route}", "expected `,` or `:`"),
        ("a:{address}^:{route}", "expected `,` or the end after `{address}`"),
        ("", "an empty id"),
    ] {
        let marked = rule("").replace("a:{user}", id);
        toml(&if id.is_empty() { marked.replace("''", "^''") } else { marked }, &[problem]);
    }
    let missing = rule("").replace("id = 'a:{user}'\n", "").replace("name", "^name");
    toml(&missing, &["a rule without an id"]);
}

#[test]
fn aliases_cannot_make_a_file_large() {
    let mut text = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
    for level in ["ab", "bc", "cd", "de", "ef", "fg", "gh"] {
        let (below, own) = level.split_at(1);
        text += &format!("{own}: &{own} [{}]\n", vec![format!("*{below}"); 10].join(", "));
    }
    let mistakes = Rules::parse(&text, Format::Yaml).unwrap_err();
    assert!(mistakes.to_string().contains("aliases of aliases"), "{mistakes}");
    let text = "rules:\n- {name: &n a, id: *n, limit: &l fixed-window 5/s}\n- {name: b, id: b, limit: *l}\n";
    assert_eq!(Rules::parse(text, Format::Yaml).unwrap().len(), 2);
}

#[test]
fn costs_by_name_need_the_names_of_parts() {
    toml(
        "costs.tokens = 1\n\
         [[rules]]\nname = 'a'\nid = 'a'\nlimit = 'requests: fixed-window 9/s + tokens: fixed-window 9/s'\n\
         cost = { request = 1, ^tokns = 'tokens', tokens = ^'token' }\n\
         [[rules]]\nname = 'b'\nid = 'b'\nlimit = 'fixed-window 9/s + fixed-window 9/min'\ncost = ^{ tokens = 1 }\n\
         [[rules]]\nname = 'c'\nid = 'c'\nstored = true\ncost = ^{ tokens = 1 }\n\
         [[rules]]\nname = 'd'\nid = 'd'\nlimit = 'x: fixed-window 9/s + y: fixed-window 9/min'\ncost = ^{ y = 10 }\n\
         [[rules]]\nname = 'e'\nid = 'e'\nlimit = 'x: fixed-window 9/s + y: fixed-window 9/min'\ncost = ^{}\n"
            .replace("{ request", "{ ^request")
            .as_str(),
        &[
            "unknown part `request` of `requests: fixed-window 9/s + tokens: fixed-window 9/s`: did you mean `requests`?",
            "unknown part `tokns` of",
            "unknown cost `token`: did you mean `tokens`?",
            "the parts of `fixed-window 9/s + fixed-window 9/min` have no names: expected one cost, a list by place",
            "costs by name under a stored limit without a default",
            "a cost of 10 is never admitted by `fixed-window 9/min`",
            "no cost: expected a number, or one for each part",
        ],
    );
}

#[test]
fn logs_of_one_limit_have_one_cost() {
    let shared = "share their entries: expected one cost for all of them, at least 1";
    toml(
        "costs.n = 1\n\
         [[rules]]\nname = 'a'\nid = 'a'\nlimit = 'sliding-log 9/s + sliding-log 90/h'\ncost = ^[1, 2]\n\
         [[rules]]\nname = 'b'\nid = 'b'\nlimit = 'x: sliding-log 9/s + y: fixed-window 9/s'\ncost = ^{ y = 1 }\n\
         [[rules]]\nname = 'c'\nid = 'c'\nlimit = 'sliding-log 9/s + sliding-log 90/h'\ncost = ['n', 'n']\n",
        &[shared, shared],
    );
}
