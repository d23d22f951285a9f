//! The time of matching: prints figures, and asserts none.
//!
//! `cargo test --release -p lockage-rules --test rules -- --ignored --nocapture speed::`

use std::hint::black_box;
use std::time::Instant;

use lockage_rules::{Format, Request, Rules};

/// Returns 1,000 rules with these conditions, each with the number of its rule in place of `#`.
fn rules(when: &str) -> Rules {
    let each = (0..1_000).map(|number| {
        let when = when.replace('#', &number.to_string()).replace('@', &format!("{}.{}", number / 256, number % 256));
        format!("[[rules]]\nname = 'r{number}'\nid = 'r{number}:{{user}}'\nlimit = 'fixed-window 9/s'\nwhen = {{ {when} }}\n")
    });
    Rules::parse(&each.collect::<String>(), Format::Toml).unwrap()
}

#[test]
#[ignore = "prints figures"]
#[expect(clippy::print_stdout, reason = "the figures are for people")]
fn matching_of_1000_rules() {
    let request = |route: &'static str| {
        let request =
            Request::new().route(route).method("POST").user("u-482").tenant("t-500").tier("pro");
        request.header("x-plan", "gold").header("x-500", "1").address([10, 1, 244, 1])
    };
    println!("| conditions of each rule | match | ns |\n|---|---:|---:|");
    for (name, when, route) in [
        ("an exact route", "route = '/r/#'", "/r/500"),
        ("a route and a method", "route = '/r/#', method = 'POST'", "/r/500"),
        ("a prefix", "route = '/r/#/*'", "/r/500/x/y"),
        ("a suffix", "route = '*/r/#'", "/x/y/r/500"),
        ("a prefix and a suffix", "route = '/r/#/*/x'", "/r/500/y/x"),
        ("a tenant, all on one prefix", "route = '/r/*', tenant = 't-#'", "/r/500"),
        ("a header of its own", "header.x-# = '1'", "/r/500"),
        ("an address and a method", "address = '10.@.1', method = 'POST'", "/"),
        ("a network", "address = '10.@.0/24'", "/"),
        ("exact, and no rule matches", "route = '/r/#'", "/other"),
        ("only wildcards in the middle", "route = '*-#-*'", "/x-500-y"),
    ] {
        let rules = rules(when);
        let request = request(route);
        let matches = rules.matches(&request).len();
        let mut best = f64::MAX;
        for _ in 0..20 {
            let rounds = 2_000_u32;
            let begin = Instant::now();
            for _ in 0..rounds {
                black_box(rules.matches(black_box(&request)));
            }
            best = best.min(begin.elapsed().as_secs_f64() * 1e9 / f64::from(rounds));
        }
        println!("| {name} | {matches} | {best:.0} |");
    }
}
