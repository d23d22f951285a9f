//! Costs that the body of a response states, read while it passes, and the rule for bodies that state none.

use http::request::Parts;
use http::{StatusCode, header};
use lockage_memory::testing::paused_memory;
use lockage_tower::{Commit, Format, Tokens, Unmeasured, Usage};
use proptest::prelude::*;

use super::failures::Log;
use super::*;

const ESTIMATE: u64 = 4_000;
const ROOM: u64 = 100_000;

/// A response as its upstream sent it.
#[derive(Clone)]
struct Sent<'a> {
    status: StatusCode,
    kind: &'a str,
    encoding: Option<&'a str>,
    chunks: Vec<&'a [u8]>,
    /// Whether it has come to its end.
    ends: bool,
}

impl<'a> Sent<'a> {
    fn whole(kind: &'a str, body: &'a str) -> Self {
        let (status, chunks) = (StatusCode::OK, vec![body.as_bytes()]);
        Sent { status, kind, encoding: None, chunks, ends: true }
    }

    fn chunked(&self, chunks: Vec<&'a [u8]>) -> Self {
        Sent { chunks, ..self.clone() }
    }
}

/// The charge of a response; of no response without one.
async fn charged(usage: Usage, sent: Option<&Sent<'_>>) -> u64 {
    let text = format!("fixed-window {ROOM}/h");
    let limiter = Limiter::new(paused_memory(), limit(&text)).with_prefix("usage").unwrap();
    let layer = RateLimit::per_ip(limiter.clone())
        .cost(|_: &Parts| ESTIMATE)
        .reserve(Tokio, SECOND * 600, Commit::by_usage(usage))
        .build()
        .unwrap();
    let (parts, ()) = from("192.0.2.1").into_parts();
    let mut admission = layer.check(&parts).await.unwrap();
    if let Some(sent) = sent {
        let mut response = Response::builder().status(sent.status);
        response = response.header(header::CONTENT_TYPE, sent.kind);
        if let Some(encoding) = sent.encoding {
            response = response.header(header::CONTENT_ENCODING, encoding);
        }
        admission.settle_by(&response.body(()).unwrap().into_parts().0);
        sent.chunks.iter().for_each(|chunk| admission.observe(chunk));
        if sent.ends {
            admission.end(sent.chunks.iter().map(|chunk| chunk.len() as u64).sum());
        } else {
            drop(admission);
        }
    } else {
        drop(admission);
    }
    tokio::time::sleep(SECOND).await;
    ROOM - limiter.peek("ip:192.0.2.1", 0).await.unwrap().remaining
}

const EVENTS: &str = "text/event-stream; charset=utf-8";
const JSON: &str = "application/json";

/// A chat completion, with `include_usage`.
const CHAT: &str = "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Grüße \"}}],\"usage\":null}\n\n\
    data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\n\"},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n\
    data: {\"id\":\"a\",\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29,\
    \"prompt_tokens_details\":{\"cached_tokens\":8},\"completion_tokens_details\":{\"reasoning_tokens\":3}}}\n\n\
    data: [DONE]\n\n";

/// A chat completion in one document.
const COMPLETION: &str = r#"{"id":"a","object":"chat.completion","choices":[{"message":{"content":"usage: {\"total_tokens\": 7}"}}],
    "usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":8}}}"#;

/// The events of a response, with lines that end by CR LF.
const RESPONSES: &str = "event: response.created\r\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"usage\":null}}\r\n\r\n\
    event: response.output_text.delta\r\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\r\n\r\n\
    event: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"usage\":{\"input_tokens\":19,\
    \"input_tokens_details\":{\"cached_tokens\":8},\"output_tokens\":10,\"output_tokens_details\":{\"reasoning_tokens\":0},\
    \"total_tokens\":29}}}\r\n\r\n";

const EMBEDDINGS: &str = r#"{"object":"list","data":[{"embedding":[0.1,0.2]}],"usage":{"prompt_tokens":29,"total_tokens":29}}"#;

/// The events of a message. The tokens of the output are all so far.
const MESSAGES: &str = "event: message_start\ndata: {\"type\": \"message_start\", \"message\": {\"id\": \"m\", \"content\": [], \
    \"usage\": {\"input_tokens\": 6, \"cache_creation_input_tokens\": 5, \"cache_read_input_tokens\": 8, \"output_tokens\": 1}}}\n\n\
    event: content_block_delta\ndata: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"type\": \"text_delta\", \"text\": \"Hi\"}}\n\n\
    event: ping\ndata: {\"type\": \"ping\"}\n\n\
    event: message_delta\ndata: {\"type\": \"message_delta\", \"delta\": {\"stop_reason\": null}, \"usage\": {\"output_tokens\": 4}}\n\n\
    event: message_delta\ndata: {\"type\": \"message_delta\", \"delta\": {\"stop_reason\": \"end_turn\"}, \"usage\": {\"output_tokens\": 10}}\n\n\
    event: message_stop\ndata: {\"type\": \"message_stop\"}\n\n";

/// As of tools on the server: the end corrects the input.
const CORRECTED: &str = "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":0,\"output_tokens\":1}}}\n\n\
    data: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":6,\"cache_creation_input_tokens\":5,\"cache_read_input_tokens\":8,\
    \"output_tokens\":10}}\n\n";

const MESSAGE: &str = r#"{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn",
    "usage":{"input_tokens":6,"cache_creation_input_tokens":5,"cache_read_input_tokens":8,"output_tokens":10}}"#;

/// A byte order mark, comments, lines that end by CR, and an event in several lines of data.
const ODD: &str = "\u{feff}data: {\"units\": 3}\r\r:é data: {\"units\": 90}\r\rid: 7\rretry: 10\rdata:{\"units\":\rdata: 28,\rdata\r\
    data:  \"ünit\": [1]}\r\rdata\r\rdata: {\"units\": 29}\r\rdata: [DONE]\r\r";

const LINES: &str = "{\"units\": 1}\n\n{\"text\":\"{\\\"units\\\":80}\"}\r\n  {\"units\": 29}  \n{\"units\": \"90\"}\n";

/// The last line and the last event may have no end.
const OPEN_LINES: &str = "{\"units\": 1}\n{\"units\": 29}";
const OPEN_EVENT: &str = "data: {\"units\": 1}\n\ndata: {\"units\": 29}";

/// Whatever the form, wherever chunks end.
#[tokio::test(start_paused = true)]
async fn usage_is_read_wherever_chunks_end() {
    let at = |pointer: &str| Usage::at(pointer).unwrap();
    for (name, usage, kind, body) in [
        ("chat", Usage::openai(), EVENTS, CHAT),
        ("completion", Usage::openai(), JSON, COMPLETION),
        ("responses", Usage::openai(), EVENTS, RESPONSES),
        ("embeddings", Usage::openai(), JSON, EMBEDDINGS),
        ("messages", Usage::anthropic(), EVENTS, MESSAGES),
        ("corrected", Usage::anthropic(), EVENTS, CORRECTED),
        ("message", Usage::anthropic(), JSON, MESSAGE),
        ("odd", at("/units"), EVENTS, ODD),
        ("lines", at("/units"), "application/x-ndjson", LINES),
        ("open lines", at("/units"), "application/jsonl", OPEN_LINES),
        ("open event", at("/units"), EVENTS, OPEN_EVENT),
        ("by default", at("/units").format(Format::JsonLines), "text/plain", LINES),
        ("vendor", at("/a/1/b~1c"), "application/vnd.x+json", r#"{"a":[{},{"b/c":29}]}"#),
        ("whole", at("/units"), JSON, "\u{feff}{\"units\": 29.0}\n"),
    ] {
        let sent = Sent::whole(kind, body);
        let bytes = body.as_bytes();
        let single: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(charged(usage.clone(), Some(&sent)).await, 29, "{name}");
        assert_eq!(
            charged(usage.clone(), Some(&sent.chunked(single))).await,
            29,
            "{name}, byte by byte"
        );
        for at in 0..bytes.len() {
            let halves = vec![&bytes[..at], &bytes[at..]];
            let cost = charged(usage.clone(), Some(&sent.chunked(halves))).await;
            assert_eq!(cost, 29, "{name}, cut at {at}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn costs_are_computed_from_the_usage() {
    for (usage, kind, body) in
        [(Usage::openai(), EVENTS, CHAT), (Usage::anthropic(), EVENTS, MESSAGES)]
    {
        let sent = Sent::whole(kind, body);
        let of =
            async |cost: fn(&Tokens) -> u64| charged(usage.clone().cost(cost), Some(&sent)).await;
        assert_eq!(of(|tokens| tokens.input).await, 19);
        assert_eq!(of(|tokens| tokens.cached_input).await, 8);
        assert_eq!(of(|tokens| tokens.uncached_input() + 5 * tokens.output).await, 11 + 50);
        assert_eq!(of(|_| 0).await, 0);
        assert_eq!(of(|_| 5_000).await, 5_000, "more than the estimate");
    }
}

/// The rule for each course that leaves the usage unknown: at its end, broken off, failed, compressed, without a response.
#[tokio::test(start_paused = true)]
async fn a_response_that_does_not_state_its_usage_is_charged_by_the_rule() {
    let begun = MESSAGES.find("event: message_delta").unwrap();
    let (begun, last) = (&MESSAGES[..begun], &MESSAGES[..MESSAGES.len() - 2]);
    let chat = CHAT.find("data: {\"id\":\"a\",\"choices\":[],").unwrap();
    let (chat, half) = (&CHAT[..chat], &CHAT[..chat + 80]);
    let cut = |body| Sent { ends: false, ..Sent::whole(EVENTS, body) };
    let failed =
        |kind, body| Sent { status: StatusCode::TOO_MANY_REQUESTS, ..Sent::whole(kind, body) };
    let packed = Sent { encoding: Some("gzip"), ..Sent::whole(EVENTS, CHAT) };
    let plain = Sent { encoding: Some("Identity"), ..Sent::whole(EVENTS, CHAT) };
    let length = |text: &str| (text.len() as u64).div_ceil(10);
    use Unmeasured::{Bytes, Estimate, Events, Nothing};
    for (name, usage, sent, costs) in [
        // The estimate, nothing, two for an event, and one for ten bytes.
        (
            "says nothing",
            Usage::openai(),
            Some(Sent::whole(EVENTS, chat)),
            [ESTIMATE, 0, 4, length(chat)],
        ),
        ("breaks off", Usage::openai(), Some(cut(chat)), [ESTIMATE, 0, 4, length(chat)]),
        (
            "breaks off in an event",
            Usage::openai(),
            Some(cut(half)),
            [ESTIMATE, 0, 4, length(half)],
        ),
        ("is empty", Usage::openai(), Some(Sent::whole(EVENTS, "")), [ESTIMATE, 0, 0, 0]),
        ("never came", Usage::openai(), None, [ESTIMATE, 0, 0, 0]),
        ("is compressed", Usage::openai(), Some(packed), [ESTIMATE, 0, 0, length(CHAT)]),
        ("is not compressed", Usage::openai(), Some(plain), [29; 4]),
        (
            "is a page",
            Usage::openai(),
            Some(Sent::whole("text/html", "data: {}\n\n")),
            [ESTIMATE, 0, 0, 1],
        ),
        // The input is known, and the output as far as it was stated.
        (
            "has begun",
            Usage::anthropic(),
            Some(cut(begun)),
            [ESTIMATE, 20, 19 + 6, 19 + length(begun)],
        ),
        // All is known before the end.
        ("is left after its usage", Usage::openai(), Some(cut(CHAT)), [29; 4]),
        ("is left in its last event", Usage::anthropic(), Some(cut(last)), [29; 4]),
        ("failed", Usage::openai(), Some(failed(JSON, r#"{"error":{}}"#)), [0; 4]),
        ("failed with its usage", Usage::openai(), Some(failed(JSON, COMPLETION)), [29; 4]),
    ] {
        for (rule, cost) in [Estimate, Nothing, Events(2), Bytes(10)].into_iter().zip(costs) {
            let usage = usage.clone().if_unmeasured(rule);
            assert_eq!(
                charged(usage, sent.as_ref()).await,
                cost,
                "a response that {name}, {rule:?}"
            );
        }
    }
    // The rule for failures is one of its own, and never below what was seen.
    let error = failed(JSON, r#"{"error":{}}"#);
    let usage = Usage::openai().if_unmeasured(Nothing).if_failed(Estimate);
    assert_eq!(charged(usage, Some(&error)).await, ESTIMATE);
    let costly = MESSAGES[..MESSAGES.find("event: content").unwrap()].replace(": 6", ": 60000");
    assert_eq!(
        charged(Usage::anthropic(), Some(&cut(&costly))).await,
        60_014,
        "more than the estimate"
    );
}

#[tokio::test(start_paused = true)]
async fn events_and_lines_are_counted() {
    for (kind, body, whole, cut) in [
        (EVENTS, CHAT, 3, 3),
        (EVENTS, ODD, 4, 4),
        (EVENTS, OPEN_EVENT, 2, 1),
        ("application/x-ndjson", LINES, 4, 4),
        ("application/x-ndjson", OPEN_LINES, 2, 1),
        (JSON, COMPLETION, 1, 0),
    ] {
        let sent = Sent::whole(kind, body);
        assert_eq!(charged(Usage::events(), Some(&sent)).await, whole, "{body}");
        let sent = Sent { ends: false, ..sent };
        assert_eq!(charged(Usage::events(), Some(&sent)).await, ESTIMATE, "{body}");
        let usage = Usage::events().if_unmeasured(Unmeasured::Events(1));
        assert_eq!(charged(usage, Some(&sent)).await, cut, "{body}");
    }
}

/// Memory is bounded: longer documents are skipped, and those around them are read. A comment may be of any length.
#[tokio::test(start_paused = true)]
async fn documents_beyond_the_bound_are_skipped() {
    let filler = "x".repeat(100);
    let long = format!("{{\"units\":70,\"text\":\"{filler}\"}}");
    let event = |document: &str| format!("data: {document}\n\n");
    let small = |units: u64| event(&format!("{{\"units\":{units}}}"));
    let lines =
        format!("data: {{\"text\":\ndata: \"{}\",\ndata: \"{}\",\n", &filler[..40], &filler[..40]);
    for (name, kind, body, cost) in [
        ("a line", EVENTS, small(29) + &event(&long), 29),
        ("an earlier line", EVENTS, event(&long) + &small(29), 29),
        ("lines of one event", EVENTS, small(29) + &lines + "data: \"units\":80}\n\n", 29),
        ("a comment", EVENTS, format!(":{filler}\n") + &small(29), 29),
        ("a comment in an event", EVENTS, format!("data: {{\"units\":29}}\n:{filler}\n\n"), 29),
        (
            "a line in an event",
            EVENTS,
            small(29) + &format!("data: {long}\ndata: {{\"units\":80}}\n\n"),
            29,
        ),
        (
            "the first line, with a mark",
            EVENTS,
            format!("\u{feff}data: {long}\ndata: {{\"units\":80}}\n\n"),
            ESTIMATE,
        ),
        ("a JSON line", "application/jsonl", format!("{long}\n{{\"units\":29}}\n"), 29),
        ("a document", JSON, long.clone(), ESTIMATE),
        ("the only event", EVENTS, event(&long), ESTIMATE),
    ] {
        for size in [1, 7, 64, 65, 1000] {
            let sent = Sent::whole(kind, &body).chunked(body.as_bytes().chunks(size).collect());
            let usage = Usage::at("/units").unwrap().up_to(100);
            assert_eq!(charged(usage, Some(&sent)).await, cost, "{name}, in chunks of {size}");
        }
    }
}

/// The first skipped document of a layer is an event.
#[tokio::test(start_paused = true)]
async fn a_skipped_document_is_reported_once() {
    let (log, _guard) = Log::start();
    let body = "data: {\"units\":70,\"text\":\"0123456789\"}\n\n";
    let usage = Usage::at("/units").unwrap();
    let sent = Sent::whole(EVENTS, body);
    for (usage, reports) in [
        (usage.clone().up_to(10), 1),
        (usage.clone().up_to(10), 0),
        (Usage::at("/units").unwrap().up_to(11), 1),
        (Usage::at("/units").unwrap(), 0),
    ] {
        charged(usage, Some(&sent)).await;
        let events = log.take();
        assert_eq!(events.len(), reports, "{events:?}");
        assert!(
            events.iter().all(|event| event.contains("WARN") && event.contains("`Usage::up_to`"))
        );
    }
}

/// The data of the events of a stream, from all of its text at once.
fn reference(text: &str) -> Vec<String> {
    let text =
        text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut data) = (Vec::new(), Vec::<&str>::new());
    for line in text.split('\n').chain([""]) {
        match line.split_once(':').unwrap_or((line, "")) {
            ("", _) if line.is_empty() && !data.is_empty() => {
                events.push(std::mem::take(&mut data).join("\n"));
            }
            ("data", value) => data.push(value.strip_prefix(' ').unwrap_or(value)),
            _ => {}
        }
    }
    events.retain(|event| event != "[DONE]");
    events
}

proptest! {
    #[test]
    fn chunks_do_not_matter(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "data:", "data: ", " ", "{\"u\":1}", "{\"u\":", "22}", "\r", "\n", "\r\n", "\n\n", ":", "\u{feff}", "é", "[DONE]",
            "event: x", "data", "{\"u\":3,\"v\":\"\u{1f600}\\u00e9\"}",
        ]), 0..30),
        sizes in prop::collection::vec(1..9_usize, 1..40),
    ) {
        let text = pieces.concat();
        let events = reference(&text);
        let mut units = events.iter().filter_map(|event| {
            serde_json::from_str::<serde_json::Value>(event).ok()?.get("u")?.as_u64()
        });
        let (units, count) = (units.next_back(), events.len() as u64);
        let (mut chunks, mut rest, mut sizes) = (Vec::new(), text.as_bytes(), sizes.iter().cycle());
        while !rest.is_empty() {
            let (chunk, behind) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            (rest, _) = (behind, chunks.push(chunk));
        }
        let sent = Sent::whole(EVENTS, "").chunked(chunks);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            assert_eq!(charged(Usage::events(), Some(&sent)).await, count, "{text:?}");
            let last = charged(Usage::at("/u").unwrap(), Some(&sent)).await;
            assert_eq!(last, units.unwrap_or(ESTIMATE), "{text:?}");
        });
    }
}
