//! The refusals, with their statuses and messages.

use super::{SAMPLE, refused};

#[test]
fn bad_arguments_are_usage_errors_with_the_expectation() {
    for (args, expected) in [
        (&["replay", SAMPLE][..], "--limit <SPEC>"),
        (&["replay", "--limit", "fixed-window 1/s"], "<FILE>"),
        (
            &["replay", SAMPLE, "--limit", "fixed-window 10/fortnight"],
            "column 17: expected a duration",
        ),
        (&["replay", SAMPLE, "--limit", "fixed-window nan/s"], "expected a whole number"),
        (&["replay", SAMPLE, "--limit", "fixed-window 0/s"], "zero"),
        (&["replay", SAMPLE, "--limit", "leaky 5/s"], "expected a kind of limit"),
        (&["replay", SAMPLE, "--limit", "fixed-window 1/s", "--engine", "redis"], "lua, model"),
        (&["replay", SAMPLE, "--limit", "fixed-window 1/s", "--by", "country"], "address, user"),
        (&["explore", "--limit", "fixed-window 1/s"], "--traffic <SHAPE>"),
        (
            &["explore", "--limit", "fixed-window 1/s", "--traffic", "wavy 5/s"],
            "column 1: expected constant, poisson, burst",
        ),
        (
            &["explore", "--limit", "fixed-window 1/s", "--traffic", "burst 5"],
            "column 8: expected every",
        ),
        (
            &[
                "explore",
                "--limit",
                "fixed-window 1/s",
                "--traffic",
                "constant 5/s",
                "--duration",
                "long",
            ],
            "a duration",
        ),
        (
            &[
                "explore",
                "--limit",
                "fixed-window 1/s",
                "--traffic",
                "constant 5/s",
                "--duration",
                "0s",
            ],
            "duration is zero",
        ),
        (
            &[
                "explore",
                "--limit",
                "fixed-window 1/s",
                "--traffic",
                "constant 5/s",
                "--start",
                "now",
            ],
            "RFC 3339",
        ),
        (
            &["explore", "--limit", "fixed-window 1/s", "--traffic", "constant 5/s", "--keys", "0"],
            "--keys",
        ),
        (
            &[
                "explore",
                "--limit",
                "fixed-window 1/s",
                "--traffic",
                "constant 5/s",
                "--cost",
                "-1",
            ],
            "--cost",
        ),
        (
            &["explore", "--limit", "fixed-window 1/s", "--traffic", "constant 5/us"],
            "at most 5000000",
        ),
        (
            &[
                "explore",
                "--limit",
                "fixed-window 1/s",
                "--traffic",
                "constant 1000000000/s",
                "--duration",
                "10ms",
            ],
            "about 10000000 requests",
        ),
    ] {
        let error = refused(args, 2);
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}

#[test]
fn files_that_cannot_be_replayed_are_failures_that_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (file, format, expected) in [
        (
            folder.path().join("missing.log").to_str().unwrap().to_owned(),
            "auto",
            "missing.log: No such file",
        ),
        (folder.path().to_str().unwrap().to_owned(), "auto", "cannot read"),
        (path("empty.log", b""), "auto", "no request in it: it is empty"),
        (path("blank.log", b"\n  \n\r\n"), "auto", "no request in it: it is empty"),
        (path("header.csv", b"timestamp,key\n"), "auto", "no request in it"),
        (
            path("prose.txt", b"Dear log,\nnothing happened."),
            "auto",
            "line 1 is of no known format",
        ),
        (
            path("journal.export", b"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1773306000000000\n"),
            "auto",
            "take the lines of journalctl -o json",
        ),
        (
            path("prose.log", b"Dear log,\nnothing happened."),
            "log",
            "none of its 2 lines is one; line 1: expected an address",
        ),
        (
            path("prose.csv", b"Dear log,\nnothing happened."),
            "csv",
            "line 1: \"Dear log\" is neither",
        ),
        (path("columns.csv", b"timestamp,user\n5,alice\n"), "auto", "no column named key"),
        (path("old.log.gz", b"\x1f\x8b\x08\x00\x00\x00"), "auto", "cannot read"),
    ] {
        let error =
            refused(&["replay", &file, "--format", format, "--limit", "fixed-window 1/s"], 1);
        assert!(error.contains(expected), "{file}: {error}");
        assert!(error.lines().count() <= 2, "{error}");
    }
    let error =
        refused(&["explore", "--traffic", "poisson 1/week", "--limit", "fixed-window 1/s"], 1);
    assert!(error.contains("no request within the duration"), "{error}");
}

#[test]
fn a_shell_and_a_manual_know_every_command() {
    for args in [&["completions", "bash"][..], &["completions", "zsh"], &["man"]] {
        let output = super::run(args);
        let text = super::text(&output.stdout);
        assert_eq!(output.status.code(), Some(0));
        for command in ["replay", "explore", "compare", "worst", "advise"] {
            assert!(text.contains(command), "{command} in {args:?}");
        }
    }
    let mistyped = refused(&["worst", "slidng-window 5/s"], 2);
    assert!(mistyped.contains("did you mean sliding-window?"), "{mistyped}");
}
