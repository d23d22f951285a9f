//! The harness itself: clusters, sentinels and faults behave as its tests assume.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use lockage_tests::server::{Cluster, Proxy, Sentinels, Server};
use redis::{Client, Connection, ErrorKind, RedisResult, ServerErrorKind};

const INCREMENT: &str = "return redis.call('INCR', KEYS[1])";

#[test]
fn executions_are_scripts_that_ran_and_not_scripts_that_were_unknown() {
    let server = Server::start();
    let mut connection = server.connection();
    assert_eq!(server.executions(), 0);
    assert!(evalsha(&mut connection, &"0".repeat(40)).is_err());
    assert_eq!(server.executions(), 0, "the script is unknown");
    increment(&mut connection).unwrap();
    let digest = digest(&mut connection);
    assert_eq!(evalsha(&mut connection, &digest).unwrap(), 2);
    assert_eq!(server.executions(), 2);
    redis::cmd("SET").arg("k").arg("text").exec(&mut connection).unwrap();
    assert!(evalsha(&mut connection, &digest).is_err());
    assert_eq!(server.executions(), 3, "a script that fails has run");
    redis::pipe()
        .atomic()
        .cmd("EVALSHA")
        .arg(&digest)
        .arg(1)
        .arg("l")
        .exec(&mut connection)
        .unwrap();
    assert_eq!(server.executions(), 4);
}

#[test]
fn a_server_comes_back_on_its_port_with_its_keys_or_without() {
    let mut server = Server::start();
    let url = server.url();
    increment(&mut connect(&url)).unwrap();
    server.restart_with_keys();
    assert_eq!(get(&mut connect(&url)), Some(1));
    server.restart();
    assert_eq!(get(&mut connect(&url)), None);
    server.kill();
    server.restart();
    assert_eq!(get(&mut connect(&url)), None);
}

#[test]
fn a_frozen_server_answers_when_it_thaws() {
    let server = Server::start();
    let mut connection = connect(&server.url());
    server.freeze();
    connection.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(increment(&mut connection).unwrap_err().is_timeout());
    server.thaw();
    let mut connection = connect(&server.url());
    let carried_out =
        std::iter::repeat_with(|| get(&mut connection)).take(1000).any(|k| k == Some(1));
    assert!(carried_out, "what was sent to it");
}

#[test]
fn a_proxy_swallows_so_many_replies_of_scripts_that_were_executed() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    proxy.swallow_replies(2);
    for executed in 1..=2 {
        let mut connection = connect(&proxy.url());
        redis::cmd("PING").exec(&mut connection).unwrap();
        connection.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(increment(&mut connection).unwrap_err().is_timeout());
        assert_eq!((server.executions(), proxy.swallowed()), (executed, executed));
    }
    assert_eq!(increment(&mut connect(&proxy.url())).unwrap(), 3);
    assert_eq!((server.executions(), proxy.swallowed(), proxy.commands("EVAL")), (3, 2, 3));
    assert_eq!((proxy.commands("PING"), proxy.commands("EVALSHA")), (2, 0));
}

/// Or a client would take it for the reply to an earlier request.
#[test]
fn no_reply_follows_one_that_was_swallowed() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    proxy.swallow_replies(1);
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    stream.write_all(b"PING\r\nEVAL 'return 1' 0\r\nPING\r\n").unwrap();
    let mut replies = Vec::new();
    // Until nothing comes for a while.
    assert!(stream.read_to_end(&mut replies).is_err(), "the connection stays open");
    assert_eq!(replies, b"+PONG\r\n");
    assert_eq!((server.executions(), proxy.commands("PING")), (1, 2));
}

#[test]
fn a_proxy_cuts_so_many_connections_after_a_script_or_before_it() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    proxy.cut_after_request(2);
    for executed in 1..=2 {
        let error = increment(&mut connect(&proxy.url())).unwrap_err();
        assert!(error.is_connection_dropped(), "{error:?}");
        assert_eq!(server.executions(), executed);
    }
    assert_eq!(increment(&mut connect(&proxy.url())).unwrap(), 3);
    proxy.cut_before_request(2);
    for _ in 0..2 {
        let error = increment(&mut connect(&proxy.url())).unwrap_err();
        assert!(error.is_connection_dropped(), "{error:?}");
        assert_eq!(server.executions(), 3);
    }
    assert_eq!(increment(&mut connect(&proxy.url())).unwrap(), 4);
    assert_eq!(proxy.commands("EVAL"), 4);
}

#[test]
fn a_proxy_replies_so_many_errors_in_place_of_scripts() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    proxy.reply_error(2, "OOM full");
    let mut connection = connect(&proxy.url());
    for _ in 0..2 {
        let error = increment(&mut connection).unwrap_err();
        assert_eq!((error.code(), server.executions()), (Some("OOM"), 0), "{error:?}");
    }
    assert_eq!(increment(&mut connection).unwrap(), 1);
}

#[test]
fn a_proxy_makes_the_server_forget_scripts() {
    let server = Server::start();
    let mut connection = server.connection();
    increment(&mut connection).unwrap();
    let digest = digest(&mut connection);
    Proxy::start(server.port()).flush_scripts();
    assert!(
        evalsha(&mut connection, &digest).unwrap_err().kind()
            == ErrorKind::Server(ServerErrorKind::NoScript)
    );
}

#[test]
fn a_proxy_refuses_delays_and_drops_traffic_on_demand() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut existing = connect(&proxy.url());
    proxy.refuse(true);
    let dropped = increment(&mut existing).unwrap_err();
    assert!(dropped.is_connection_dropped(), "{dropped:?}");
    let refused = Client::open(proxy.url()).unwrap().get_connection().map(|_| ()).unwrap_err();
    assert!(refused.is_connection_refusal(), "{refused:?}");
    proxy.refuse(false);

    let mut existing = connect(&proxy.url());
    existing.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    proxy.delay_replies(Duration::from_millis(300));
    let late = increment(&mut existing).unwrap_err();
    assert!(late.is_timeout(), "{late:?}");
    proxy.delay_replies(Duration::ZERO);
    assert_eq!(increment(&mut connect(&proxy.url())).unwrap(), 2);

    let mut existing = connect(&proxy.url());
    existing.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    proxy.black_hole(true);
    let lost = increment(&mut existing).unwrap_err();
    assert!(lost.is_timeout(), "{lost:?}");
    proxy.black_hole(false);
    assert_eq!(increment(&mut connect(&proxy.url())).unwrap(), 3);
    assert_eq!(server.executions(), 3);
}

#[test]
fn a_proxy_refuses_at_once_while_processes_are_started() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let refuses = || {
        proxy.refuse(true);
        let error = TcpStream::connect(("127.0.0.1", proxy.port())).err();
        proxy.refuse(false);
        error.is_some_and(|it| it.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    std::thread::scope(|scope| {
        let rounds = scope.spawn(|| (0..500).filter(|_| !refuses()).count());
        // Until a process executes its program, it has a copy of whatever this one has open. None ends by itself: one
        // that ends before its starter goes on interrupts reads with a timeout, those of other tests too.
        while !rounds.is_finished() {
            let mut process = Command::new("sleep").arg("60").spawn().unwrap();
            process.kill().unwrap();
            process.wait().unwrap();
        }
        assert_eq!(rounds.join().unwrap(), 0);
    });
}

#[test]
fn replies_of_every_form_pass_a_proxy_and_stay_in_step() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    for protocol in ["", "?protocol=resp3"] {
        let (direct, proxied) = (server.url() + protocol, proxy.url() + protocol);
        let [direct, proxied] = [direct, proxied].map(|url| {
            let mut connection = connect(&url);
            let mut calls = redis::pipe();
            calls.cmd("CONFIG").arg("GET").arg("maxmemory*");
            calls.cmd("EVAL").arg("return {1, {'a\\r\\n', {}}, false, 'x'}").arg(0);
            calls.cmd("COMMAND").arg("INFO").arg("GET").arg("nonsense");
            calls.cmd("ECHO").arg("x".repeat(100_000));
            calls.query::<redis::Value>(&mut connection).unwrap()
        });
        assert_eq!(direct, proxied);

        let mut subscriber = connect(&(proxy.url() + protocol));
        let mut subscriber = subscriber.as_pubsub();
        subscriber.subscribe("channel").unwrap();
        redis::cmd("PUBLISH").arg("channel").arg("m").exec(&mut connect(&proxy.url())).unwrap();
        assert_eq!(subscriber.get_message().unwrap().get_payload::<String>().unwrap(), "m");
    }
}

#[test]
fn a_push_is_not_taken_for_the_reply_that_is_waited_for() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    proxy.swallow_replies(1);
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let calls = b"HELLO 3\r\nSUBSCRIBE channel\r\nBLPOP list 0\r\nEVAL 'return 77' 0\r\n";
    stream.write_all(calls).unwrap();
    let mut connection = server.connection();
    let mut publish = redis::cmd("PUBLISH");
    publish.arg("channel").arg("news");
    while publish.query::<u64>(&mut connection).unwrap() == 0 {}
    redis::cmd("RPUSH").arg("list").arg("item").exec(&mut connection).unwrap();
    let mut replies = Vec::new();
    assert!(stream.read_to_end(&mut replies).is_err(), "the connection stays open");
    let replies = String::from_utf8(replies).unwrap();
    assert!(replies.contains("news") && replies.ends_with("item\r\n"), "{replies}");
    assert_eq!((proxy.swallowed(), server.executions()), (1, 1));
}

#[test]
fn a_slot_moves_in_steps_and_asks_in_between() {
    let cluster = Cluster::start();
    let (key, from) = ("{k}1", cluster.master_of("{k}1"));
    let to = (from + 1) % 3;
    let mut old = cluster.connection(from);
    let mut new = cluster.connection(to);
    redis::cmd("SET").arg(key).arg(7).exec(&mut old).unwrap();

    cluster.begin_migration(key, to);
    assert_eq!(get_key(&mut old, key).unwrap(), Some(7));
    assert_eq!(refusal(get_key(&mut old, "{k}2")), ServerErrorKind::Ask);
    assert_eq!(refusal(get_key(&mut new, key)), ServerErrorKind::Moved);
    assert_eq!(cluster.move_keys(key), 1);
    assert_eq!(refusal(get_key(&mut old, key)), ServerErrorKind::Ask);
    redis::cmd("ASKING").exec(&mut new).unwrap();
    assert_eq!(get_key(&mut new, key).unwrap(), Some(7));
    cluster.end_migration(key);

    assert_eq!(cluster.master_of(key), to);
    assert_eq!(refusal(get_key(&mut old, key)), ServerErrorKind::Moved);
    assert_eq!(get_key(&mut new, key).unwrap(), Some(7));
}

#[test]
fn a_cluster_fails_over_when_it_is_asked_to_and_when_a_master_dies() {
    let mut cluster = Cluster::start();
    let old = cluster.master_of("k");
    increment(&mut cluster.connection(old)).unwrap();
    cluster.fail_over("k");
    let asked = cluster.master_of("k");
    assert_ne!(asked, old);
    let mut connection = cluster.connection(asked);
    assert_eq!(increment(&mut connection).unwrap(), 2);
    assert_eq!(refusal(increment(&mut cluster.connection(old))), ServerErrorKind::Moved);
    assert_eq!(cluster.executions(), 2);

    // It waits for the writes of its own connection.
    redis::cmd("WAIT").arg(1).arg(0).exec(&mut connection).unwrap();
    cluster.kill(asked);
    cluster.wait_for_failover_of(asked);
    assert_eq!(cluster.master_of("k"), old);
    assert_eq!(increment(&mut cluster.connection(old)).unwrap(), 3);
    cluster.restart(asked);
    assert_eq!(refusal(increment(&mut cluster.connection(asked))), ServerErrorKind::Moved);
}

#[test]
fn clients_of_a_cluster_behind_proxies_go_through_them_also_when_they_are_redirected() {
    let cluster = Cluster::start_behind_proxies();
    let master = cluster.master_of("k");
    let other = (master + 1) % 3;
    let error = increment(&mut connect(&cluster.urls()[other])).unwrap_err();
    let address = error.redirect_node().expect("the key is another's").0;
    assert_eq!(format!("redis://{address}"), cluster.urls()[master]);

    cluster.proxy(master).refuse(true);
    cluster.fail_over("k");
    let replica = cluster.master_of("k");
    assert_eq!(increment(&mut connect(&cluster.urls()[replica])).unwrap(), 1);
    assert_eq!(cluster.proxy(replica).commands("EVAL"), 1);
}

#[test]
fn sentinels_fail_over_when_they_are_asked_to_and_when_a_master_dies() {
    let mut service = Sentinels::start();
    assert_eq!(service.master(), 0);
    let mut connection = service.connection(0);
    increment(&mut connection).unwrap();
    redis::cmd("WAIT").arg(2).arg(0).exec(&mut connection).unwrap();
    service.kill(0);
    service.wait_for_failover();
    let second = service.master();
    assert_ne!(second, 0);
    assert_eq!(increment(&mut service.connection(second)).unwrap(), 2);
    service.restart(0);
    // Not by a script: before Redis 7.0 its error has no code.
    let write: RedisResult<()> = redis::cmd("INCR").arg("k").exec(&mut service.connection(0));
    assert_eq!(refusal(write), ServerErrorKind::ReadOnly);
    service.fail_over();
    let third = service.master();
    assert_ne!(third, second);
    assert_eq!(increment(&mut service.connection(third)).unwrap(), 3);
}

fn connect(url: &str) -> Connection {
    let connection = Client::open(url).unwrap().get_connection().unwrap();
    // A call without an answer fails a test in place of hanging it.
    connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    connection
}

fn increment(connection: &mut Connection) -> RedisResult<u64> {
    redis::cmd("EVAL").arg(INCREMENT).arg(1).arg("k").query(connection)
}

fn evalsha(connection: &mut Connection, digest: &str) -> RedisResult<u64> {
    redis::cmd("EVALSHA").arg(digest).arg(1).arg("k").query(connection)
}

fn digest(connection: &mut Connection) -> String {
    redis::cmd("SCRIPT").arg("LOAD").arg(INCREMENT).query(connection).unwrap()
}

fn get(connection: &mut Connection) -> Option<u64> {
    get_key(connection, "k").unwrap()
}

fn get_key(connection: &mut Connection, key: &str) -> RedisResult<Option<u64>> {
    redis::cmd("GET").arg(key).query(connection)
}

fn refusal<T: std::fmt::Debug>(reply: RedisResult<T>) -> ServerErrorKind {
    match reply.unwrap_err().kind() {
        ErrorKind::Server(kind) => kind,
        other => panic!("{other:?}"),
    }
}
