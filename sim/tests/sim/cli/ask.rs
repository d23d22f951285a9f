//! Questions in JSON, as the page in a browser asks them: the answers are those of the command line.

use std::io::{Cursor, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use lockage_sim::ask::{Asked, Outside};
use serde_json::{Value, json};

use super::{SAMPLE, file, run, text};

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");

/// Files by their ids, and how often each was opened.
#[derive(Default)]
struct Files(Vec<(Vec<u8>, u32)>);

impl Outside for Files {
    fn open(&mut self, id: u64) -> Box<dyn Read + '_> {
        let (bytes, opened) = &mut self.0[id as usize];
        *opened += 1;
        Box::new(Cursor::new(&bytes[..]))
    }

    fn progress(&mut self, done: u64, all: u64) {
        assert!(done <= all);
    }
}

fn asked(question: &Value, files: &mut Files) -> String {
    String::from_utf8(Asked::default().ask(&question.to_string(), files)).unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = run(&[args, &["--json"]].concat());
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

fn error(question: &Value) -> Value {
    let answer: Value = serde_json::from_str(&asked(question, &mut Files::default())).unwrap();
    answer["error"].clone()
}

#[test]
fn answers_about_every_scenario_are_those_of_the_command_line_byte_for_byte() {
    for entry in std::fs::read_dir(SCENARIOS).unwrap() {
        let path = entry.unwrap().path();
        let (toml, path) = (std::fs::read_to_string(&path).unwrap(), path.to_str().unwrap());
        let ask = |verb| asked(&json!({ "verb": verb, "toml": toml }), &mut Files::default());
        let explored = printed(&["explore", "--scenario", path, "--engine", "model"]);
        assert_eq!(ask("replay"), explored, "{path}");
        assert_eq!(ask("compare"), printed(&["compare", path, "--engine", "model"]), "{path}");
        // Its fields are those of the file.
        let form: Value = serde_json::from_str(&ask("form")).unwrap();
        let limits = explored.matches("\"limiter\": ").count();
        assert_eq!(form["limits"].as_array().map(Vec::len), Some(limits), "{path}");
    }
}

#[test]
fn answers_about_a_log_and_a_limit_are_those_of_the_command_line() {
    let log = std::fs::read(SAMPLE).unwrap();
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&log).unwrap();
    let packed = packed.finish().unwrap();
    let (_folder, path) = file("sample.log", &packed);
    let limits = ["fixed-window 20/10s", "token-bucket 2/s burst 20"];
    let options = ["--by", "path", "--engine", "model", "--wait", "5s", "--seed", "7"];
    let with = ["--limit", limits[0], "--limit", limits[1]];
    let expected = printed(&[&["replay", &path], &with[..], &options].concat());
    let toml = format!("limits = {limits:?}\nseed = 7\n[callers]\nwait = '5s'");
    for bytes in [log, packed] {
        let mut files = Files(vec![(bytes, 0)]);
        let log = json!({ "id": 0, "name": "sample.log", "by": "path" });
        let question = json!({ "verb": "replay", "toml": toml, "log": log });
        let mut kept = Asked::default();
        for _ in 0..2 {
            let answer = String::from_utf8(kept.ask(&question.to_string(), &mut files)).unwrap();
            assert_eq!(answer, expected);
        }
        assert_eq!(files.0[0].1, 1, "what was read of a file is kept");
        let question = json!({
            "verb": "advise", "log": { "id": 0, "name": "" }, "toml": toml, "deny_clients": "5%",
            "windows": ["1min", "1s"],
        });
        let args = ["--deny-clients", "5%", "--window", "1s", "--window", "1min"];
        let advised = printed(&[&["advise", SAMPLE], &args[..]].concat());
        assert_eq!(asked(&question, &mut files), advised);
    }
    let worst = json!({ "verb": "worst", "limit": "sliding-window 10/60s", "budget": 2000 });
    let args = ["worst", "sliding-window 10/60s", "--budget", "2000", "--engine", "model"];
    assert_eq!(asked(&worst, &mut Files::default()), printed(&args));
}

#[test]
fn errors_name_their_field_or_position() {
    for (question, field, message) in [
        (json!({ "verb": "worst", "limit": "5/s" }), "limit", "expected a kind of limit"),
        (json!({ "verb": "worst" }), "limit", "expected a kind of limit"),
        (json!({ "verb": "advise", "deny_clients": "1" }), "deny_clients", "expected a percentage"),
        (json!({ "verb": "advise", "windows": ["1s", "soon"] }), "windows", "expected"),
        (json!({ "verb": "advise", "windows": ["0s"] }), "windows", "expected a window from"),
    ] {
        let error = error(&question);
        assert_eq!(error["field"], field, "{error}");
        assert!(error["message"].as_str().unwrap().contains(message), "{error}");
    }
    let toml = "limits = ['5/s']\ntraffic = { shape = 'poisson 5/s' }";
    let wrong = error(&json!({ "verb": "replay", "toml": toml }));
    let span = json!({ "start": 10, "end": 15 });
    assert_eq!((&wrong["field"], &wrong["span"]), (&"toml".into(), &span), "{wrong}");
    let many = "limits = ['sliding-log 5/s']\ntraffic = { shape = 'constant 99999999/s' }";
    for (question, message) in [
        (json!({ "verb": "ask" }), "unknown variant"),
        (json!({ "verb": "replay", "toml": "limits = ['sliding-log 5/s']" }), "traffic is empty"),
        (json!({ "verb": "replay", "toml": many }), "at most 5000000"),
    ] {
        let error = error(&question);
        assert!(error["message"].as_str().unwrap().contains(message), "{error}");
    }
}

const BOOK: &str = include_str!("../../../../rules/files/rules.toml");

#[test]
fn rules_are_read_written_and_checked_as_by_the_command_line() {
    let ask = |name: &str, text: &str, limits: Value| -> Value {
        let rules = json!({ "name": name, "text": text, "limits": limits });
        let question = json!({ "verb": "rules", "rules": rules });
        serde_json::from_str(&asked(&question, &mut Files::default())).unwrap()
    };
    let answer = ask("rules.toml", BOOK, json!([]));
    assert_eq!((&answer["text"], &answer["mistakes"]), (&json!(BOOK), &json!([])));
    let names: Vec<_> = answer["given"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["exports", "requests", "requests · pro", "chat"]);

    // The same limit in other words stays as it is written.
    let limits = json!([["requests · pro", "fixed-window 7/s"], ["exports", "fixed-window 5/24h"]]);
    let written = ask("rules.toml", BOOK, limits);
    let expected = BOOK.replace("token-bucket 600/min burst 100", "fixed-window 7/s");
    assert_eq!((&written["text"], &written["mistakes"]), (&json!(expected), &json!([])));

    let wrong = ask("rules.toml", BOOK, json!([["exports", "fixed-window \"5"]]));
    assert_eq!(wrong["mistakes"].as_array().map(Vec::len), Some(1), "{wrong}");
    assert!(wrong["mistakes"][0].as_str().unwrap().starts_with("rules.toml:3:11: "), "{wrong}");

    let text_with_mistakes = BOOK.replace("limit =", "limits =").replace("5/day", "5/fortnight");
    let (_folder, path) = file("rules.toml", text_with_mistakes.as_bytes());
    let printed = run(&["rules", &path, "--check"]);
    let answer = ask(&path, &text_with_mistakes, json!([]));
    let lines: Vec<&str> =
        answer["mistakes"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert!(lines.len() > 4 && answer["text"].is_null(), "{answer}");
    assert!(text(&printed.stderr).starts_with(&lines.join("\n")), "{answer}");

    let unknown = ask("rules.txt", BOOK, json!([]));
    assert!(
        unknown["mistakes"][0].as_str().unwrap().contains("expected a name that ends in .toml")
    );
}
