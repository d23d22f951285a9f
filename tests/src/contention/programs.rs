//! The programs of simulated worlds, in processes that call real servers, and a check of their answers.

use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lockage::notifications::Notifications;
use lockage::runtime::Tokio;
use lockage_world::simulation::{Life, Outside, Place, Plan, Seen, Theme, Told, Work};
use serde::{Deserialize, Serialize};

use super::Played;
use super::history::{self, Log};
use super::table::Row;
use super::worker::{self, Settings};
use crate::faults::RECOVERY;

/// A process that calls a real server.
#[derive(Clone)]
struct Process<S> {
    store: S,
    /// The other servers of a quorum.
    others: Vec<S>,
    log: Arc<Log>,
    chance: Arc<Mutex<fastrand::Rng>>,
}

impl<S> Process<S> {
    fn new(store: S, others: Vec<S>, file: &Path, seed: u64) -> Self {
        let log = Arc::new(Log::create(file).expect("a history can be written"));
        let chance = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        Process { store, others, log, chance }
    }

    fn tells(&self, told: impl Into<Told>) {
        self.log.push(&Line { at: history::now(), told: told.into() });
    }
}

impl<S: Notifications + Clone + 'static> Place for Process<S> {
    type Store = S;
    type Runtime = Tokio;

    fn store(&self) -> S {
        self.store.clone()
    }

    fn runtime(&self) -> Tokio {
        Tokio
    }

    fn server(&self, server: usize) -> S {
        let other = server.checked_sub(1).and_then(|other| self.others.get(other));
        other.unwrap_or(&self.store).clone()
    }

    fn saw(&self, seen: Seen) {
        self.tells(seen);
    }

    fn draw(&self, most: u64) -> u64 {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).u64(0..=most)
    }

    fn now_us(&self) -> u64 {
        history::now() / 1000
    }

    fn true_us_in(&self, duration: Duration) -> u64 {
        (history::now() + duration.as_nanos() as u64) / 1000
    }
}

/// An event of a program and its time, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    at: u64,
    told: Told,
}

/// Numbers of jobs of one process are below.
const JOBS: usize = 1 << 32;

/// Runs programs, some of whose futures are dropped, until it is to stop.
pub(super) async fn run<S>(
    settings: &Settings,
    theme: Theme,
    (store, others): (S, Vec<S>),
    stop: Arc<AtomicBool>,
) where
    S: Notifications + Clone + 'static,
{
    let plan = Plan::on_servers(theme, settings.seed);
    let seed = settings.seed ^ (settings.process << 16) as u64;
    let place = Process::new(store, others, &settings.file, seed);
    let life = Life::new(&plan, &place);
    let works: Arc<[Work]> = plan.works().collect();
    let numbers = Arc::new(AtomicUsize::new(settings.process * JOBS));
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..settings.tasks {
        let (place, life, works) = (place.clone(), life.clone(), Arc::clone(&works));
        let (numbers, stop) = (Arc::clone(&numbers), Arc::clone(&stop));
        running.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let job = numbers.fetch_add(1, Ordering::Relaxed);
                let work = works[place.draw(works.len() as u64 - 1) as usize];
                let mut program = pin!(life.clone().run(job, work));
                let is_dropped = place.draw(7) == 0;
                let patience_ms = if is_dropped { place.draw(300) } else { 1 << 40 };
                let patience = Duration::from_millis(patience_ms);
                if tokio::time::timeout(patience, program.as_mut()).await.is_err() {
                    // The job's permits are given back right after.
                    place.tells(Told::Cancels { job });
                }
                tokio::time::sleep(Duration::from_micros(place.draw(5000))).await;
            }
        });
    }
    running.join_all().await;
}

/// Judges the events of all processes against the final state of the store.
pub(super) fn judge(played: &Played, theme: Theme, terms: &super::Plan) -> Row {
    let plan = Plan::on_servers(theme, terms.seed);
    let mut row = Row::new(theme.to_string(), played.trouble);
    let mut lines: Vec<Line> = Vec::new();
    for (client, file) in &played.files {
        let own: Vec<Line> = history::read(file);
        for line in &own {
            row.count(*client, is_call(&line.told), is_unknown(&line.told));
        }
        lines.extend(own);
    }
    // The grants and places of ended processes have ended by then.
    std::thread::sleep(Duration::from_micros(plan.left_us()) + terms.lease);
    let (told, charged) = probe(played, &plan);
    lines.extend(told);
    lines.sort_by_key(|line| line.at);

    let keeps = played.trouble.keeps_grants();
    let mut outside = Outside::new(&plan, keeps);
    let told = lines.into_iter().try_for_each(|Line { at, told }| outside.told(at / 1000, told));
    row.violations.extend(told.err().map(|fault| fault.to_string()));
    let forgot = if keeps { 0 } else { played.troubles as u64 };
    match theme {
        Theme::Charges => {
            row.violations.extend(outside.charges(charged).err().map(|fault| fault.to_string()));
        }
        Theme::Limiters => match outside.envelope(forgot) {
            Ok(admitted) => row.admitted = Some(admitted),
            Err(fault) => row.violations.push(fault.to_string()),
        },
        _ => {}
    }
    row
}

/// Takes all that can be taken, and reads the charged total.
fn probe(played: &Played, plan: &Plan) -> (Vec<Line>, u64) {
    let file = played.folder.path().join("probe.jsonl");
    let others = played.stage.others().iter().map(worker::redis_rs).collect();
    let place = Process::new(worker::redis_rs(&played.stage.servers()), others, &file, 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let charged = runtime.expect("a runtime can be started").block_on(async {
        let life = Life::new(plan, &place);
        let began = Instant::now();
        let charged = loop {
            match life.charged().await {
                Ok(charged) => break charged,
                Err(error) => assert!(began.elapsed() < RECOVERY, "no recovery: {error}"),
            }
        };
        life.probe(usize::MAX).await;
        charged
    });
    (history::read(&file), charged)
}

fn is_call(told: &Told) -> bool {
    use Seen::{Asked, Got, Invalidated, Left, Result};
    let seen = |seen: &Seen| {
        matches!(seen, Asked { .. } | Left { .. } | Result { .. } | Got { .. } | Invalidated { .. })
    };
    matches!(told, Told::Seen(it) if seen(it))
}

fn is_unknown(told: &Told) -> bool {
    matches!(told, Told::Seen(Seen::Failed { is_unknown: true, .. }))
}
