//! The harness itself: a real server follows the injected clock exactly, forwards and backwards.

use std::process::Command;

use lockage_tests::server::{Server, VirtualClock, program};
use redis::Connection;

const START_US: u64 = 1_763_700_000_123_456;

#[test]
fn a_server_on_its_own_clock_answers_over_tcp_and_socket_and_dies_with_its_guard() {
    let server = Server::start();
    let (url, unix_url) = (server.url(), server.unix_url());
    for url in [&url, &unix_url] {
        let mut connection = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
        let pong: String = redis::cmd("PING").query(&mut connection).unwrap();
        assert_eq!(pong, "PONG");
    }
    drop(server);
    for url in [&url, &unix_url] {
        assert!(redis::Client::open(url.as_str()).unwrap().get_connection().is_err());
    }
}

#[test]
fn a_server_is_killed_when_its_test_panics() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let outcome = std::thread::spawn(move || {
        let server = Server::start();
        sender.send(server.url()).unwrap();
        std::panic::resume_unwind(Box::new("a failing test"));
    })
    .join();
    assert!(outcome.is_err());
    assert!(redis::Client::open(receiver.recv().unwrap()).unwrap().get_connection().is_err());
}

#[test]
fn time_follows_the_clock_to_the_microsecond_also_backwards() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    let mut connection = server.connection();
    let years_200_us = 6_311_520_000_000_000;
    for now_us in [
        START_US,
        START_US + 1,
        START_US - 1,
        START_US + 999_999,
        0,
        1,
        999,
        years_200_us,
        1_000_000,
        START_US,
    ] {
        clock.set(now_us);
        assert_eq!(time_us(&mut connection), now_us);
        let in_script: Vec<u64> = redis::cmd("EVAL")
            .arg("return redis.call('TIME')")
            .arg(0)
            .query(&mut connection)
            .unwrap();
        assert_eq!(in_script[0] * 1_000_000 + in_script[1], now_us);
    }
}

#[test]
fn a_key_lives_through_its_last_millisecond_and_comes_back_when_the_clock_does() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    let mut connection = server.connection();
    let set = "redis.call('SET', KEYS[1], 'v'); redis.call('PEXPIRE', KEYS[1], ARGV[1])";
    redis::cmd("EVAL").arg(set).arg(1).arg("k").arg(10).exec(&mut connection).unwrap();
    let expire_ms = START_US / 1000 + 10;

    // Alive while now_ms <= expire_ms: a step back changes nothing as long as no command met the
    // key beyond its end.
    for now_us in [
        START_US,
        expire_ms * 1000,
        expire_ms * 1000 + 999,
        START_US - 5_000_000,
        expire_ms * 1000 + 999,
    ] {
        clock.set(now_us);
        assert_eq!(value(&mut connection), Some("v".to_owned()), "at {now_us}");
    }
    clock.set(START_US - 5_000_000);
    let ttl_ms: i64 = redis::cmd("PTTL").arg("k").query(&mut connection).unwrap();
    assert_eq!(ttl_ms, 5_010, "the TTL counts to the expiry that was set");

    // One microsecond later the first access removes it, and from then on a step back finds
    // nothing.
    clock.set((expire_ms + 1) * 1000);
    assert_eq!(value(&mut connection), None);
    clock.set(START_US);
    assert_eq!(value(&mut connection), None);
}

#[test]
fn background_expiry_does_not_remove_unread_keys() {
    let clock = VirtualClock::new(START_US);
    let Some(server) = Server::with_clock(&clock) else { return };
    let mut connection = server.connection();
    redis::cmd("SET").arg("k").arg("v").arg("PX").arg(10).exec(&mut connection).unwrap();
    clock.set(START_US + 60_000_000);
    // Longer than several rounds of the server's background work (every 100 ms).
    std::thread::sleep(std::time::Duration::from_millis(350));
    clock.set(START_US);
    assert_eq!(value(&mut connection), Some("v".to_owned()));
}

/// They are no failures of the tested code, and leave no seeds.
#[test]
fn tests_on_a_clock_that_the_server_does_not_follow_are_skipped_and_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let server = folder.path().join("server");
    // Written by another process: while this one writes a program, no other test could start one.
    let write =
        r#"printf '#!/bin/sh\nunset LD_PRELOAD\nexec "%s" "$@"\n' "$1" >"$0" && chmod +x "$0""#;
    let written = Command::new("sh").arg("-c").arg(write).arg(&server).arg(program()).status();
    assert!(written.unwrap().success());
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "three_way::limiters::the_token",
            "calls_with_a_request_id_are_done",
            "stores::fred_cluster_of_one",
        ])
        .args(["injected_clock::time", "injected_clock::a_server_on_its_own"])
        .env("LOCKAGE_REDIS_SERVER", &server)
        .output()
        .unwrap();
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success() && out.contains("5 passed"), "{out}{error}");
    let [line] = error.lines().collect::<Vec<_>>()[..] else { panic!("{error}") };
    assert!(line.starts_with("SKIPPED: tests on an injected clock"), "{line}");
    assert!(line.contains("CFLAGS=-DNO_PROCESSOR_CLOCK"), "{line}");
}

fn time_us(connection: &mut Connection) -> u64 {
    let time: (u64, u64) = redis::cmd("TIME").query(connection).unwrap();
    time.0 * 1_000_000 + time.1
}

fn value(connection: &mut Connection) -> Option<String> {
    let in_script: Option<String> = redis::cmd("EVAL")
        .arg("return redis.call('GET', KEYS[1])")
        .arg(1)
        .arg("k")
        .query(connection)
        .unwrap();
    in_script
}
