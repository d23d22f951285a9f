//! The samples of each format: their keys, times and costs, and their descriptions.

use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use lockage_sim::input::{By, Input, ReadOptions, read};
use serde_json::Value;

use super::{file, json, refused, run, text};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/formats");

/// The samples, all of the same five requests: the format, the microseconds of its times, and the description of the
/// key.
const SAMPLES: [(&str, &str, u64, &str); 17] = [
    ("combined.log", "log", 0, "the client's address or host name"),
    ("vhost_combined.log", "log", 0, "the client's address or host name"),
    ("syslog.log", "log", 0, "the client's address or host name"),
    ("containers.log", "log", 0, "the client's address or host name"),
    ("grep.log", "log", 0, "the client's address or host name"),
    ("forwarded.log", "log", 0, "the client's address or host name"),
    ("docker.json", "log", 0, "the client's address or host name"),
    ("nginx.json", "json", 0, "the client's address in `remote_addr`"),
    ("caddy.json", "json", 250_000, "the client's address in `request.client_ip`"),
    ("traefik.json", "json", 0, "the client's address in `ClientHost`"),
    ("logfmt.log", "logfmt", 0, "the client's address in `remote_addr`"),
    ("alb.log", "alb", 186_641, "the client's address in `client`"),
    ("cloudfront.log", "w3c", 0, "the client's address in `c-ip`"),
    ("iis.log", "w3c", 0, "the client's address in `c-ip`"),
    ("s3.log", "s3", 0, "the client's address in `remote_ip`"),
    ("table.csv", "csv", 0, "column `key`"),
    ("table.tsv", "csv", 0, "column `client_ip`"),
];

fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// The options of a sample: one has the addresses of proxies in it.
fn options(name: &str) -> ReadOptions {
    let trust =
        if name == "forwarded.log" { vec!["10.0.0.0/8".parse().unwrap()] } else { Vec::new() };
    ReadOptions { trust, ..ReadOptions::default() }
}

fn requests(input: &Input) -> Vec<(u64, &str, u64)> {
    let request = |request: &lockage_sim::trace::Request| {
        (request.at.as_micros(), input.trace.key(request.key), request.cost)
    };
    input.trace.requests().iter().map(request).collect()
}

fn keys(name: &str, options: &ReadOptions) -> Vec<String> {
    let input =
        read(&path(name), options, |_| ()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(input.unparsed.count, 0, "{name}");
    requests(&input).into_iter().map(|(_, key, _)| key.to_owned()).collect()
}

#[test]
fn every_file_of_the_folder_is_a_sample() {
    let mut there: Vec<_> =
        std::fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().file_name()).collect();
    let mut known = SAMPLES.map(|(name, ..)| std::ffi::OsString::from(name));
    there.sort();
    known.sort();
    assert_eq!(there, known);
}

#[test]
fn samples_have_the_same_keys_times_and_costs() {
    for (name, format, micros, key) in SAMPLES {
        let input = read(&path(name), &options(name), |_| ())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let at = |second: u64| 1_773_306_000_000_000 + second * 1_000_000 + micros;
        let clients =
            ["192.0.2.1", "192.0.2.1", "192.0.2.1", "2001:db8:1:2::/64", "2001:db8:1:2::/64"];
        let cost = |place: u64| if format == "csv" { place + 1 } else { 1 };
        let expected: Vec<_> =
            (0..5).zip(clients).map(|(place, client)| (at(place), client, cost(place))).collect();
        assert_eq!(requests(&input), expected, "{name}");
        assert_eq!((input.unparsed.count, input.reading.format), (0, format), "{name}");
        assert!(input.reading.key.starts_with(key), "{name}: {:?}", input.reading);
    }
}

#[test]
fn every_format_has_the_other_keys_too() {
    for (name, ..) in SAMPLES.into_iter().filter(|(_, format, ..)| *format != "csv") {
        let by = |by| keys(name, &ReadOptions { by, ..options(name) }).join(" ");
        // Balancers know no users.
        if !matches!(name, "alb.log" | "cloudfront.log") {
            assert_eq!(by(By::User), "- - - alice alice", "{name}");
        }
        assert_eq!(by(By::Method), "GET GET GET POST POST", "{name}");
        assert_eq!(by(By::Path), "/ /cart / /cart /cart", "{name}");
        assert_eq!(by(By::Status), "200 200 304 201 201", "{name}");
        assert!(by(By::Agent).starts_with("curl/8.5 curl/8.5 curl/8.5 Mozilla/5.0"), "{name}");
        let whole = keys(name, &ReadOptions { ipv6_prefix: 128, ..options(name) });
        assert_eq!(whole[3..], ["2001:db8:1:2::a/128", "2001:db8:1:2::b/128"], "{name}");
    }
}

#[test]
fn reports_begin_with_the_detected_input() {
    for (name, _, _, key) in SAMPLES {
        let path = path(name);
        let path = path.to_str().unwrap();
        for command in [
            &["replay", path, "--limit", "fixed-window 2/s"][..],
            &["advise", path, "--window", "1s"],
        ] {
            let trust = ["--trust", "10.0.0.0/8"];
            let shown = text(&run(&[command, &trust].concat()).stdout);
            let head: Vec<&str> = shown.lines().take(8).collect();
            assert!(
                head.iter().any(|line| line.contains("read as") && line.contains(key)),
                "{head:?}"
            );
            assert!(
                head.iter()
                    .any(|line| line.starts_with("the time is") && line.contains("the cost is")),
                "{head:?}"
            );
        }
        let report =
            json(&["replay", path, "--limit", "fixed-window 2/s", "--trust", "10.0.0.0/8"]);
        assert!(report["reading"]["key"].as_str().unwrap().starts_with(key), "{report}");
    }
    let notes = |name: &str| {
        json(&["replay", path(name).to_str().unwrap(), "--limit", "fixed-window 2/s"])["reading"]["notes"].to_string()
    };
    assert!(
        notes("syslog.log").contains("a prefix that is left out: date, host and program (syslog)"),
        "{}",
        notes("syslog.log")
    );
    assert!(notes("grep.log").contains("2 lines have colours"), "{}", notes("grep.log"));
    assert!(
        notes("forwarded.log")
            .contains("the client is the last; if that is a proxy, name its network: --trust")
    );
    assert!(notes("docker.json").contains("in `log` of JSON objects"));
}

#[test]
fn an_ipv6_client_is_its_network() {
    let rows = (0..196)
        .map(|host| format!("{host},2001:db8::{host:x}\n{host},2001:db8:0:100::{host:x}\n"));
    let (_folder, path) = file("many.csv", rows.collect::<String>().as_bytes());
    for (prefix, keys) in [
        (&[][..], 2),
        (&["--ipv6-prefix", "56"], 2),
        (&["--ipv6-prefix", "48"], 1),
        (&["--ipv6-prefix", "128"], 392),
    ] {
        let report = json(&[&["replay", &path, "--limit", "fixed-window 1/day"], prefix].concat());
        assert_eq!(report["keys"], keys, "{prefix:?}");
    }
    assert_eq!(json(&["advise", &path])["clients"], 2);
    let error = refused(&["advise", &path, "--ipv6-prefix", "128"], 1);
    assert!(error.contains("392 of 392 clients have one request each"), "{error}");
    for bits in ["0", "129", "wide"] {
        refused(&["advise", &path, "--ipv6-prefix", bits], 2);
    }
}

#[test]
fn packed_logs_are_unpacked_or_refused_with_the_right_tool() {
    let log = std::fs::read(path("combined.log")).unwrap();
    let expected =
        json(&["replay", path("combined.log").to_str().unwrap(), "--limit", "fixed-window 1/s"]);
    let gz = |bytes: &[u8]| {
        let mut gz = GzEncoder::new(Vec::new(), Compression::default());
        std::io::Write::write_all(&mut gz, bytes).unwrap();
        gz.finish().unwrap()
    };
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let zst = |bytes: &[u8]| ruzstd::encoding::compress_to_vec(bytes, level);
    let (first, second) = log.split_at(200);
    // Two frames, and between them one that other programs skip.
    let frames = [&zst(first)[..], b"\x50\x2a\x4d\x18\x03\0\0\0abc", &zst(second)].concat();
    for packed in [gz(&log), gz(&gz(&log)), zst(&log), frames] {
        let (_folder, path) = file("log", &packed);
        assert_eq!(json(&["replay", &path, "--limit", "fixed-window 1/s"]), expected);
    }
    let cut = zst(&log);
    for (bytes, expected) in [
        (&cut[..cut.len() / 2], "cannot read"),
        (b"BZh91AY", "bzcat"),
        (b"\xfd7zXZ\0", "xzcat"),
        (b"PK\x03\x04", "unzip -p"),
        (b"\xff\xfe1\09\0", "iconv -f UTF-16"),
        (b"1\x009\x002\0", "iconv -f UTF-16"),
        (b"\x001\x009\x002", "iconv -f UTF-16"),
        (&gz(b"PK\x03\x04"), "unzip -p"),
    ] {
        let (_folder, path) = file("log", bytes);
        let error = refused(&["replay", &path, "--limit", "fixed-window 1/s"], 1);
        assert!(error.contains(expected), "{error}");
    }
}

const DATE: &str = "[12/Mar/2026:09:00:00 +0000] \"GET / HTTP/1.1\" 200 5";

#[test]
fn invalid_clients_are_refused_with_the_line_and_a_remedy() {
    let json = r#"{"time":"2026-03-12T09:00:00Z","status":200,"session":"a"}"#;
    for (content, args, expected) in [
        (
            format!("Hello there 192.0.2.1 - - {DATE}\n"),
            &[][..],
            &["line 1", "an address or a host name", "--key"][..],
        ),
        (format!("\n- - - {DATE}\n"), &[], &["line 2", "an address or a host name"]),
        (
            "Mar 12 09:00:00 lb haproxy[1]: 192.0.2.1:3 [12/Mar/2026:09:00:00.655] in st/srv1 10/0/30 200 - - {de} {} \"GET /\"".to_owned(),
            &[],
            &["line 1", "the quoted request after the [date]", "of other logs, make lines of timestamp,key"],
        ),
        ("2026-03-12 09:00:00,123 - app - INFO - 192.0.2.1\n".to_owned(), &[], &["as csv: \"2026"]),
        ("yesterday,192.0.2.1\n".to_owned(), &[], &["as csv: \"yesterday\" is neither"]),
        (
            json.to_owned(),
            &[],
            &["line 1", "no field has the client's address", "--by", "--key, of session, status, time"],
        ),
        (
            json.to_owned(),
            &["--key", "user_id"],
            &["no field \"user_id\": there are session, status, time"],
        ),
        (json.to_owned(), &["--key", "session", "--time", "when"], &["no field \"when\""]),
        (
            r#"{"time":"2026-03-12T09:00:00Z","client":"app 7"}"#.to_owned(),
            &[],
            &["\"app 7\"", "--key client"],
        ),
        (
            "time=2026-03-12T09:00:00Z level=info".to_owned(),
            &[],
            &["no field has the client's address", "--by", "--key, of time, level"],
        ),
        (
            format!("192.0.2.1 - - {DATE}\n"),
            &["--key", "session"],
            &["--key session: an access log has address, user"],
        ),
        ("time,name\n5,a\n".to_owned(), &[], &["no column named key, but time, name"]),
        (
            "time,key\n5,a\n".to_owned(),
            &["--key", "client"],
            &["no column named client, but time, key"],
        ),
        ("5,a\n".to_owned(), &["--key", "client"], &["--key client needs a header"]),
        ("time,ip\n5,Mar\n".to_owned(), &[], &["\"Mar\" is no address"]),
        ("192.0.2.1 12 09:00\n".to_owned(), &["--format", "w3c"], &["#Fields: date time c-ip"]),
    ] {
        let (_folder, path) = file("a.log", content.as_bytes());
        let error = refused(&[&["replay", &path, "--limit", "fixed-window 1/s"], args].concat(), 1);
        for expected in expected {
            assert!(error.contains(expected), "{content}: {error}");
        }
    }
    for args in [
        &["--trust", "proxy"][..],
        &["--trust", "0.0.0.0/0"],
        &["--format", "xml"],
        &["--key", "a", "--by", "user"],
    ] {
        refused(&[&["replay", "a.log", "--limit", "fixed-window 1/s"], args].concat(), 2);
    }
}

/// Lines without an address are requests of a limit for all of them, and are of their format for any other.
#[test]
fn lines_without_an_address_need_another_key() {
    let limit = ["--limit", "fixed-window 1/s"];
    for line in [
        r#"{"ts":1773306000000000,"user":"ann"}"#,
        r#"{"log":"{\"ts\":1773306000000000,\"user\":\"ann\"}\n","stream":"stdout","time":1773306000000000}"#,
        "ts=1773306000000000 user=ann",
        "#Fields: date time cs-username\n2026-03-12 09:00:00 ann",
        "time,user\n1773306000000000,ann",
    ] {
        let last = line.lines().last().unwrap();
        let (_folder, path) = file("a.log", format!("{line}\n{last}\n").as_bytes());
        for (by, key) in [("all", "all"), ("user", "ann")] {
            let report = json(&[&["replay", &path, "--by", by][..], &limit].concat());
            assert_eq!(report["requests"], 2, "{line}");
            assert_eq!(report["limiters"][0]["worst"][0]["key"], key, "{line}");
        }
        let error = refused(&[&["replay", &path][..], &limit].concat(), 1);
        assert!(error.contains("--by") && !error.contains("no known format"), "{line}: {error}");
    }
}

#[test]
fn a_named_field_is_a_key_with_any_content() {
    for (content, args, key) in [
        (format!("Hello there 192.0.2.1 - - {DATE}\n"), &["--key", "2"][..], "there"),
        (
            r#"{"when":1773306000,"tenant":{"id":7}}"#.to_owned(),
            &["--key", "tenant.id", "--time", "when"],
            "7",
        ),
        ("ts=1773306000.5 session=\"a b\"".to_owned(), &["--key", "session"], "a b"),
        ("at,who\n5,bob\n".to_owned(), &["--key", "who", "--time", "at"], "bob"),
        ("bob;x;5\n".to_owned(), &["--key", "1", "--time", "3"], "bob"),
        (
            r#"{"ts":1773306000,"xff":"192.0.2.1, 203.0.113.9"}"#.to_owned(),
            &["--key", "xff"],
            "203.0.113.9",
        ),
    ] {
        let (_folder, path) = file("a.log", content.as_bytes());
        let report = json(
            &[
                &[
                    "replay",
                    &path,
                    "--limit",
                    "fixed-window 1/s + fixed-window 1/day",
                    "--top",
                    "1",
                ],
                args,
            ]
            .concat(),
        );
        let shown = &report["limiters"][0]["state"]["key"];
        assert_eq!((&report["requests"], shown), (&1.into(), &Value::from(key)), "{content}");
    }
}

#[test]
fn lists_of_addresses_are_read_as_each_server_writes_them() {
    let iis = "#Fields: date time s-ip c-ip cs(X-Forwarded-For)\n2026-03-12 09:00:00 198.51.100.1 10.0.0.1 203.0.113.1,+192.0.2.1";
    let cloudfront = "#Fields: date time c-ip x-forwarded-for\n2026-03-12\t09:00:00\t10.0.0.1\t203.0.113.1,%20192.0.2.1";
    let nginx = r#"{"msec":1773306000,"remote_addr":"10.0.0.1","http_x_forwarded_for":"203.0.113.1, 192.0.2.1:80"}"#;
    let combined = format!("10.0.0.1 - - {DATE} \"-\" \"curl\" \"203.0.113.1, 192.0.2.1\"");
    for content in [iis, cloudfront, nginx, &combined] {
        let (_folder, path) = file("a.log", content.as_bytes());
        let replay = ["replay", &path, "--limit", "fixed-window 1/s + fixed-window 1/day"];
        let report = json(&[&replay[..], &["--trust", "10.0.0.0/8"]].concat());
        assert_eq!(report["limiters"][0]["state"]["key"], "192.0.2.1", "{content}");
        let report = json(&replay);
        assert_eq!(report["limiters"][0]["state"]["key"], "10.0.0.1", "{content}");
        let notes = report["reading"]["notes"].to_string();
        assert!(notes.contains("X-Forwarded-For, which is not read"), "{content}: {notes}");
    }
}

#[test]
fn a_time_is_the_first_field_that_is_one() {
    let message = format!("\u{1b}[32m192.0.2.1\u{1b}[0m - - {DATE}");
    let journald = format!("{{\"MESSAGE\":{:?},\"PRIORITY\":\"6\"}}", message.as_bytes());
    for content in [
        r#"{"time":0.004,"ts":1773306000,"ip":"192.0.2.1"}"#,
        r#"{"time":"09:00:00","date":"2026-03-12","ip":"192.0.2.1"}"#,
        "2026-03-12T09:00:00Z heroku[router]: at=info method=GET path=\"/\" fwd=\"192.0.2.1\" status=200",
        r#"web-1  | {"msec":"1773306000.000","remote_addr":"192.0.2.1"}"#,
        "<190>Mar 12 09:00:00 web1 app: time=\"2026-03-12 09:00:00,000\" client_ip=192.0.2.1",
        "<158>1 2026-03-12T09:00:00Z host heroku router - at=info method=GET path=\"/\" fwd=\"192.0.2.1\" status=200",
        r#"{"request_time":"12/Mar/2026:10:00:00 +0100","req":{"remoteAddress":"::ffff:192.0.2.1"}}"#,
        "when,timestamp,ip\n,2026-03-12 09:00:00.000 UTC,192.0.2.1",
        // Journald writes a message with colours in it as bytes.
        &journald,
    ] {
        let (_folder, path) = file("a.log", content.as_bytes());
        let report = json(&["replay", &path, "--limit", "fixed-window 1/s"]);
        assert_eq!(report["from"], "2026-03-12T09:00:00Z", "{content}: {}", report["reading"]);
        assert_eq!(report["limiters"][0]["state"]["key"], "192.0.2.1", "{content}");
    }
    // A message with a number and a comma is no CSV.
    let (_folder, path) = file("a.log", br#"{"log":"5,alice","time":"2026-03-12T09:00:00Z"}"#);
    let error = refused(&["replay", &path, "--limit", "fixed-window 1/s"], 1);
    assert!(error.contains("no field has the client's address"), "{error}");
    let (_folder, path) = file("a.log", br#"{"time":"soon","ip":"192.0.2.1"}"#);
    let error = refused(&["replay", &path, "--limit", "fixed-window 1/s"], 1);
    assert!(error.contains("`time` is no time: \"soon\""), "{error}");
}

#[test]
fn other_formats_in_a_file_are_said_and_too_many_lines_are_an_error() {
    let line = |host: u32| format!("192.0.2.{host} - - {DATE}\n");
    let other = r#"{"ts":1773306000,"client_ip":"192.0.2.9"}"#;
    let mixed = [line(1), line(1), line(2), format!("{other}\n")].concat();
    let (_folder, path) = file("mixed.log", mixed.as_bytes());
    let report = json(&["replay", &path, "--limit", "fixed-window 1/s"]);
    assert_eq!(report["requests"], 3);
    let reason = report["unparsed_lines"][0]["reason"].as_str().unwrap();
    assert_eq!(reason, "it is of the format json, and the file of log");
    let bad = [line(1), line(2), "a\n".to_owned(), "b\n".to_owned(), "c\n".to_owned()].concat();
    let (_folder, path) = file("bad.log", bad.as_bytes());
    let error = refused(&["replay", &path, "--limit", "fixed-window 1/s"], 1);
    assert!(
        error.contains("3 of its 5 lines are no requests of log; line 3: expected an address"),
        "{error}"
    );
    let once = (1..9).map(line).collect::<String>();
    let (_folder, path) = file("once.log", once.as_bytes());
    let error = refused(&["advise", &path], 1);
    assert!(error.contains("8 of 8 clients have one request each"), "{error}");
}
