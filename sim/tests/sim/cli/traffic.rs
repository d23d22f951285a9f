//! Traffic that is made up.

use super::{LIMITS, json, take_engine};

#[test]
fn both_engines_agree_on_made_up_traffic_with_costs() {
    let with = |engine| {
        let mut args = vec![
            "explore",
            "--traffic",
            "poisson 20/s",
            "--keys",
            "3",
            "--cost",
            "2",
            "--engine",
            engine,
        ];
        args.extend(LIMITS);
        let mut report = json(&args);
        take_engine(&mut report);
        report
    };
    assert_eq!(with("lua"), with("model"));
}

#[test]
fn one_seed_gives_one_report() {
    let with = |seed| {
        json(&[
            "explore",
            "--traffic",
            "poisson 5/s",
            "--seed",
            seed,
            "--keys",
            "4",
            "--limit",
            "sliding-log 5/4s",
        ])
    };
    assert_eq!(with("7"), with("7"));
    assert_ne!(with("7")["limiters"], with("8")["limiters"]);
    assert_eq!((&with("7")["seed"], &with("7")["traffic"]), (&7.into(), &"poisson 5/s".into()));
}

#[test]
fn made_up_traffic_meets_the_limit_as_arithmetic_says() {
    let admitted = |traffic, limit| {
        let report =
            json(&["explore", "--traffic", traffic, "--duration", "1min", "--limit", limit]);
        report["limiters"][0]["admitted"].as_u64().unwrap()
    };
    assert_eq!(admitted("constant 5/s", "fixed-window 60/min"), 60);
    assert_eq!(admitted("constant 5/s", "token-bucket 5/s burst 1"), 300);
    // Six bursts of 50; a bucket of 20 that is full again after 10 s.
    assert_eq!(admitted("burst 50 every 10s", "token-bucket 2/s burst 20"), 120);
}

#[test]
fn each_shape_can_be_explored_with_keys_and_costs() {
    for shape in [
        "on-off 100/s for 1s, 1/s for 9s",
        "pareto 5/s tail 1.5",
        "diurnal 1/s to 50/s every 1day",
        "ramp 1/s to 50/s over 5min",
        "steps 1/s for 1min, 10/s for 30s",
        "flash-crowd 2/s peak 200/s at 2min half-life 30s",
    ] {
        let how = ["--keys", "100 zipf 1.1", "--cost", "1:90% 10:10%", "--engine", "model"];
        let limit = ["--limit", "token-bucket 1/s burst 9"];
        let report = json(&[&["explore", "--traffic", shape][..], &how, &limit].concat());
        assert_eq!(report["traffic"], shape);
        let limiter = &report["limiters"][0];
        let count = |name: &str| limiter[name].as_u64().unwrap();
        // A tenth of them costs more than the bucket holds.
        let share = count("never") as f64 / report["requests"].as_f64().unwrap();
        assert!((0.07..0.13).contains(&share), "{shape}: {share}");
        assert!(count("admitted") > 0 && report["keys"].as_u64().unwrap() > 50, "{shape}");
    }
}
