use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use lockage_telemetry::{BUCKETS, Metrics};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

use super::run::{Outage, run};

/// The values that Prometheus reads, by name and labels.
pub(super) struct Page(BTreeMap<(String, BTreeMap<String, String>), f64>);

impl Page {
    fn read(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
            let label = |label: &str| {
                let (name, word) = label.split_once('=').expect("a label has a word");
                (name.to_owned(), word.trim_matches('"').to_owned())
            };
            ((name.to_owned(), labels.map(label).collect()), value.parse().expect("a number"))
        };
        Page(samples.map(sample).collect())
    }

    /// The sum of all series of this name that have these labels.
    pub(super) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let name = format!("lockage_{name}");
        let has = |own: &BTreeMap<String, String>| {
            labels.iter().all(|(label, word)| own.get(*label).is_some_and(|own| own == word))
        };
        let found: Vec<f64> = self
            .0
            .iter()
            .filter(|((own, labels), _)| *own == name && has(labels))
            .map(|(_, value)| *value)
            .collect();
        assert!(!found.is_empty(), "no {name} with {labels:?}");
        found.iter().sum()
    }

    fn names(&self) -> BTreeSet<&str> {
        self.0.keys().map(|(name, _)| &**name).collect()
    }
}

/// Serves the metrics of an observer on a free port.
pub(super) fn serve() -> (Metrics, SocketAddr) {
    let mut builder = PrometheusBuilder::new().with_recommended_naming(true);
    for (name, buckets) in BUCKETS {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.into()), buckets).unwrap();
    }
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let builder = builder.with_http_listener(free);
    // On a runtime of its own, whose time goes on.
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (recorder, exporter) = builder.build().unwrap();
            send.send(Metrics::by(recorder)).unwrap();
            drop(exporter.await);
        });
    });
    (receive.recv().unwrap(), free)
}

/// Reads `/metrics` over HTTP, as Prometheus does.
pub(super) fn scrape(address: SocketAddr) -> Page {
    let connect = || TcpStream::connect(address).ok();
    // The listener may not be ready yet.
    let mut stream = std::iter::repeat_with(connect).flatten().next().unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    Page::read(body)
}

/// Prometheus reads the counts of the reference, for decisions of each source and for leases.
#[tokio::test(start_paused = true)]
async fn prometheus_counts_match_the_reference() {
    let (metrics, address) = serve();
    let seed = fastrand::u64(..);
    let counts = run(metrics, seed).await;
    let page = scrape(address);
    let words = |allowed: bool| if allowed { "allowed" } else { "denied" };
    for (name, counts) in [("requests", &counts.requests), ("cost", &counts.cost)] {
        for (&(policy, allowed), &count) in counts {
            let labels = [("policy", policy), ("result", words(allowed))];
            let name = format!("rate_limiting_{name}_total");
            assert_eq!(
                page.sum(&name, &labels),
                count as f64,
                "{name} {labels:?} with seed {seed}"
            );
        }
    }
    let requests = |labels: &[(&str, &str)]| page.sum("rate_limiting_requests_total", labels);
    for (policy, source) in
        [("plain", "store"), ("cached", "deny_cache"), ("ahead", "prefetch"), ("alone", "fallback")]
    {
        assert!(requests(&[("policy", policy), ("source", source)]) > 0.0, "{policy} {source}");
        let durations = "rate_limiting_decision_duration_seconds_count";
        assert_eq!(page.sum(durations, &[("policy", policy)]), 200.0);
        let denied = requests(&[("policy", policy), ("result", "denied")]);
        assert_eq!(
            page.sum("rate_limiting_retry_after_seconds_count", &[("policy", policy)]),
            denied
        );
    }
    let stored = [("policy", "stored"), ("result", "misconfigured"), ("source", "none")];
    assert_eq!(requests(&stored), 2.0);
    assert_eq!(page.sum("store_available", &[("store", "plain")]), 1.0);
    assert_eq!(page.sum("store_available", &[("store", "alone")]), 0.0);
    let plain = [("store", "plain"), ("command", "limiter_acquire"), ("outcome", "ok")];
    assert_eq!(page.sum("store_operation_duration_seconds_count", &plain), 200.0);

    let family = ("family", "invoices");
    let acquired = |result| page.sum("lock_acquisitions_total", &[family, ("result", result)]);
    assert_eq!((acquired("acquired"), acquired("busy")), (5.0, 1.0));
    assert_eq!(page.sum("lock_losses_total", &[family, ("result", "refused")]), 1.0);
    assert_eq!(page.sum("lock_wait_duration_seconds_count", &[family]), 5.0);
    assert_eq!(page.sum("lock_hold_duration_seconds_count", &[family]), 4.0);
    assert!(page.sum("lock_hold_duration_seconds_sum", &[family]) >= 2.0);
    let active = [("policy", "invoices")];
    assert_eq!(page.sum("rate_limiting_active_request_leases", &active), 2.0);
}

/// A store that is away is reported, until it is back.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_not_available() {
    let (metrics, address) = serve();
    let outage = Outage::begin(metrics).await;
    let store = [("store", "sessions")];
    assert_eq!(scrape(address).sum("store_available", &store), 0.0);
    outage.end().await;
    assert_eq!(scrape(address).sum("store_available", &store), 1.0);
}

/// Histograms have the buckets that they were given, not quantiles.
#[tokio::test(start_paused = true)]
async fn histograms_have_their_buckets() {
    let (metrics, address) = serve();
    run(metrics, 1).await;
    let page = scrape(address);
    for (name, buckets) in BUCKETS {
        let name =
            format!("{}_seconds_bucket", name.strip_prefix("lockage.").unwrap().replace('.', "_"));
        let least = buckets[0].to_string();
        page.sum(&name, &[("le", &least)]);
    }
}

/// The board queries only metrics and labels that the exporter has, shows each metric, and names its lines by labels that
/// the query keeps.
#[tokio::test(start_paused = true)]
async fn the_board_and_the_exporter_have_the_same_metrics() {
    let (metrics, address) = serve();
    run(metrics.clone(), 1).await;
    super::rules::run(metrics).await;
    let page = scrape(address);
    let board = Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana.json");
    let board: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(board).unwrap()).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut asked = BTreeSet::new();
    for target in targets {
        let [query, legend] =
            ["expr", "legendFormat"].map(|name| target[name].as_str().unwrap().to_owned());
        let words = query.split(|letter| !is_word(letter));
        let names: Vec<&str> = words.filter(|word| word.starts_with("lockage_")).collect();
        let between = |text: &str, open: &str, close| {
            let parts = text.split(open).skip(1).filter_map(|part| part.split_once(close));
            parts.map(|(inside, _)| inside.to_owned()).collect::<Vec<_>>()
        };
        let kept = between(&query, " by (", ")").join(", ");
        let kept: BTreeSet<&str> = kept.split(", ").collect();
        let matchers = between(&query, "{", "}").join(", ");
        let matched = matchers.split(", ").filter_map(|matcher| matcher.split(['=', '!']).next());
        let labels: BTreeSet<&str> = kept.iter().copied().chain(matched).collect();
        for label in labels.into_iter().filter(|label| !label.is_empty()) {
            for name in &names {
                let has = |((own, labels), _): (&(String, BTreeMap<String, String>), _)| {
                    own == name && labels.contains_key(label)
                };
                assert!(page.0.iter().any(has), "{name} has no label {label}: {query}");
            }
        }
        for label in between(&legend, "{{", "}}") {
            assert!(kept.contains(&*label), "{legend}: {query}");
        }
        asked.extend(names.into_iter().map(str::to_owned));
    }
    let asked: BTreeSet<&str> = asked.iter().map(|name| &**name).collect();
    let given = page.names();
    let alerts = include_str!("../../../docs/observability.md");
    let alerts = alerts.lines().filter(|line| line.starts_with('|'));
    let words = alerts.flat_map(|line| line.split(|letter| !is_word(letter)));
    for name in words.filter(|word| word.starts_with("lockage_")) {
        let is_it = |given: &&str| *given == name || given.strip_suffix("_count") == Some(name);
        assert!(given.iter().any(is_it), "an alert on {name}");
    }
    assert!(asked.is_subset(&given), "{:?}", asked.difference(&given));
    let plain = |name: &&str| {
        let name = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        name.to_owned()
    };
    let shown: BTreeSet<String> = asked.iter().map(plain).collect();
    let there: BTreeSet<String> = given.iter().map(plain).collect();
    assert_eq!(shown, there);
}
