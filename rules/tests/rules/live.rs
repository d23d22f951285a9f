//! Rules that follow their file: whatever happens to it, complete rules are in force.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockage::Limit;
use lockage::runtime::Tokio;
use lockage_core::{Acquire, Command, Timestamp};
use lockage_rules::{LiveRules, LoadError, Reload, ReloadEvent, Request, RuleLimit, Rules};

const EVERY: Duration = Duration::from_secs(5);

/// A file of one rule, with this many requests in an hour.
fn file(limit: u64) -> String {
    format!(
        "[[rules]]\nname = \"all\"\nid = \"user:{{user}}\"\nlimit = \"fixed-window {limit}/h\"\n"
    )
}

fn limit(rules: &Rules) -> Limit {
    match rules.matches(&Request::new().user("42"))[0].limit() {
        RuleLimit::Given(limit) => *limit,
        other => panic!("{other:?}"),
    }
}

/// Content that a test changes, and the events of its rules.
#[derive(Clone)]
struct Source {
    content: Arc<Mutex<Result<String, io::ErrorKind>>>,
    events: Arc<Mutex<Vec<String>>>,
}

impl Source {
    fn open(content: String) -> (Source, Arc<LiveRules>) {
        let source = Source { content: Arc::new(Mutex::new(Ok(content))), events: Arc::default() };
        let (read, events) = (source.clone(), source.clone());
        let rules = LiveRules::from_source("rules.toml", move || {
            read.content.lock().unwrap().clone().map(String::into_bytes).map_err(io::Error::from)
        });
        let rules = rules.unwrap().on_reload(move |event| {
            events.events.lock().unwrap().push(match event {
                ReloadEvent::Replaced(rules) => format!("replaced: {}", limit(rules)),
                ReloadEvent::Failed(error) => format!("failed: {error}"),
                ReloadEvent::Recovered => "recovered".to_owned(),
                other => panic!("{other:?}"),
            });
        });
        (source, Arc::new(rules))
    }

    fn set(&self, content: Result<String, io::ErrorKind>) {
        *self.content.lock().unwrap() = content;
    }

    fn events(&self) -> Vec<String> {
        std::mem::take(&mut self.events.lock().unwrap())
    }
}

/// Lets the watcher poll this often.
async fn polls(count: u32) {
    tokio::time::sleep(EVERY * count).await;
    tokio::task::yield_now().await;
}

fn watch(rules: &Arc<LiveRules>) {
    let watched = Arc::clone(rules);
    tokio::spawn(async move { watched.watch(Tokio, EVERY).await });
}

fn is_limit(rules: &LiveRules, number: u64) -> bool {
    limit(&rules.current()) == Limit::fixed_window(number, Duration::from_secs(3600))
}

#[tokio::test(start_paused = true)]
async fn a_change_is_in_force_after_two_polls_and_is_reported_once() {
    let (source, rules) = Source::open(file(10));
    watch(&rules);
    polls(3).await;
    assert!(source.events().is_empty());
    source.set(Ok(file(20)));
    polls(3).await;
    assert!(is_limit(&rules, 20));
    assert_eq!(source.events(), ["replaced: fixed-window 20/h"]);
    polls(10).await;
    assert!(source.events().is_empty());
    assert_eq!((rules.status().replaced, rules.status().error), (1, None));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_file_keeps_the_rules_in_force_and_is_reported_once() {
    let (source, rules) = Source::open(file(10));
    watch(&rules);
    for (broken, problem) in [
        (Ok(file(20).replace("20/h", "x/h")), "rules.toml:4:23: expected a whole number"),
        (Ok(String::new()), "no rules"),
        (Err(io::ErrorKind::NotFound), "rules.toml cannot be read"),
        (Err(io::ErrorKind::PermissionDenied), "rules.toml cannot be read"),
    ] {
        let failed = rules.status().failed;
        source.set(broken);
        polls(5).await;
        assert!(is_limit(&rules, 10));
        let events = source.events();
        assert!(
            events.len() == 1 && events[0].starts_with("failed: ") && events[0].contains(problem),
            "{events:?}"
        );
        let status = rules.status();
        assert_eq!(status.failed, failed + 1);
        assert!(status.error.unwrap().contains(problem));
    }
    // The old content is back, and then a new one.
    source.set(Ok(file(10)));
    polls(3).await;
    assert_eq!((source.events(), rules.status().error), (vec!["recovered".to_owned()], None));
    source.set(Ok(file(30)));
    polls(3).await;
    assert!(is_limit(&rules, 30));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_being_written_or_is_away_for_a_moment_is_left_alone() {
    let (source, rules) = Source::open(file(10));
    watch(&rules);
    polls(1).await;
    let whole = file(20) + &file(30).replace("all", "more").replace("user:", "more:");
    // Many of the parts are valid by themselves.
    for end in 0..whole.len() {
        source.set(Ok(whole[..end].to_owned()));
        polls(1).await;
        assert!(is_limit(&rules, 10), "after {end} bytes");
    }
    source.set(Err(io::ErrorKind::NotFound));
    polls(1).await;
    source.set(Ok(whole));
    polls(3).await;
    assert_eq!(source.events(), ["replaced: fixed-window 20/h"]);
    assert_eq!(rules.current().len(), 2);
}

#[test]
fn a_reload_by_a_call_reads_the_file_at_once() {
    let (source, rules) = Source::open(file(10));
    assert_eq!(rules.reload().unwrap(), Reload::Unchanged);
    source.set(Ok(file(20)));
    assert_eq!(rules.reload().unwrap(), Reload::Replaced);
    source.set(Ok("[[rules]]\n".to_owned()));
    assert!(matches!(rules.reload(), Err(LoadError::Mistakes(_))));
    assert!(matches!(rules.reload(), Err(LoadError::Mistakes(_))));
    assert!(is_limit(&rules, 20));
    assert_eq!(rules.status().failed, 1);
    source.set(Ok(file(20)));
    assert_eq!(rules.reload().unwrap(), Reload::Unchanged);
    assert_eq!(rules.status().error, None);
}

#[test]
fn usage_stays_under_the_new_limit() {
    let (source, rules) = Source::open(file(10));
    let now = Timestamp::from_micros(1_763_700_000_000_000).unwrap();
    let mut slot = None;
    let mut remaining = |cost| {
        let acquire = Acquire::new(limit(&rules.current()), cost).unwrap();
        acquire.apply(&mut slot, now).unwrap().remaining
    };
    assert_eq!(remaining(4), 6);
    source.set(Ok(file(20)));
    assert_eq!(rules.reload().unwrap(), Reload::Replaced);
    assert_eq!(remaining(1), 15);
}

/// Writes the file in each of the ways in which files are replaced.
#[cfg(unix)]
#[test]
fn editors_moves_and_links_are_seen() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // As Kubernetes mounts a ConfigMap: rules.toml -> ..data/rules.toml, ..data -> a folder.
    let mount = |name: &str, limit| {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("rules.toml"), file(limit)).unwrap();
        symlink(name, at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
    };
    mount("first", 1);
    symlink("..data/rules.toml", at("rules.toml")).unwrap();
    let rules = LiveRules::open(at("rules.toml")).unwrap();
    let polled = |number| {
        rules.poll();
        rules.poll();
        assert!(is_limit(&rules, number), "{number}: {:?}", rules.status());
    };
    polled(1);
    mount("second", 2);
    fs::remove_dir_all(at("first")).unwrap();
    polled(2);
    fs::remove_file(at("rules.toml")).unwrap();
    polled(2);
    assert!(rules.status().error.is_some());
    fs::write(at("rules.toml"), file(3)).unwrap();
    polled(3);
    fs::write(at("other"), file(4)).unwrap();
    fs::rename(at("other"), at("rules.toml")).unwrap();
    polled(4);
    fs::write(at("rules.toml"), file(5)).unwrap();
    polled(5);
    fs::write(at("rules.toml"), b"\xff\xfe").unwrap();
    polled(5);
    assert!(rules.status().error.unwrap().contains("not UTF-8"));
    fs::remove_file(at("rules.toml")).unwrap();
    fs::create_dir(at("rules.toml")).unwrap();
    polled(5);
    assert!(rules.status().error.is_some());
}

#[test]
fn requests_see_whole_rules_while_the_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.toml");
    // Each file has two rules with one number.
    let two = |number| file(number) + &file(number).replace("all", "too").replace("user:", "too:");
    let replace = |path: &Path, number| {
        let new = path.with_extension("new");
        fs::write(&new, two(number)).unwrap();
        fs::rename(&new, path).unwrap();
    };
    replace(&path, 1);
    let rules = LiveRules::open(&path).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let request = Request::new().user("42");
                while !is_over.load(Ordering::Relaxed) {
                    let current = rules.current();
                    let matched = current.matches(&request);
                    let [one, other] = &matched[..] else { panic!("{matched:?}") };
                    assert_eq!(one.limit(), other.limit());
                }
            });
        }
        for number in 2..502 {
            replace(&path, number);
            assert_eq!(rules.reload().unwrap(), Reload::Replaced);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(is_limit(&rules, 501));
    assert_eq!(rules.status().replaced, 500);
}

#[test]
fn a_file_of_no_known_format_is_an_error() {
    let error = LiveRules::from_source("rules.txt", || Ok(Vec::new())).unwrap_err();
    assert!(error.to_string().contains("expected a name that ends in .toml"), "{error}");
}
