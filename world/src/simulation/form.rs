//! Scenarios as files have them: JSON.

use std::time::Duration;

use lockage_core::latch::Latch;
use lockage_core::lock::Lock;
use lockage_core::rw_lock::RwLock;
use lockage_core::semaphore::Semaphore;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::job::{Adjustment, Job, Work};
use super::scenario::{Limiter, Machine, Network, Place, SECOND, Scenario, Trouble};
use super::server::MAX_KEYS;

/// The longest time in a scenario, but for how long somebody waits.
const LONGEST_US: u64 = 10_000 * SECOND;

/// What is no scenario that can be run.
#[derive(Debug, Error)]
pub enum FormError {
    /// It is not of the form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Something in it makes no sense.
    #[error("{0}")]
    Wrong(String),
}

/// [`Machine`], in plain numbers and words.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum MachineForm {
    Lock {
        lease_us: u64,
        remember_us: u64,
        poll_us: u64,
    },
    Semaphore {
        permits: u64,
        lease_us: u64,
        remember_us: u64,
        poll_us: u64,
    },
    RwLock {
        lease_us: u64,
        remember_us: u64,
        poll_us: u64,
    },
    Latch {
        keep_us: u64,
    },
    Limiter {
        limit: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        other: Option<String>,
        #[serde(default)]
        place: Place,
        #[serde(default)]
        keep_us: u64,
        #[serde(default)]
        other_is_per_client: bool,
        remember_us: u64,
    },
}

impl From<Machine> for MachineForm {
    fn from(machine: Machine) -> Self {
        let whole = |span: Duration| span.as_micros() as u64; // at most 2^51
        match machine {
            Machine::Lock { lock, poll_us } => {
                let (lease_us, remember_us) = (whole(lock.lease()), whole(lock.remember()));
                MachineForm::Lock { lease_us, remember_us, poll_us }
            }
            Machine::Semaphore { semaphore: it, poll_us } => {
                let (lease_us, remember_us) = (whole(it.lease()), whole(it.remember()));
                MachineForm::Semaphore { permits: it.permits(), lease_us, remember_us, poll_us }
            }
            Machine::RwLock { lock, poll_us } => {
                let (lease_us, remember_us) = (whole(lock.lease()), whole(lock.remember()));
                MachineForm::RwLock { lease_us, remember_us, poll_us }
            }
            Machine::Latch { latch } => MachineForm::Latch { keep_us: whole(latch.keep()) },
            Machine::Limiter(it) => MachineForm::Limiter {
                limit: it.limit.to_string(),
                other: it.other.map(|other| other.to_string()),
                place: it.place,
                keep_us: it.keep_us,
                other_is_per_client: it.other_is_per_client,
                remember_us: it.remember_us,
            },
        }
    }
}

impl TryFrom<MachineForm> for Machine {
    type Error = String;

    fn try_from(form: MachineForm) -> Result<Self, String> {
        let micros = Duration::from_micros;
        let words = |error: lockage_core::ConfigError| error.to_string();
        Ok(match form {
            MachineForm::Lock { lease_us, remember_us, poll_us } => {
                let lock = Lock::new(micros(lease_us), micros(remember_us)).map_err(words)?;
                Machine::Lock { lock, poll_us }
            }
            MachineForm::Semaphore { permits, lease_us, remember_us, poll_us } => {
                let semaphore = Semaphore::new(permits, micros(lease_us), micros(remember_us));
                Machine::Semaphore { semaphore: semaphore.map_err(words)?, poll_us }
            }
            MachineForm::RwLock { lease_us, remember_us, poll_us } => {
                let lock = RwLock::new(micros(lease_us), micros(remember_us)).map_err(words)?;
                Machine::RwLock { lock, poll_us }
            }
            MachineForm::Latch { keep_us } => {
                Machine::Latch { latch: Latch::new(micros(keep_us)).map_err(words)? }
            }
            MachineForm::Limiter {
                limit,
                other,
                place,
                keep_us,
                other_is_per_client,
                remember_us,
            } => {
                let read = |limit: &String| {
                    limit.parse().map_err(|error: lockage_core::ParseError| {
                        format!("{limit:?} is no limit: {error}")
                    })
                };
                let (limit, other) = (read(&limit)?, other.as_ref().map(read).transpose()?);
                Machine::Limiter(Limiter {
                    limit,
                    other,
                    place,
                    keep_us,
                    other_is_per_client,
                    remember_us,
                })
            }
        })
    }
}

impl Scenario {
    /// Reads one from JSON.
    ///
    /// # Errors
    /// [`FormError`], where it is none, or cannot be run.
    pub fn from_json(text: &str) -> Result<Scenario, FormError> {
        let scenario: Scenario = serde_json::from_str(text)?;
        match scenario.mistake() {
            None => Ok(scenario),
            Some(mistake) => Err(FormError::Wrong(mistake)),
        }
    }

    /// What would keep it from being run.
    fn mistake(&self) -> Option<String> {
        let span = |name: &str, span_us: u64, least_us: u64| {
            let is_right = (least_us..=LONGEST_US).contains(&span_us);
            (!is_right).then(|| format!("{name} is {span_us}: expected {least_us} to {LONGEST_US}"))
        };
        let clients = self.clients();
        let network = &self.network;
        let Network { late, lost_requests, lost_replies, doubled, aimed, .. } = *network;
        let chances = [late, lost_requests, lost_replies, doubled, aimed];
        if let Some(chance) = chances.into_iter().find(|chance| *chance > 1000) {
            return Some(format!("a chance in a thousand is {chance}"));
        }
        if let Some(ppm) =
            self.client_ppm.iter().chain([&self.store_ppm]).find(|ppm| ppm.abs() > 500_000)
        {
            return Some(format!("a clock is {ppm} ppm fast: expected 500000 at most, either way"));
        }
        let spans = [
            ("timeout_us", self.timeout_us, 1),
            ("heal_us", self.heal_us, 0),
            ("least_us", network.least_us, 0),
            ("most_us", network.most_us, network.least_us),
            ("calm_most_us", network.calm_most_us, network.least_us),
            ("late_most_us", network.late_most_us, network.least_us),
            ("grain_us", network.grain_us, 1),
        ];
        let machines = self.machines();
        let of_machine = |machine: &Machine| {
            let claim = machine.claim();
            let (remember_us, keep_us) = match machine {
                Machine::Limiter(limiter) => (limiter.remember_us, limiter.keep_us),
                _ => (1, 0),
            };
            [
                ("keep_us", keep_us, 0),
                ("remember_us", remember_us, 1),
                ("lease_us", claim.map_or(1, |claim| claim.lease_us), 1),
                ("poll_us", claim.map_or(1, |claim| claim.poll_us), 1),
            ]
        };
        let spans = spans.into_iter().chain(machines.iter().flat_map(of_machine));
        if let Some(mistake) =
            spans.map(|(name, span_us, least_us)| span(name, span_us, least_us)).find_map(|it| it)
        {
            return Some(mistake);
        }
        if machines.len() > MAX_KEYS {
            return Some(format!("there are {} keys: expected {MAX_KEYS} at most", machines.len()));
        }
        let beside: usize = self.beside.iter().map(|beside| beside.clients).sum();
        if beside > clients {
            return Some(format!(
                "there are no {beside} clients of other keys: there are {clients}"
            ));
        }
        let keys = self.keys();
        let no_client = |client: usize| {
            (client >= clients).then(|| format!("there is no client {client}: there are {clients}"))
        };
        let job = |job: &Job| {
            let machine = keys.get(job.client).map(|key| &machines[*key]);
            let wrong_work = machine.and_then(|machine| wrong_work(job, machine));
            no_client(job.client).or(span("at_us", job.at_us, 0)).or(wrong_work)
        };
        if let Some(mistake) = self.jobs.iter().find_map(job) {
            return Some(mistake);
        }
        self.faults.iter().find_map(|fault| {
            let wrong_trouble = match fault.trouble {
                Trouble::ClientCrash { client, for_us }
                | Trouble::Pause { client, for_us }
                | Trouble::CutRequests { client, for_us }
                | Trouble::CutReplies { client, for_us } => {
                    no_client(client).or(span("for_us", for_us, 0))
                }
                Trouble::StoreCrash { for_us } => span("for_us", for_us, 0),
                Trouble::Failover { behind_us, clock_us, for_us } => span("for_us", for_us, 0)
                    .or(span("behind_us", behind_us, 0))
                    .or(span("clock_us", clock_us.unsigned_abs(), 0)),
                Trouble::Split { clients: count, behind_us, clock_us, for_us } => {
                    let too_many = format!("there are no {count} clients: there are {clients}");
                    (count > clients)
                        .then_some(too_many)
                        .or(span("for_us", for_us, 0))
                        .or(span("behind_us", behind_us, 0))
                        .or(span("clock_us", clock_us.unsigned_abs(), 0))
                }
                Trouble::ClockStep { by_us } => span("by_us", by_us.unsigned_abs(), 0),
            };
            span("at_us", fault.at_us, 0).or(wrong_trouble)
        })
    }
}

/// What is wrong with a job for this machine.
fn wrong_work(job: &Job, machine: &Machine) -> Option<String> {
    let is_right = match (job.work, machine) {
        (Work::Hold { weight, holds, for_us, switches, .. }, machine) => {
            let Some(claim) = machine.claim() else { return Some(none_for(job)) };
            let is_right = (1..=claim.capacity).contains(&weight)
                && (1..=100).contains(&holds)
                && for_us <= LONGEST_US
                && (!switches || matches!(machine, Machine::RwLock { .. }));
            return (!is_right).then(|| format!("job {} holds too little or too much", job.number));
        }
        (Work::Count { count, .. }, Machine::Latch { .. }) => (1..=1_000_000).contains(&count),
        (Work::Break { after_us, .. }, Machine::Lock { .. }) => after_us <= LONGEST_US,
        (work, Machine::Limiter(limiter)) => is_for_limiter(&work, limiter),
        _ => false,
    };
    (!is_right).then(|| none_for(job))
}

fn none_for(job: &Job) -> String {
    format!("job {} is none for this machine", job.number)
}

fn is_for_limiter(work: &Work, limiter: &Limiter) -> bool {
    match *work {
        Work::Ask { cost, .. } => cost > 0,
        Work::TakeTurn { cost, after_us, .. } => {
            cost > 0 && after_us <= LONGEST_US && limiter.place == Place::WithCallers
        }
        Work::AskEach { costs, .. } => costs.iter().any(|cost| *cost > 0),
        Work::Peek { .. } => true,
        Work::Adjust { adjustment: Adjustment::Unblock, .. } => true,
        Work::Adjust { adjustment: Adjustment::Block, amount, .. } => {
            (1..=LONGEST_US).contains(&amount)
        }
        Work::Adjust { amount, .. } => amount > 0,
        Work::Reserve { estimate, for_us, hold_us, .. } => {
            estimate > 0 && for_us <= LONGEST_US && (1..=LONGEST_US).contains(&hold_us)
        }
        Work::Set { .. } => limiter.place != Place::WithCallers,
        Work::Spend(work) => {
            let spans = [work.every_us, work.lease_us];
            let is_in_range = spans.iter().all(|span_us| (1..=LONGEST_US).contains(span_us));
            let machine = Machine::Limiter(*limiter);
            is_in_range && work.cost > 0 && work.requests <= 1000 && work.config(&machine).is_ok()
        }
        Work::Hold { .. } | Work::Break { .. } | Work::Count { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_world_is_read_back_as_it_was_written() {
        for seed in 0..300 {
            let scenario = Scenario::of(seed);
            let text = serde_json::to_string(&scenario).unwrap();
            assert_eq!(Scenario::from_json(&text).unwrap(), scenario, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_what_would_be_right() {
        let scenario = serde_json::to_value(Scenario::of(1)).unwrap();
        for (at, wrong, expected) in [
            ("/seed", json!("one"), "invalid type"),
            ("/machine/limiter/limit", json!("fast"), "\"fast\" is no limit"),
            ("/network/grain_us", json!(0), "grain_us is 0: expected 1 to"),
            ("/network/late", json!(1001), "a chance in a thousand is 1001"),
            ("/timeout_us", json!(99_999_999_999u64), "timeout_us is 99999999999"),
            ("/store_ppm", json!(-600_000), "a clock is -600000 ppm fast"),
            ("/jobs/0/client", json!(7), "there is no client 7"),
            ("/jobs/0/work/ask/cost", json!(0), "is none for this machine"),
            ("/faults", json!([{"at_us": 1, "trouble": {"burns": {}}}]), "unknown variant `burns`"),
        ] {
            let mut broken = scenario.clone();
            *broken.pointer_mut(at).unwrap() = wrong;
            let error = Scenario::from_json(&broken.to_string()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
