//! H6 of streamed answers: two processes share the requests and tokens of a key on a real server. One is killed in the middle
//! of its streams and started again. The charges are exact, and of the streams that died nothing is left but their estimate.

use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use lockage_redis_rs::RedisStore;
use lockage_tests::server::Server;

use super::processes::Process;
use super::*;

// Its module `model` is also one of the other example.
#[allow(unreachable_pub, clippy::duplicate_mod)]
#[path = "../../examples/axum_llm.rs"]
mod axum_llm;

/// Not a test: the program that [`Process`] runs.
#[test]
#[ignore = "it serves until it is killed"]
fn the_example_serves() {
    axum_llm::main().unwrap();
}

const LIMIT: &str = "requests: fixed-window 1000/day + tokens: fixed-window 1000000/day";

fn start(server: &Server) -> Process {
    let variables = [("LIMIT", LIMIT), ("REDIS_URL", &server.url()), ("HOLD", "2")];
    Process::run("llm::the_example_serves", &variables)
}

/// Asks for this many words; returns the estimate, and the response before its body.
pub(super) async fn ask(
    url: &http::Uri,
    user: &str,
    words: u64,
    more: &str,
) -> (u64, Response<hyper::body::Incoming>) {
    let body = format!("{{\"max_tokens\":500,\"words\":{words}{more}}}");
    let estimate = 500 + (body.len() as u64).div_ceil(4);
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::post(format!("{url}v1/chat/completions"))
        .header("x-api-key", user)
        .header("x-user", user);
    let response = client.request(request.body(Full::<Bytes>::from(body)).unwrap()).await.unwrap();
    (estimate, response)
}

/// Asks in the name of one user, who is admitted.
async fn ask_for(
    process: &Process,
    words: u64,
    more: &str,
) -> (u64, Response<hyper::body::Incoming>) {
    let (estimate, response) = ask(&process.url, "me", words, more).await;
    assert_eq!(response.status(), 200);
    (estimate, response)
}

/// Reads an answer to its end, and returns its usage.
pub(super) async fn read(response: Response<hyper::body::Incoming>, words: u64) -> u64 {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let text = std::str::from_utf8(&body).unwrap();
    assert_eq!(text.matches("word ").count() as u64, words);
    assert!(text.ends_with("data: [DONE]\n\n"));
    10 + words
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_answers_are_charged_exactly_by_processes_that_die() {
    let server = Server::start();
    let (mut first, second) = (start(&server), start(&server));
    let (mut requests, mut tokens) = (0, 0);
    let mut after = Vec::new();
    for round in 0..2 {
        // Answers of both, at the same time; one of them is longer than the hold of 2 s.
        let asked = async |process, words, more| {
            let (_, response) = ask_for(process, words, more).await;
            read(response, words).await
        };
        let (slow, mut quick) = (asked(&second, 5, ",\"pause_ms\":1000"), Vec::new());
        for words in 0..20 {
            quick.push(asked(if words % 2 == 0 { &first } else { &second }, words, ""));
        }
        let (slow, quick) =
            futures_util::future::join(slow, futures_util::future::join_all(quick)).await;
        requests += 21;
        tokens += slow + quick.into_iter().sum::<u64>();
        // A client that leaves pays for the words that came.
        let (_, mut left) = ask_for(&second, 3, ",\"hangs\":true").await;
        let mut words = 0;
        while words < 3 {
            let frame = left.body_mut().frame().await.unwrap().unwrap();
            words += String::from_utf8_lossy(frame.data_ref().unwrap()).matches("word ").count();
        }
        drop(left);
        (requests, tokens) = (requests + 1, tokens + 3);
        // The process dies with three open streams, whose estimates stay.
        for _ in 0..3 {
            let (estimate, mut open) = ask_for(&first, 2, ",\"hangs\":true").await;
            assert!(open.body_mut().frame().await.unwrap().is_ok());
            (requests, tokens) = (requests + 1, tokens + estimate);
            after.push(open);
        }
        first.kill();
        for mut open in after.drain(..) {
            while let Some(frame) = open.body_mut().frame().await {
                if frame.is_err() {
                    break;
                }
            }
        }
        first = start(&server);
        assert_eq!(round, usize::from(requests > 25));
    }

    let limiter = Limiter::new(RedisStore::open(&server.url()).unwrap(), limit(LIMIT))
        .with_prefix("llm")
        .unwrap();
    let charged = async || {
        let parts = limiter.peek_parts("x-api-key:me", &[1, 1]).await.unwrap().parts;
        (1_000 - parts[0].remaining, 1_000_000 - parts[1].remaining)
    };
    // Settled in the background; reservations are forgotten after twice their hold.
    for _ in 0..600 {
        let keys: usize = redis::cmd("DBSIZE").query(&mut server.connection()).unwrap();
        if keys == 1 && charged().await == (requests, tokens) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(charged().await, (requests, tokens));
    let keys: usize = redis::cmd("DBSIZE").query(&mut server.connection()).unwrap();
    assert_eq!(keys, 1, "the limiter's alone");
}
