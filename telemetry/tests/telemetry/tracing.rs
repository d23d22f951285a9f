use std::io;
use std::sync::{Arc, Mutex};

use lockage_telemetry::Tracing;
use tracing_subscriber::fmt::MakeWriter;

use super::run::{Outage, run};

#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Lines;

    fn make_writer(&self) -> Lines {
        self.clone()
    }
}

impl Lines {
    pub(super) fn subscribe(&self, level: tracing::Level) -> tracing::subscriber::DefaultGuard {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(self.clone())
            .without_time()
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    pub(super) fn all(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| line.trim_start().to_owned()).collect()
    }
}

/// A denial is a `DEBUG` event; the log has each actionable event once.
#[tokio::test(start_paused = true)]
async fn the_info_log_has_each_important_event_once() {
    let lines = Lines::default();
    let _subscribed = lines.subscribe(tracing::Level::INFO);
    run(Tracing::new(), 1).await;
    Outage::begin(Tracing::new()).await.end().await;
    let all = lines.all();
    let begins = |line: &str| line.split(" lockage: ").collect::<Vec<_>>().join(": ");
    let seen: Vec<String> = all
        .iter()
        .map(|line| begins(line).split(' ').take(3).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        seen,
        [
            "WARN: store away",
            "WARN: lock lost",
            "ERROR: misconfigured limiter",
            "WARN: store away",
            "INFO: store back"
        ],
        "{all:#?}"
    );
    assert!(
        all[0].contains("store=\"alone\"") && all[0].contains("outcome=\"not_done\""),
        "{}",
        all[0]
    );
    assert!(all[1].contains("loss=\"refused\""), "{}", all[1]);
}

/// Events contain ids only on request.
#[tokio::test(start_paused = true)]
async fn ids_and_keys_are_logged_only_if_enabled() {
    for (observer, tells) in [(Tracing::new(), false), (Tracing::new().with_ids(), true)] {
        let lines = Lines::default();
        let _subscribed = lines.subscribe(tracing::Level::TRACE);
        run(observer, 1).await;
        let all = lines.all().join("\n");
        assert!(all.contains("result=\"denied\"") && all.contains("command=\"lock_acquire\""));
        assert_eq!(all.contains("id=\"user:42\""), tells);
        assert_eq!(all.contains("key=\"lock:{three}\""), tells);
    }
}
