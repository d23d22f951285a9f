//! The language of rules: which limits a request meets.

use lockage_rules::{Costs, Format, Matched, Priority, Request, RuleFallback, RuleLimit, Rules};

const SAAS: &str = include_str!("../../files/saas.toml");
const LLM: &str = include_str!("../../files/llm.yaml");
const FIRST: &str = include_str!("../../files/first.json");

fn toml(text: &str) -> Rules {
    Rules::parse(text, Format::Toml).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// Returns rule, id, limit and cost of each limit that the request meets.
fn meets(rules: &Rules, request: &Request<'_>) -> Vec<String> {
    rules.matches(request).iter().map(line).collect()
}

fn line(matched: &Matched) -> String {
    let limit = match matched.limit() {
        RuleLimit::Given(limit) => limit.to_string(),
        RuleLimit::Stored(None) => "stored".to_owned(),
        RuleLimit::Stored(Some(limit)) => format!("stored, or {limit}"),
        RuleLimit::Blocked => "blocked".to_owned(),
    };
    let costs = match &matched.costs {
        Costs::One(cost) => cost.to_string(),
        Costs::Parts(costs) => format!("{costs:?}"),
    };
    format!("{}: {} {limit} x {costs}", matched.rule.name, matched.id)
}

fn names(rules: &Rules, request: &Request<'_>) -> Vec<String> {
    rules.matches(request).iter().map(|matched| matched.rule.name.clone()).collect()
}

#[test]
fn tiers_choose_among_limits_of_one_name() {
    let rules = toml(SAAS);
    let request = || Request::new().route("/search").method("GET").user("42").tenant("acme");
    let organisation = |limit: &str| format!("organisation: organisation:acme {limit} x 1");
    // Without a tier, or with one that is unknown, those of `[limits]`.
    for request in [request(), request().tier("free"), request().tier("platinum")] {
        assert_eq!(
            meets(&rules, &request),
            [
                "searches: user:42 token-bucket 60/min burst 10 x 5".to_owned(),
                organisation("token-bucket 600/min burst 600")
            ]
        );
    }
    for tier in ["pro", "enterprise"] {
        assert_eq!(
            meets(&rules, &request().tier(tier)),
            [
                "searches: user:42 token-bucket 600/min burst 100 x 5".to_owned(),
                organisation("token-bucket 6000/min burst 6000")
            ]
        );
    }
    let export = || Request::new().route("/exports/7").method("POST").user("42");
    assert_eq!(names(&rules, &export().tier("pro")), ["exports", "requests"]);
    // Unlimited for this tier: no limit, and no other rule has its ids.
    assert_eq!(names(&rules, &export().tier("enterprise")), ["requests"]);
    assert_eq!(names(&rules, &Request::new().address([198, 51, 100, 1])), ["anonymous"]);
}

#[test]
fn settings_come_from_the_rule_or_the_defaults() {
    let rules = toml(SAAS);
    let export =
        Request::new().route("/exports/7").method("POST").user("42").address([192, 0, 2, 9]);
    let matched = rules.matches(&export);
    let [banned, exports, requests] = &matched[..] else { panic!("{matched:?}") };
    assert_eq!(*banned.limit(), RuleLimit::Blocked);
    let [banned, exports, requests] = [banned, exports, requests].map(|matched| &matched.rule);
    assert_eq!((banned.client.status, banned.client.fields), (Some(403), false));
    assert_eq!((exports.priority, requests.priority), (Some(Priority::Low), None));
    assert_eq!(exports.fallback, Some(RuleFallback::LocalShare(4)));
    assert_eq!(exports.client.policy, "exports");
    assert!(exports.client.message.as_ref().unwrap().starts_with("five exports"));
    assert!(!exports.shadow);
}

#[test]
fn costs_are_numbers_or_given_by_the_program_and_one_for_each_part() {
    let rules = Rules::parse(LLM, Format::Yaml).unwrap();
    assert_eq!(rules.costs().collect::<Vec<_>>(), ["tokens"]);
    let chat = Request::new().route("/v1/chat").method("POST").user("42");
    let parts = |request: &Request<'_>| match &rules.matches(request)[0].costs {
        Costs::Parts(costs) => costs.to_vec(),
        costs => panic!("{costs:?}"),
    };
    assert_eq!(parts(&chat), [1, 1000, 1000]);
    assert_eq!(parts(&chat.cost("tokens", 950)), [1, 950, 950]);
    let preview = Request::new().with("model", "small-preview");
    assert_eq!(
        meets(&rules, &preview),
        [
            "models: model:small-preview,user:anonymous stored, or sliding-window 1000/h kept 1day x 1"
        ]
    );
    assert!(rules.matches(&preview)[0].rule.shadow);
    assert!(rules.matches(&Request::new().with("model", "small")).is_empty());
}

#[test]
fn costs_by_name_are_of_the_parts_of_each_tier() {
    let rules = toml(
        "[limits]\n\
         chat = 'requests: fixed-window 9/min + tokens: fixed-window 99/min'\n\
         [tiers.pro]\n\
         chat = 'day: fixed-window 999/day + tokens: fixed-window 500/min + requests: fixed-window 90/min'\n\
         [tiers.free]\nchat = 'blocked'\n[tiers.staff]\nchat = 'unlimited'\n\
         [costs]\ntokens = 10\n\
         [[rules]]\nname = 'chat'\nid = 'chat:{tier|none}'\nlimit = 'chat'\n\
         cost = { tokens = 'tokens', requests = 1 }\n",
    );
    let costs = |request: Request<'static>| match rules.matches(&request).as_slice() {
        [] => None,
        [one] => Some(one.costs.clone()),
        more => panic!("{more:?}"),
    };
    let parts = |costs: &[u64]| Some(Costs::Parts(costs.iter().copied().collect()));
    assert_eq!(costs(Request::new().cost("tokens", 7)), parts(&[1, 7]));
    // A part that is not named costs nothing.
    assert_eq!(costs(Request::new().tier("pro")), parts(&[0, 10, 1]));
    assert_eq!(costs(Request::new().tier("free")), Some(Costs::One(1)));
    assert_eq!(costs(Request::new().tier("staff")), None);
    // By default, for all rules; and dotted.
    let rules = toml(
        "defaults.cost.b = 3\n[[rules]]\nname = 'x'\nid = 'x'\nstored = true\n\
         limit = 'a: fixed-window 9/s + b: sliding-log 9/s'\n",
    );
    assert_eq!(meets(&rules, &Request::new()).len(), 1);
    assert_eq!(rules.matches(&Request::new())[0].costs, Costs::Parts([0, 3].into_iter().collect()));
}

#[test]
fn the_first_match_decides_if_the_file_says_so() {
    let rules = Rules::parse(FIRST, Format::Json).unwrap();
    let request = Request::new().address([10, 1, 2, 3]).header("X-Partner", "acme");
    assert!(rules.matches(&request).is_empty());
    let request = Request::new().address([198, 51, 100, 1]).header("X-Partner", "acme");
    assert_eq!(meets(&rules, &request), ["partners: partner:acme fixed-window 1000/min x 1"]);
    let request = Request::new().address([198, 51, 100, 1]);
    assert_eq!(meets(&rules, &request), ["others: ip:198.51.100.1 fixed-window 60/min x 1"]);
}

#[test]
fn one_file_in_three_formats_is_one() {
    let json = serde_json::json!({
        "limits": { "few": "fixed-window 5/s" },
        "rules": [{
            "name": "a", "when": { "header": { "x-plan": ["gold", "\u{1f600}*"] }, "n": 3 },
            "id": "u:{user}", "limit": "few", "cost": 2,
        }],
    });
    let yaml = "limits: {few: fixed-window 5/s}\nrules:\n- name: a\n  when: {header.X-Plan: [gold, \"\u{1f600}*\"], n: 3}\n  \
                id: u:{user}\n  limit: few\n  cost: 2\n";
    let toml = "limits.few = 'fixed-window 5/s'\n[[rules]]\nname = 'a'\nid = 'u:{user}'\nlimit = 'few'\ncost = 0x2\n\
                [rules.when]\nn = 3\nheader.x-plan = ['gold', '\u{1f600}*']\n";
    let spaced = serde_json::to_string_pretty(&json).unwrap().replace("  ", "\t");
    let escaped = spaced.replace('\u{1f600}', "\\ud83d\\ude00");
    for (text, format) in [
        (json.to_string().as_str(), Format::Json),
        (&spaced, Format::Json),
        (&escaped, Format::Json),
        (yaml, Format::Yaml),
        (&format!("\u{feff}{yaml}"), Format::Yaml),
        (toml, Format::Toml),
    ] {
        let rules = Rules::parse(text, format).unwrap_or_else(|error| panic!("{error}\n{text}"));
        for plan in ["gold", "\u{1f600}!"] {
            let request = Request::new().header("x-plan", plan).with("n", "3").user("7");
            assert_eq!(meets(&rules, &request), ["a: u:7 fixed-window 5/s x 2"], "{text}");
        }
    }
}

/// Returns whether the condition holds for the value.
fn holds(condition: &str, request: Request<'_>) -> bool {
    let text = format!(
        "[[rules]]\nname = 'a'\nid = 'all'\nlimit = 'fixed-window 5/s'\nwhen = {{ {condition} }}\n"
    );
    !toml(&text).matches(&request).is_empty()
}

#[test]
fn conditions_are_values_wildcards_networks_presence_and_absence() {
    let route = |route: &'static str| Request::new().route(route);
    for (pattern, yes, no) in [
        ("/a", vec!["/a"], vec!["/", "/a/", "/b", ""]),
        ("/a/*", vec!["/a/", "/a/b", "/a/b/c"], vec!["/a", "x/a/"]),
        ("*.png", vec![".png", "/a.png"], vec!["/a.png2", "png"]),
        ("/a/*/b", vec!["/a//b", "/a/x/y/b"], vec!["/a/b", "/a/x/b/"]),
        ("/*/x/*/y", vec!["/1/x/2/y", "/1/x/2/x/3/y"], vec!["/1/x/y", "/1/2/y"]),
        ("*a*", vec!["a", "bab"], vec!["b"]),
        ("*", vec!["a"], vec![""]),
        ("aba*aba", vec!["abaaba", "aba-aba"], vec!["aba", "ababa"]),
        (r"a\\*", vec!["a*"], vec!["ab", "a"]),
    ] {
        for (values, expected) in [(yes, true), (no, false)] {
            for value in values {
                let condition = format!("route = \"{pattern}\"");
                assert_eq!(holds(&condition, route(value)), expected, "{pattern:?} {value:?}");
            }
        }
    }
    assert!(holds("route = ['/a', '/b*']", route("/bc")));
    assert!(
        holds("user = true", Request::new().user("x")) && !holds("user = true", Request::new())
    );
    assert!(
        !holds("user = false", Request::new().user("x")) && holds("user = false", Request::new())
    );
    let address =
        |address: &str| Request::new().address(address.parse::<std::net::IpAddr>().unwrap());
    for (network, yes, no) in [
        ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
        ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
        ("192.0.2.7", "::ffff:192.0.2.7", "::1"),
        ("2001:db8::/32", "2001:db8:1::1", "2001:db9::1"),
        ("0.0.0.0/0", "1.2.3.4", "::1"),
    ] {
        let condition = format!("address = '{network}'");
        assert!(holds(&condition, address(yes)) && !holds(&condition, address(no)), "{network}");
        assert!(!holds(&condition, Request::new()));
    }
}

#[test]
fn a_rule_without_a_value_for_its_id_does_not_match_unless_there_is_a_default() {
    let rules = toml(
        "[[rules]]\nname = 'a'\nid = 'a:{user}'\nlimit = 'fixed-window 5/s'\n\
         [[rules]]\nname = 'b'\nid = 'b:{user|nobody},{route}'\nlimit = 'fixed-window 5/s'\n",
    );
    assert_eq!(meets(&rules, &Request::new().user("")), Vec::<String>::new());
    let request = Request::new().route("/x");
    assert_eq!(meets(&rules, &request), ["b: b:nobody,/x fixed-window 5/s x 1"]);
}

#[test]
fn values_cannot_make_the_id_of_others() {
    let rules = toml(
        "[[rules]]\nname = 'a'\nid = 'a:{user},{tenant}'\nlimit = 'fixed-window 5/s'\n\
         [[rules]]\nname = 'ip'\nid = 'ip:{address},{user}'\nlimit = 'fixed-window 5/s'\n",
    );
    let id = |user: &str, tenant: &str| {
        let request = Request::new().user(user.to_owned()).tenant(tenant.to_owned());
        rules.matches(&request)[0].id.clone()
    };
    assert_eq!(id("a,b", "c"), "a:a%2Cb,c");
    assert_ne!(id("a,b", "c"), id("a", "b,c"));
    assert_ne!(id("a%2Cb", "c"), id("a,b", "c"));
    assert_eq!(id("}{:#\u{e9} ", "c"), "a:%7D%7B%3A%23%C3%A9%20,c");
    let (long, longer) = ("x".repeat(64), "x".repeat(65));
    assert_eq!(id(&long, "c"), format!("a:{long},c"));
    assert_eq!(id(&longer, "c").len(), 2 + 33 + 2);
    let address: std::net::IpAddr = "2001:db8:1:2:3::4".parse().unwrap();
    let request = Request::new().address(address).user("7");
    assert_eq!(rules.matches(&request)[0].id, "ip:2001:db8:1:2::/64,7");
}

#[test]
fn of_rules_with_one_id_the_first_that_matches_charges_it() {
    let rules = toml(
        "[[rules]]\nname = 'internal'\nwhen = { user = 'robot-*' }\nid = 'user:{user}'\nlimit = 'unlimited'\n\
         [[rules]]\nname = 'write'\nwhen = { method = 'POST' }\nid = 'user:{user}'\nlimit = 'fixed-window 9/s'\ncost = 3\n\
         [[rules]]\nname = 'read'\nid = 'user:{user}'\nlimit = 'fixed-window 9/s'\n",
    );
    let request =
        |method: &'static str, user: &'static str| Request::new().method(method).user(user);
    assert_eq!(names(&rules, &request("POST", "7")), ["write"]);
    assert_eq!(names(&rules, &request("GET", "7")), ["read"]);
    assert!(names(&rules, &request("GET", "robot-1")).is_empty());
}

#[test]
fn a_rule_replaces_others_also_those_that_match_another_descriptor() {
    let rules = toml(
        "[[rules]]\nname = 'reads'\nwhen = { kind = 'read' }\nid = 'reads:{user}'\nlimit = 'fixed-window 9/s'\n\
         [[rules]]\nname = 'search'\nwhen = { path = '/search' }\nid = 'search:{user}'\nlimit = 'fixed-window 99/s'\n\
         replaces = 'reads'\n",
    );
    let reads = Request::new().with("kind", "read").user("7");
    let search = Request::new().with("path", "/search").user("7");
    assert_eq!(names(&rules, &reads), ["reads"]);
    assert_eq!(names(&rules, &reads.clone().with("path", "/search")), ["search"]);
    let both = rules.matches_each(&[reads, search]);
    assert_eq!(both.iter().map(|matched| &matched.rule.name).collect::<Vec<_>>(), ["search"]);
}

#[test]
fn an_exact_rule_matches_no_request_that_says_more() {
    let rules = toml(
        "[[rules]]\nname = 'a'\nexact = true\nwhen = { x = '1' }\nid = 'a:{y|none}'\nlimit = 'fixed-window 5/s'\n",
    );
    let x = Request::new().with("x", "1");
    assert_eq!(names(&rules, &x), ["a"]);
    assert_eq!(names(&rules, &x.clone().with("y", "2")), ["a"]);
    for more in [x.clone().with("z", "2"), x.clone().header("y", "2"), x.address([1, 2, 3, 4])] {
        assert!(names(&rules, &more).is_empty(), "{more:?}");
    }
}
