//! Refusals: their exit statuses and words, and no secret among them.

use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;

use crate::{VALUE, fill, program, refused, run, shown, text};

const SECRET: &str = "hunter2";

/// Returns a server with a user of this secret, and its address.
fn guarded() -> (Server, String) {
    let server = Server::start();
    redis::cmd("ACL")
        .arg(&["SETUSER", "admin", "on", &format!(">{SECRET}"), "~*", "&*", "+@all"])
        .exec(&mut server.connection())
        .unwrap();
    let address = format!("redis://admin:{SECRET}@127.0.0.1:{}", server.port());
    (server, address)
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_sent() {
    let nowhere = "redis://127.0.0.1:1";
    for (args, words) in [
        (&["lst"][..], "unrecognized subcommand 'lst'"),
        (&["ls", "--perfix", "a"], "unexpected argument '--perfix'"),
        (&["show", "login"], "keys are prefix:{id}"),
        (&["show", "login:{}"], "the id is empty"),
        (&["ls", "login"], "keys are prefix:{id}"),
        (&["ls", "--prefix", "a", "b:*"], "cannot be used with"),
        (&["ls", "--kind", "mutex"], "invalid value 'mutex'"),
        (&["release", "lock:{a}", "--token", "-1"], "unexpected argument"),
        (&["release", "lock:{a}", "--token", "one"], "invalid digit"),
        (&["block", "login:{a}", "--yes"], "--for"),
        (&["block", "login:{a}", "--for", "5", "--yes"], "invalid value '5'"),
        (&["set", "login:{a}", "token-bucket 100", "--yes"], "invalid value"),
        (&["top", "--looks", "1"], "1 is not in 2..=1000"),
        (&["watch", "login:{a}", "--every", "soon"], "invalid value"),
        (&["completions", "tcsh"], "invalid value 'tcsh'"),
        (&[], "Usage"),
    ] {
        let error = refused(nowhere, args, 2);
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn exit_statuses_tell_failures_apart() {
    let (mut server, address) = guarded();
    assert_eq!(run(&address, &["ls"]).status.code(), Some(1), "nothing there");
    let port = server.port();
    let wrong = refused(&format!("redis://admin:wr0ng@127.0.0.1:{port}"), &["ls"], 3);
    assert!(wrong.contains("the user, the password, or both are wrong"), "{wrong}");
    for (address, words) in [
        ("redis://a@b@c", "one word stands before the @"),
        ("http://host", "no known scheme"),
        ("redis://host:99999", "port is from 1 to 65535"),
        (&format!("redis-cluster://127.0.0.1:{port}"), "the server is no cluster"),
    ] {
        let error = refused(address, &["ls"], 3);
        assert!(error.contains(words), "{address}: {error}");
    }
    // Rights to some commands only.
    redis::cmd("ACL")
        .arg(&[
            "SETUSER", "poor", "on", ">p00r", "~*", "+ping", "+scan", "+time", "+hello", "+client",
        ])
        .exec(&mut server.connection())
        .unwrap();
    redis::cmd("SET").arg("login:{a}").arg("F1 10 1 1 1").exec(&mut server.connection()).unwrap();
    let poor = format!("redis://poor:p00r@127.0.0.1:{port}");
    for args in [&["ls"][..], &["show", "login:{a}"]] {
        let error = refused(&poor, args, 3);
        assert!(error.contains("grant the user"), "{error}");
    }
    // A server that is gone, and one that is silent.
    server.freeze();
    let silent = refused(&address, &["ls", "--timeout", "100ms"], 4);
    assert!(!silent.contains(SECRET), "{silent}");
    server.thaw();
    server.kill();
    for args in
        [&["ls"][..], &["who"], &["top"], &["show", "login:{a}"], &["reset", "login:{a}", "-y"]]
    {
        let error = refused(&address, args, 4);
        assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
    }
}

/// A password is in no output: not of a success, nor of any failure.
#[tokio::test]
async fn secrets_are_never_printed() {
    let (mut server, address) = guarded();
    fill(&RedisStore::open(&address).unwrap()).await;
    let check = |address: &str, args: &[&str]| {
        let output = run(address, args);
        let shown = text(&output.stdout) + &text(&output.stderr);
        for secret in [SECRET, VALUE] {
            assert!(!shown.contains(secret), "{args:?}: {shown}");
        }
    };
    let with_space = format!("redis://admin:{SECRET} {SECRET}'@127.0.0.1:1");
    let failing = [
        &["ls", &address][..],
        &["show", "login:{fixed}", &address],
        &["ls", "--url", &address, &address],
        &["ls", "--usl", &address],
        &[&format!("--uri={address}"), "ls"],
        &["--timeout", &address, "ls"],
        &["ls", &with_space],
        &["show", &with_space],
        &["ls", "--url", &with_space],
        &["--help"],
        &["ls", "--help"],
        &["man"],
        &["completions", "bash"],
    ];
    let working = [
        &["ls"][..],
        &["ls", "--json"],
        &["who"],
        &["show", "fenced:{f}"],
        &["show", "fenced:{f}", "--json"],
        &["watch", "fenced:{f}", "--for", "1ms"],
        &["watch", "fenced:{f}", "--for", "1ms", "--json"],
        &["top", "--looks", "2", "--every", "1ms"],
        &["release", "lock:{held}", "--yes"],
        &["reset", "fenced:{f}"],
    ];
    for args in failing.iter().chain(&working) {
        check(&address, args);
    }
    for malformed in [
        format!("redis://admin:{SECRET}"),
        format!("redis://{SECRET}@127.0.0.1"),
        format!("redis://admin:{SECRET}@127.0.0.1:none"),
        format!("redis://admin:{SECRET}/x@127.0.0.1"),
        format!("admin:{SECRET}@127.0.0.1"),
        format!("redis-sentinel://127.0.0.1:1?sentinelServiceName=a&sentinelPassword={SECRET}"),
        format!("redis-cluster://admin:{SECRET}@127.0.0.1:1"),
        format!("redis+unix:///nowhere?user=admin&pass={SECRET}"),
        format!("rediss://admin:{SECRET}@127.0.0.1:{}", server.port()),
        format!("redis://other:{SECRET}@127.0.0.1:{}", server.port()),
    ] {
        check(&malformed, &["ls", "--timeout", "200ms"]);
        check("redis://127.0.0.1:1", &["ls", "--url", &malformed]);
    }
    server.kill();
    for args in working {
        check(&address, args);
    }
}

#[tokio::test]
async fn colours_are_for_terminals_and_not_with_no_color() {
    let server = Server::start();
    fill(&RedisStore::open(&server.url()).unwrap()).await;
    let colours = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = program(&server.url(), args);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        text(&output.stdout).contains('\u{1b}') || text(&output.stderr).contains('\u{1b}')
    };
    for args in [
        &["ls"][..],
        &["show", "lock:{held}"],
        &["top", "--looks", "2", "--every", "1ms"],
        &["lst"],
    ] {
        assert!(!colours(&[], args), "no terminal: {args:?}");
        assert!(colours(&[("CLICOLOR_FORCE", "1")], args), "{args:?}");
        assert!(!colours(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], args), "{args:?}");
    }
    assert!(!colours(&[("CLICOLOR_FORCE", "1")], &["ls", "--json"]));
}

/// No server is needed for them.
#[test]
fn completions_and_a_manual_are_printed() {
    let nowhere = "redis://127.0.0.1:1";
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let completions = shown(nowhere, &["completions", shell]);
        assert!(
            ["release", "unblock", "sample"].iter().all(|it| completions.contains(it)),
            "{shell}"
        );
    }
    let manual = shown(nowhere, &["man"]);
    assert!(manual.contains(".TH lockage") && manual.contains("Exit status"), "{manual}");
    assert!(shown(nowhere, &["--version"]).starts_with("lockage 0."));
    for verb in ["ls", "show", "who", "release", "block", "unblock", "set", "reset", "watch", "top"]
    {
        assert!(shown(nowhere, &[verb, "--help"]).contains("--json"), "{verb}");
    }
}

/// A reader that goes away is no failure.
#[tokio::test]
async fn a_closed_pipe_ends_it_quietly() {
    let server = Server::start();
    fill(&RedisStore::open(&server.url()).unwrap()).await;
    let mut command =
        program(&server.url(), &["watch", "login:{fixed}", "--every", "1ms", "--for", "30s"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}
