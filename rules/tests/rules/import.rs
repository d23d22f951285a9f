//! Files of other rate limiters, imported: requests meet the limits that the documentation of the others promises.

use lockage_rules::import::{Imported, envoy, limitador};
use lockage_rules::{Format, Request, RuleLimit, Rules};

/// Returns the rules, which must be valid, and what cannot be said.
fn rules(imported: Imported) -> (Rules, Vec<String>) {
    let text = &imported.rules;
    let rules =
        Rules::parse(text, Format::Yaml).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    let left_out = imported.left_out.iter().flat_map(|all| all.iter().map(ToString::to_string));
    (rules, left_out.collect())
}

fn all_of(text: &str) -> Rules {
    let (rules, left_out) = rules(envoy(text).unwrap_or_else(|mistakes| panic!("{mistakes}")));
    assert_eq!(left_out, Vec::<String>::new());
    rules
}

/// Returns the limits that the descriptors meet, with their ids.
fn meets(rules: &Rules, domain: &str, descriptors: &[&[(&str, &str)]]) -> Vec<(String, String)> {
    let requests: Vec<Request<'_>> = descriptors
        .iter()
        .map(|entries| {
            let request = Request::new().with("domain", domain);
            entries.iter().fold(request, |request, (key, value)| request.with(*key, *value))
        })
        .collect();
    let limit = |limit: &RuleLimit| match limit {
        RuleLimit::Given(limit) => limit.to_string(),
        RuleLimit::Blocked => "blocked".to_owned(),
        RuleLimit::Stored(_) => panic!("no limit is stored"),
    };
    let matched = rules.matches_each(&requests);
    matched.iter().map(|one| (limit(one.limit()), one.id.clone())).collect()
}

fn limits(rules: &Rules, domain: &str, descriptors: &[&[(&str, &str)]]) -> Vec<String> {
    meets(rules, domain, descriptors).into_iter().map(|(limit, _)| limit).collect()
}

fn limit(amount: u64, unit: &str) -> String {
    format!("rate_limit: {{unit: {unit}, requests_per_unit: {amount}}}")
}

#[test]
fn envoy_values_have_limits_of_their_own() {
    let rules = all_of(&format!(
        "domain: db\ndescriptors:\n- key: table\n  value: users\n  {}\n- key: table\n  value: default\n  {}\n",
        limit(500, "second"),
        limit(400, "SECOND")
    ));
    assert_eq!(limits(&rules, "db", &[&[("table", "users")]]), ["fixed-window 500/s"]);
    assert_eq!(limits(&rules, "db", &[&[("table", "default")]]), ["fixed-window 400/s"]);
    assert!(limits(&rules, "db", &[&[("table", "others")]]).is_empty());
    assert!(limits(&rules, "other", &[&[("table", "users")]]).is_empty());
}

#[test]
fn envoy_nested_descriptors_and_several_of_one_call() {
    let rules = all_of(&format!(
        "domain: mail\ndescriptors:\n- key: kind\n  value: offer\n  descriptors:\n  - key: to\n    {}\n- key: to\n  {}\n",
        limit(5, "day"),
        limit(100, "day")
    ));
    let (offer, to): (&[_], &[_]) = (&[("kind", "offer"), ("to", "1")], &[("to", "1")]);
    assert_eq!(limits(&rules, "mail", &[offer]), ["fixed-window 5/day"]);
    assert_eq!(
        limits(&rules, "mail", &[offer, to]),
        ["fixed-window 5/day", "fixed-window 100/day"]
    );
    assert!(limits(&rules, "mail", &[&[("kind", "offer")]]).is_empty());
    assert!(limits(&rules, "mail", &[&[("kind", "notice"), ("to", "1")]]).is_empty());
    // Each number has its own counter, and none is that of another limit.
    let ids = meets(&rules, "mail", &[offer, to, &[("to", "2")]]);
    assert!(ids[0].1 != ids[1].1 && ids[1].1 != ids[2].1);
}

#[test]
fn envoy_the_most_specific_value_decides_and_zero_blocks() {
    let rules = all_of(&format!(
        "domain: edge\ndescriptors:\n- key: ip\n  {}\n- key: ip\n  value: 192.0.2.5\n  {}\n",
        limit(10, "second"),
        limit(0, "second")
    ));
    assert_eq!(limits(&rules, "edge", &[&[("ip", "192.0.2.1")]]), ["fixed-window 10/s"]);
    assert_eq!(limits(&rules, "edge", &[&[("ip", "192.0.2.5")]]), ["blocked"]);
}

#[test]
fn envoy_descriptors_match_at_their_depth_alone() {
    let flat = all_of(&format!(
        "domain: d\ndescriptors:\n- key: a\n  value: x\n  {}\n",
        limit(300, "second")
    ));
    assert!(limits(&flat, "d", &[&[("a", "x"), ("b", "y")]]).is_empty());
    let nested = all_of(&format!(
        "domain: d\ndescriptors:\n- key: a\n  value: x\n  descriptors:\n  - key: b\n    {}\n",
        limit(300, "second")
    ));
    assert_eq!(limits(&nested, "d", &[&[("a", "x"), ("b", "y")]]), ["fixed-window 300/s"]);
}

#[test]
fn envoy_unlimited_and_shadow_mode() {
    let rules = all_of(&format!(
        "domain: d\ndescriptors:\n- key: free\n  rate_limit: {{unlimited: true}}\n- key: service\n  descriptors:\n  \
         - key: user\n    value: a\n    {}\n    shadow_mode: true\n  - key: user\n    value: b\n    {}\n",
        limit(10, "second"),
        limit(20, "second")
    ));
    assert!(limits(&rules, "d", &[&[("free", "x")]]).is_empty());
    let shadow = |user: &str| {
        let request = Request::new().with("domain", "d").with("service", "s").user(user.to_owned());
        rules.matches(&request).iter().map(|one| one.rule.shadow).collect::<Vec<_>>()
    };
    assert_eq!((shadow("a"), shadow("b"), shadow("c")), (vec![true], vec![false], vec![]));
}

#[test]
fn envoy_a_limit_replaces_another_of_the_same_call() {
    let rules = all_of(
        "domain: d\ndescriptors:\n\
         - {key: k1, value: v1, descriptors: [{key: user, value: u, rate_limit: {name: special, unit: second, requests_per_unit: 5}}]}\n\
         - {key: k2, value: v2, descriptors: [{key: user, value: u, rate_limit: {replaces: [{name: special}], unit: second, requests_per_unit: 10}}]}\n",
    );
    let (one, two): (&[_], &[_]) = (&[("k1", "v1"), ("user", "u")], &[("k2", "v2"), ("user", "u")]);
    assert_eq!(limits(&rules, "d", &[one]), ["fixed-window 5/s"]);
    assert_eq!(limits(&rules, "d", &[two]), ["fixed-window 10/s"]);
    assert_eq!(limits(&rules, "d", &[one, two]), ["fixed-window 10/s"]);
}

#[test]
fn envoy_wildcards_and_shared_counters() {
    let rules = all_of(&format!(
        "domain: d\ndescriptors:\n- key: route\n  value: /api/*/x/*/y\n  {few}\n- key: file\n  value: files/*\n  share_threshold: true\n  {few}\n\
         - key: own\n  value: files/*\n  {few}\n",
        few = limit(20, "minute")
    ));
    assert_eq!(limits(&rules, "d", &[&[("route", "/api/1/x/2/y")]]), ["fixed-window 20/min"]);
    assert!(limits(&rules, "d", &[&[("route", "/api/1/x/2/z")]]).is_empty());
    let ids =
        meets(&rules, "d", &[&[("file", "files/a")], &[("own", "files/a")], &[("own", "files/b")]]);
    assert_eq!(meets(&rules, "d", &[&[("file", "files/b")]])[0].1, ids[0].1);
    assert_ne!(ids[1].1, ids[2].1);
}

/// A descriptor that has found its value does not go back to the entry without one.
#[test]
fn envoy_does_not_go_back() {
    let rules = all_of(&format!(
        "domain: d\ndescriptors:\n- key: a\n  value: x\n  descriptors:\n  - key: b\n    {}\n- key: a\n  value: y*\n\
         - key: a\n  {}\n  descriptors:\n  - key: b\n    {}\n  - key: c\n    {}\n",
        limit(1, "second"),
        limit(2, "second"),
        limit(3, "second"),
        limit(4, "week")
    ));
    for (a, expected) in [
        ("x", [None, Some("fixed-window 1/s"), None]),
        ("y1", [None, None, None]),
        ("z", [Some("fixed-window 2/s"), Some("fixed-window 3/s"), Some("fixed-window 4/7day")]),
    ] {
        let descriptors: [&[(&str, &str)]; 3] =
            [&[("a", a)], &[("a", a), ("b", "1")], &[("a", a), ("c", "1")]];
        for (descriptor, expected) in descriptors.iter().zip(expected) {
            let found = limits(&rules, "d", &[descriptor]);
            assert_eq!(found.first().map(String::as_str), expected, "{descriptor:?}");
        }
    }
}

#[test]
fn envoy_what_cannot_be_said_is_listed_with_its_place() {
    let few = limit(20, "minute");
    let text = format!(
        "domain: d\ndescriptors:\n- key: address\n  {few}\n- key: a\n  detailed_metric: true\n  descriptors:\n  - key: a\n    {few}\n  \
         - key: b\n    quota_mode: true\n    {few}\n- key: b\n  descriptors:\n  - key: a\n    {few}\n- key: c\n  value: x*\n  {few}\n\
         - key: c\n  value: xy*\n  {few}\n",
    );
    let (rules, left_out) = rules(envoy(&text).unwrap());
    for (found, expected) in left_out.iter().zip([
        "3:3: the key `address`",
        "6:20: `detailed_metric`",
        "8:5: the second key `a`",
        "11:17: `quota_mode`",
        "15:5: a descriptor of the same keys in another order",
        "20:3: a limit that never applies",
    ]) {
        assert!(found.starts_with(expected), "{left_out:#?}");
    }
    assert_eq!((left_out.len(), rules.len()), (6, 2));
    let mistakes = envoy("descriptors:\n- key: a\n  rate_limit: {unit: fortnight, requests_per_unit: 1}\n- vlaue: a\n").unwrap_err();
    let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    for (found, expected) in
        mistakes.iter().zip(["1:1: a file without a domain", "3:22: unknown unit", "4:3: "])
    {
        assert!(found.starts_with(expected), "{mistakes:#?}");
    }
}

#[test]
fn limitador_limits_apply_if_all_conditions_and_variables_are_there() {
    let one = |conditions: &str, variables: &str| {
        let text = format!(
            "- {{namespace: n, max_value: 1, seconds: 60, conditions: [{conditions}], variables: [{variables}]}}\n"
        );
        let (rules, left_out) = rules(limitador(&text).unwrap());
        assert!(left_out.is_empty(), "{left_out:?}");
        !meets(&rules, "n", &[&[("A", "1"), ("B", "2"), ("req.method", "POST")]]).is_empty()
    };
    assert!(one("\"descriptors[0].A == '1'\"", ""));
    assert!(one(
        "\"descriptors[0]['req.method'] == \\\"POST\\\"\", \"B == '2'\"",
        "\"descriptors[0].A\""
    ));
    assert!(!one("\"descriptors[0].C == '1'\"", ""));
    assert!(!one("\"descriptors[0].A == '1'\", \"descriptors[0].B == 'x'\"", ""));
    assert!(!one("", "\"descriptors[0].C\""));
    assert!(!one("\"descriptors[0].C == '1'\"", "\"descriptors[0].A\""));
    assert!(!one("\"descriptors[0].A == '*'\"", ""));
}

#[test]
fn limitador_all_limits_of_a_namespace_apply() {
    let text = "---\n- namespace: n\n  max_value: 1000000\n  seconds: 60\n  conditions:\n  variables:\n\
                - namespace: n\n  name: posts\n  max_value: 5\n  seconds: 60\n  conditions:\n  - \"descriptors[0]['req.method'] == 'POST'\"\n  \
                variables:\n  - descriptors[0]['user_id']\n- {namespace: m, max_value: 0, seconds: 1}\n";
    let (rules, left_out) = rules(limitador(text).unwrap());
    assert!(left_out.is_empty(), "{left_out:?}");
    let (post, get): (&[_], &[_]) =
        (&[("req.method", "POST"), ("user_id", "7")], &[("req.method", "GET")]);
    assert_eq!(limits(&rules, "n", &[post]), ["fixed-window 1000000/min", "fixed-window 5/min"]);
    assert_eq!(limits(&rules, "n", &[get]), ["fixed-window 1000000/min"]);
    assert_eq!(limits(&rules, "m", &[get]), ["blocked"]);
    assert_ne!(
        meets(&rules, "n", &[post])[1].1,
        meets(&rules, "n", &[&[("req.method", "POST"), ("user_id", "8")]])[1].1
    );
}

#[test]
fn limitador_what_cannot_be_said_is_listed_with_its_place() {
    let limit = |conditions: &str, variables: &str| {
        format!(
            "- {{namespace: n, max_value: 1, seconds: 60, conditions: [{conditions}], variables: [{variables}]}}\n"
        )
    };
    let text = limit("\"descriptors[0].A != '1'\"", "")
        + &limit("\"descriptors[1].A == '1'\"", "")
        + &limit("", "\"descriptors[0].A + 'x'\"")
        + &limit("\"descriptors[0].A == '1' || true\"", "")
        + &limit("", "\"B\"")
        + &limit("", "\"B\"");
    let (rules, left_out) = rules(limitador(&text).unwrap());
    assert_eq!(rules.len(), 1);
    assert_eq!(left_out.len(), 5, "{left_out:#?}");
    for (line, left_out) in [1, 2, 3, 4, 6].iter().zip(&left_out) {
        assert!(
            left_out.starts_with(&format!("{line}:")) && left_out.contains("the limit `n 1/60s`"),
            "{left_out}"
        );
    }
    let mistakes = limitador("- {namespace: n, secnds: 60}\n").unwrap_err().to_string();
    assert!(
        mistakes.contains("did you mean `seconds`?") && mistakes.contains("without `max_value`"),
        "{mistakes}"
    );
}
