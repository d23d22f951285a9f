//! Limits as the strings that people write.

use std::time::Duration;

use lockage_core::lock::Lock;
use lockage_core::{
    CalendarUnit, ConfigError, DAY, FixedWindow, HOUR, IntervalBucket, LeakyBucket, Limit, MINUTE,
    SECOND, SlidingLog, SlidingWindow, StoredLimit, TokenBucket, Zone, limit, parse_duration,
    parse_rate,
};

fn parsed(text: &str) -> Limit {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the error message of a string.
fn refused(text: &str) -> String {
    match text.parse::<Limit>() {
        Ok(limit) => panic!("{text:?} was accepted as {limit}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn common_spellings_of_limits_parse() {
    let fixed: Limit = FixedWindow::new(10, MINUTE).unwrap().into();
    for text in [
        "fixed-window 10/60s",
        "fixed-window 10/min",
        "fixed-window 10/1m",
        "fixed-window 10 / 60 s",
        "fixed-window 10 per minute",
        "  Fixed_Window\t10/60seconds ",
        "fixed-window 1_0/60_000ms",
    ] {
        assert_eq!(parsed(text), fixed, "{text}");
    }
    assert_eq!(parsed("sliding-log 5/s"), SlidingLog::new(5, SECOND).unwrap().into());
    assert_eq!(parsed("sliding-window 100/min"), SlidingWindow::new(100, MINUTE).unwrap().into());
    let bucket = TokenBucket::new(100, MINUTE, 20).unwrap();
    assert_eq!(parsed("token-bucket 100/min burst 20"), bucket.into());
    let whole = TokenBucket::new(100, MINUTE, 100).unwrap();
    assert_eq!(parsed("token-bucket 100/min"), whole.into());
    let interval: Limit = IntervalBucket::new(8, 2 * SECOND, 8).unwrap().into();
    assert_eq!(parsed("token-bucket 8 every 2s burst 8"), interval);
    assert_eq!(parsed("token-bucket 8 every 2s"), interval);
    let queue = LeakyBucket::new(10, SECOND, 20).unwrap();
    assert_eq!(parsed("leaky-bucket 10/s queue 20"), queue.into());
    assert_eq!(parsed("Leaky_Bucket 10 per s  QUEUE 2_0"), queue.into());
    let short = LeakyBucket::new(10, SECOND, 10).unwrap();
    assert_eq!(parsed("leaky-bucket 10/s"), short.into());
}

#[test]
fn several_limits_are_written_with_a_plus() {
    let (log, window) = (parsed("sliding-log 3/7s"), parsed("fixed-window 20/h"));
    for text in ["sliding-log 3/7s + fixed-window 20/3600s", "sliding-log 3/7s+fixed-window 20/h"] {
        let both = parsed(text);
        assert_eq!(both, Limit::all(&[log, window]).unwrap(), "{text}");
        assert_eq!(both.to_string(), "sliding-log 3/7s + fixed-window 20/h");
        assert_eq!((both.capacity(), both.parts().len()), (3, 2));
        assert_eq!(parsed(&both.to_string()), both);
    }
    let bursts =
        parsed("token-bucket 10/s burst 50 + token-bucket 8 every 2s + sliding-window 9/s");
    assert_eq!(bursts.capacity(), 8);
    assert_eq!(bursts.share(2).unwrap().to_string().matches(" + ").count(), 2);
    assert_eq!(Limit::all(&[log]), Ok(log));
    assert_eq!(Limit::all(&[]), Err(ConfigError::LimitCount { count: 0 }));
    assert_eq!(Limit::all(&[log; 9]), Err(ConfigError::LimitCount { count: 9 }));
    assert_eq!(Limit::all(&[bursts, log]), Err(ConfigError::Nested));
    assert!(refused("sliding-log 3/7s +").contains("column 19: expected a kind of limit"));
    assert!(refused("sliding-log 3/7s fixed-window 20/h").contains("+ and another limit"));
}

#[test]
fn a_million_a_day_is_accepted_by_every_limiter() {
    for text in [
        "fixed-window 1_000_000/day",
        "sliding-log 1_000_000/day",
        "sliding-window 1_000_000/day",
        "token-bucket 1_000_000/day",
        "token-bucket 1_000_000 every day burst 1_000_000",
        "leaky-bucket 1_000_000/day",
        "token-bucket 1_000_000/day warmup 1h",
        "in-flight 1_000_000 lease day",
    ] {
        assert_eq!(parsed(text).capacity(), 1_000_000, "{text}");
    }
}

#[test]
fn a_printed_limit_reads_as_the_same_limit() {
    for (text, printed) in [
        ("fixed-window 10/60s", "fixed-window 10/min"),
        ("fixed-window 10/90s", "fixed-window 10/90s"),
        ("sliding-log 5/1500us", "sliding-log 5/1500us"),
        ("sliding-window 7/2days", "sliding-window 7/2day"),
        ("token-bucket 100/min", "token-bucket 100/min burst 100"),
        ("token-bucket 8 every 1m30s", "token-bucket 8 every 90s burst 8"),
        ("token-bucket 8 every h burst 9", "token-bucket 8 every 1h burst 9"),
        ("token-bucket 3/week", "token-bucket 3/7day burst 3"),
        ("leaky-bucket 10/60s", "leaky-bucket 10/min queue 10"),
        ("leaky-bucket 10 per 90s queue 2", "leaky-bucket 10/90s queue 2"),
        ("gcra 100/s Warmup 10min", "token-bucket 100/s burst 100 warmup 10min"),
        (
            "token-bucket 1/s burst 1 warmup 1125899906842624us",
            "token-bucket 1/s burst 1 warmup 1125899906842624us",
        ),
        ("token-bucket 7/s burst 2 warmup 7us", "token-bucket 7/s burst 2 warmup 7us"),
        ("in-flight 50", "in-flight 50"),
        ("in-flight 50 lease 60s", "in-flight 50"),
        ("In-Flight 100_000 lease 1m30s", "in-flight 100000 lease 90s"),
        ("calendar-window 10_000 per month in UTC", "calendar-window 10000/month"),
        ("Calendar-Window 7/Week IN europe/berlin", "calendar-window 7/week in Europe/Berlin"),
        (
            "calendar-window 9/day in Etc/GMT+1+sliding-log 3/h",
            "calendar-window 9/day in Etc/GMT+1 + sliding-log 3/h",
        ),
    ] {
        assert_eq!(parsed(text).to_string(), printed);
        assert_eq!(parsed(printed), parsed(text));
    }
}

#[test]
fn a_limit_in_code_is_the_limit_of_its_text() {
    const BERLIN: Zone = Zone::named("Europe/Berlin").unwrap();
    const LOGIN: Limit = Limit::token_bucket(100, MINUTE).burst(20);
    let limits = [
        (Limit::fixed_window(10, MINUTE), limit!("fixed-window 10/60s")),
        (Limit::sliding_log(3, SECOND), limit!("sliding-log 3/s")),
        (Limit::sliding_window(5, DAY), limit!("sliding-window 5 per day")),
        (Limit::token_bucket(100, MINUTE), limit!("token-bucket 100/min")),
        (LOGIN, limit!("token-bucket 100/min burst 20")),
        (Limit::interval_bucket(8, SECOND), limit!("token-bucket 8 every s")),
        (Limit::interval_bucket(8, SECOND).burst(9), limit!("token-bucket 8 every s burst 9")),
        (
            Limit::warmup_bucket(100, SECOND, 20, HOUR).burst(10),
            limit!("token-bucket 100/s burst 10 warmup 1h"),
        ),
        (Limit::leaky_bucket(10, SECOND), limit!("leaky-bucket 10/s")),
        (Limit::leaky_bucket(10, SECOND).queue(20), limit!("leaky-bucket 10/s queue 20")),
        (Limit::in_flight(50, 30 * SECOND), limit!("in-flight 50 lease 30s")),
        (
            Limit::calendar_window(1000, CalendarUnit::Month, BERLIN),
            limit!("calendar-window 1_000/month in europe/berlin"),
        ),
        (
            Limit::all(&[Limit::sliding_log(3, SECOND), Limit::fixed_window(20, HOUR)]).unwrap(),
            limit!("sliding-log 3/s + fixed-window 20/h"),
        ),
    ];
    for (constructed, literal) in limits {
        assert_eq!(constructed, literal);
        assert_eq!(parsed(&constructed.to_string()), literal);
    }
}

/// Returns the panic message of this function.
fn panic_of(of: impl FnOnce() -> Limit + std::panic::UnwindSafe) -> String {
    *std::panic::catch_unwind(of).unwrap_err().downcast().expect("a formatted message")
}

#[test]
fn a_limit_in_code_panics_with_the_words_of_its_error() {
    let error = Limit::try_sliding_log(SlidingLog::MAX_LIMIT + 1, MINUTE).unwrap_err();
    assert_eq!(
        panic_of(|| Limit::sliding_log(SlidingLog::MAX_LIMIT + 1, MINUTE)),
        error.to_string()
    );
    assert!(error.to_string().contains("at most 1048576 fits within the 2^20 entries"), "{error}");
    assert_eq!(
        panic_of(|| Limit::fixed_window(1, MINUTE).burst(2)),
        "this limit has no burst: only a token-bucket has one"
    );
    assert_eq!(
        panic_of(|| Limit::token_bucket(1, MINUTE).queue(2)),
        "this limit has no queue: only a leaky-bucket has one"
    );
    let text = "sliding-log 10/µs + fixed-window 10/fortnight";
    let panics = panic_of(move || Limit::literal(text));
    assert!(refused(text).starts_with(&panics), "{panics}");
    assert!(panics.contains("column 37: expected a duration"), "{panics}");
}

/// D7: GCRA is the token bucket with continuous refill.
#[test]
fn gcra_is_another_word_for_a_token_bucket() {
    assert_eq!(parsed("gcra 100/min burst 20"), parsed("token-bucket 100/min burst 20"));
    assert_eq!(
        parsed("a: gcra 5/s + b: gcra 9/min").to_string(),
        "a: token-bucket 5/s burst 5 + b: token-bucket 9/min burst 9"
    );
    assert!(refused("gcra 8 every 2s").contains("column 8: expected /"));
    assert!(refused("gcr 8/s").contains("did you mean gcra?"));
}

#[test]
fn errors_show_the_position_and_the_expectation() {
    assert_eq!(
        refused(""),
        "\"\", column 1: expected a kind of limit: fixed-window, sliding-log, sliding-window, \
         token-bucket, calendar-window, in-flight, leaky-bucket or gcra, found the end"
    );
    assert_eq!(
        refused("fixed-window 10/fortnight"),
        "\"fixed-window 10/fortnight\", column 17: expected a duration such as 60s, 5min, 1h30m \
         or day, found \"fortnight\""
    );
    assert_eq!(
        refused("fixed-window 10"),
        "\"fixed-window 10\", column 16: expected / and a period, as in 10/60s, found the end"
    );
    assert_eq!(
        refused("calendar-window 10/month in Berlin"),
        "\"calendar-window 10/month in Berlin\", column 29: expected the name of a time zone, \
         found \"Berlin\": did you mean Europe/Berlin?"
    );
    assert!(refused("calendar-window 10/hour").contains("column 20: expected day, week, month"));
    assert!(refused("calendar-window 10").contains("column 19: expected / and a unit of the"));
    assert!(refused("10/s").contains("column 1: expected a kind of limit"));
    assert!(refused("in-flight 50 for 30s").contains("for in-flight lease,"));
    assert!(refused("token-bucket 5/s warmup").contains("column 24: expected a duration"));
    assert!(refused("token-bucket 5/s warmup 0s").contains("the warmup is zero"));
    assert!(refused("token-bucket 5/s warmup 14_000day").contains("the warmup is too long"));
    let large = refused("token-bucket 1_000_000_000_000_000/s burst 1 warmup 1s");
    assert!(large.contains("the burst is too large: no value fits"), "{large}");
    assert!(refused("token-bucket 5 every 1s warmup 1s").contains("column 25: expected the end"));
    assert!(refused("in-flight 0").contains("column 11: the limit is zero"));
    assert!(refused("in-flight 5 lease 36y").contains("column 19: expected a duration"));
    assert!(refused("in-flight 5 lease 14_000day").contains("the lease is too long"));
    assert!(refused("dripping-bucket 10/s").ends_with("found \"dripping-bucket\""));
    assert!(refused("slidng-windw 10/s").ends_with(": did you mean sliding-window?"));
    assert!(
        refused("token-bucket 1/s + Leakybucket 1/s").ends_with(": did you mean leaky-bucket?")
    );
    assert!(refused("leaky-bucket 10/s burst 5").contains("column 19: expected the end"));
    assert!(refused("token-bucket 10/s queue 5").contains("column 19: expected the end"));
    assert!(refused("leaky-bucket 8 every s").contains("column 16: expected / and a period"));
    // A `main` that returns it prints this.
    let error = "gcr 8/s".parse::<Limit>().unwrap_err();
    assert_eq!(format!("{error:?}"), format!("ParseError({error})"));
    assert!(refused("leaky-bucket 10/s queue").contains("column 24: expected a whole number"));
    assert!(refused("fixed-window 10/s burst 5").contains("column 19: expected the end"));
    assert!(refused("token-bucket 10/s burst").contains("column 24: expected a whole number"));
    assert!(refused("token-bucket 10").contains("or an interval, as in 8 every 2s"));
    assert!(refused("sliding-log 5/s, 6/s").contains("column 16"));
    assert!(refused("fixed-window 10/60").contains("column 17: expected a duration"));
    assert!(refused("fixed-window 10/2.5s").contains("expected"));
    assert_eq!("fixed-window 10/µ".parse::<Limit>().unwrap_err().column(), 17);
}

#[test]
fn numbers_that_are_none_are_refused_where_they_stand() {
    for number in ["nan", "inf", "-1", "+1", "1.5", "1e3", "0x10", "", "١"] {
        let message = refused(&format!("fixed-window {number}/s"));
        assert!(message.contains("column 14: expected a whole number"), "{message}");
    }
    assert!(refused("fixed-window 18446744073709551616/s").contains("below 2^64"));
    assert!(refused("fixed-window 1/18446744073709551615s").contains("at most 71 years"));
}

#[test]
fn values_that_no_machine_accepts_name_the_bound() {
    let config = |text: &str| text.parse::<Limit>().unwrap_err().config_error();
    assert_eq!(config("fixed-window 0/s"), Some(ConfigError::Zero { what: "limit" }));
    assert_eq!(config("fixed-window 1/0s"), Some(ConfigError::Zero { what: "window" }));
    assert_eq!(config("token-bucket 1/s burst 0"), Some(ConfigError::Zero { what: "burst" }));
    assert_eq!(config("leaky-bucket 1/s queue 0"), Some(ConfigError::Zero { what: "queue" }));
    assert_eq!(config("token-bucket 1 every 0s"), Some(ConfigError::Zero { what: "interval" }));
    assert!(refused("fixed-window 9007199254740992/s").contains("at most 9007199254740991"));
    assert!(refused("fixed-window 1/26100day").contains("2^51 us (71 years)"));
    assert!(refused("token-bucket 9 every s burst 8").contains("must be at least 9"));
    let year = refused("sliding-window 1_000_000/366day");
    assert!(year.contains("at most 40469 fits within the exact range of 2^53"), "{year}");
    assert!(refused("token-bucket 999_983/day").contains("at most 104249 fits"));
    assert!(refused("token-bucket 1/day burst 1_000_000").contains("to fill the bucket"));
    let queue = refused("leaky-bucket 1/day queue 1_000_000");
    assert!(queue.contains("the queue is too large") && queue.contains("to empty it"), "{queue}");
}

/// The bound that an error names is the exact one.
#[test]
fn bounds_in_errors_are_exact() {
    let fits = |limit| SlidingWindow::new(limit, DAY).is_ok();
    let Err(ConfigError::TooLarge { max, .. }) = SlidingWindow::new(u64::MAX >> 11, DAY) else {
        panic!("it was accepted");
    };
    assert!(fits(max) && !fits(max + 1));

    for (amount, period) in [(999_983, DAY), (1, DAY), (1, MINUTE), (7, SECOND)] {
        let Err(ConfigError::TooLarge { max, .. }) = TokenBucket::new(amount, period, 1 << 52)
        else {
            panic!("it was accepted");
        };
        let fits = |burst| TokenBucket::new(amount, period, burst).is_ok();
        assert!(fits(max) && !fits(max + 1), "{amount} per {period:?}: {max}");
    }
}

#[test]
fn fractions_of_a_microsecond_are_refused() {
    let odd = Duration::from_nanos(1500);
    assert_eq!(FixedWindow::new(1, odd), Err(ConfigError::SubMicrosecond { what: "window" }));
}

/// Its fraction is not the problem.
#[test]
fn the_longest_duration_is_too_long() {
    let bound = "the longest time that is remembered, 2^51 us (71 years)";
    let too_long = |what| ConfigError::TooLarge { what, max: 1 << 51, unit: "us", bound };
    assert_eq!(TokenBucket::new(1, Duration::MAX, 1), Err(too_long("period")));
    assert_eq!(FixedWindow::new(1, Duration::MAX), Err(too_long("window")));
    let lease = Lock::new(Duration::MAX, SECOND).unwrap_err().to_string();
    assert!(lease.starts_with("the lease is too long: at most 1125899906842624us"), "{lease}");
}

#[test]
fn durations_and_rates_are_read_by_themselves() {
    assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
    assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
    assert_eq!(parse_rate("5/s"), Ok((5, SECOND)));
    assert_eq!(parse_rate("1_000 per hour"), Ok((1000, Duration::from_secs(3600))));
    assert_eq!(parse_duration("10 s x").unwrap_err().column(), 6);
    assert!(parse_rate("5").is_err());
}

#[test]
fn stored_limits_have_strings_with_their_terms() {
    for (text, printed) in [
        ("sliding-log 1/60s", "sliding-log 1/min"),
        ("sliding-log 1/60s per client", "sliding-log 1/min per client"),
        ("fixed-window 5 per 60s per client kept 90s", "fixed-window 5/min per client kept 90s"),
        ("token-bucket 5/s burst 9 kept 1h30m", "token-bucket 1/200ms burst 9 kept 90min"),
        (
            "leaky-bucket 1/s queue 9 + fixed-window 9/h kept day",
            "leaky-bucket 1/s queue 9 + fixed-window 9/h kept 1day",
        ),
    ] {
        let limit: StoredLimit = text.parse().unwrap();
        assert_eq!(limit.to_string(), printed);
        assert_eq!(printed.parse(), Ok(limit));
        #[cfg(feature = "serde")]
        assert_eq!(serde_json::to_string(&limit).unwrap(), format!("{printed:?}"));
        #[cfg(feature = "serde")]
        assert_eq!(serde_json::from_str::<StoredLimit>(&format!("{text:?}")).unwrap(), limit);
    }
    for (text, column) in [
        ("sliding-log 1/60s per", 22),
        ("sliding-log 1/60s per user", 23),
        ("sliding-log 1/60s kept", 23),
        ("sliding-log 1/60s kept 0s", 24),
        ("sliding-log 1/60s kept 36500day", 24),
        ("sliding-log 1/60s kept 1h per client", 27),
    ] {
        let error = text.parse::<StoredLimit>().unwrap_err();
        assert_eq!(error.column(), column, "{error}");
    }
}

#[cfg(feature = "serde")]
#[test]
fn serde_uses_the_same_strings() {
    let limit = parsed("token-bucket 100/min burst 20");
    let json = serde_json::to_string(&limit).unwrap();
    assert_eq!(json, "\"token-bucket 100/min burst 20\"");
    assert_eq!(serde_json::from_str::<Limit>(&json).unwrap(), limit);
    let json = "\"leaky-bucket 10/s queue 20\"";
    let limit = serde_json::from_str::<Limit>(json).unwrap();
    assert_eq!(serde_json::to_string(&limit).unwrap(), json);
    let error = serde_json::from_str::<Limit>("\"fixed-window 0/s\"").unwrap_err().to_string();
    assert!(error.contains("the limit is zero"), "{error}");
    assert!(serde_json::from_str::<lockage_core::Timestamp>("9007199254740993").is_err());
}
