//! Measures candidates in turns, so that other load meets all of them alike.

use std::fmt::Display;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};

/// Checks that a part of a name is in one of these.
///
/// # Errors
/// Where it is in none; the error lists them.
pub(crate) fn check_part<N: Display>(part: Option<&str>, names: &[N]) -> Result<()> {
    let names: Vec<String> = names.iter().map(N::to_string).collect();
    let is_known = |part: &str| names.iter().any(|name| name.contains(part));
    let part = part.unwrap_or_default();
    ensure!(is_known(part), "nothing has {part:?} in its name; there are: {}", names.join("; "));
    Ok(())
}

/// The number and length of the measurements.
#[derive(Debug, clap::Args)]
pub(crate) struct Rounds {
    /// Rounds per candidate, in turns; the table has the medians.
    #[arg(long, default_value_t = 11)]
    pub(crate) rounds: usize,
    /// Milliseconds per measurement.
    #[arg(long, default_value_t = 20)]
    pub(crate) millis: u64,
}

/// A measured operation: the decision of this number.
pub(crate) struct Candidate<'a> {
    pub(crate) name: &'static str,
    pub(crate) decide: Box<dyn Fn(&mut Run) + Send + Sync + 'a>,
}

/// A series of decisions of one thread.
pub(crate) struct Run {
    /// The number of decisions.
    pub(crate) count: usize,
    /// The number of the first, another for each thread.
    pub(crate) first: usize,
    /// The number of admissions.
    pub(crate) admitted: usize,
}

impl<'a> Candidate<'a> {
    /// Makes a candidate; `decide` returns whether the decision of this number admits.
    pub(crate) fn new(
        name: &'static str,
        decide: impl Fn(usize) -> bool + Send + Sync + 'a,
    ) -> Self {
        // The loop is inside, so that one indirect call serves many decisions.
        let decide = move |run: &mut Run| {
            for number in run.first..run.first + run.count {
                run.admitted += usize::from(black_box(decide(black_box(number))));
            }
        };
        Candidate { name, decide: Box::new(decide) }
    }

    /// Makes this many decisions.
    pub(crate) fn run(&self, count: usize) {
        (self.decide)(&mut Run { count, first: 0, admitted: 0 });
    }
}

/// The measurements of one candidate.
pub(crate) struct Seen {
    pub(crate) name: &'static str,
    /// The median of nanoseconds per decision of a thread.
    pub(crate) nanos: f64,
    /// The median of the ratio to the first candidate in the same round.
    pub(crate) ratio: f64,
    /// The share that was admitted.
    pub(crate) admitted: f64,
}

pub(crate) fn side_by_side(
    args: &Rounds,
    threads: usize,
    candidates: &[Candidate<'_>],
) -> Vec<Seen> {
    let slice = Duration::from_millis(args.millis);
    let counts: Vec<usize> =
        candidates.iter().map(|candidate| calibrate(candidate, threads, slice)).collect();
    let mut rounds = vec![Vec::new(); candidates.len()];
    let mut admitted = vec![0.0; candidates.len()];
    for _ in 0..args.rounds {
        for (at, candidate) in candidates.iter().enumerate() {
            let (nanos, share) = once(candidate, threads, counts[at]);
            rounds[at].push(nanos);
            admitted[at] += share / args.rounds as f64;
        }
    }
    let first = rounds[0].clone();
    let seen = |(at, candidate): (usize, &Candidate<'_>)| Seen {
        name: candidate.name,
        nanos: median(rounds[at].clone()),
        ratio: median(rounds[at].iter().zip(&first).map(|(nanos, first)| nanos / first).collect()),
        admitted: admitted[at],
    };
    candidates.iter().enumerate().map(seen).collect()
}

/// Returns how many decisions take about one slice.
fn calibrate(candidate: &Candidate<'_>, threads: usize, slice: Duration) -> usize {
    let mut count = 1000;
    loop {
        let (nanos, _) = once(candidate, threads, count);
        let wanted = slice.as_nanos() as f64 / nanos;
        if wanted < 4.0 * count as f64 {
            return wanted as usize + 1;
        }
        count *= 4;
    }
}

/// Returns nanoseconds per decision of a thread, and the admitted share.
fn once(candidate: &Candidate<'_>, threads: usize, count: usize) -> (f64, f64) {
    let start = Barrier::new(threads);
    let measured = |thread: usize| {
        let mut run = Run { count, first: thread * 7_919 * 64, admitted: 0 };
        start.wait();
        let begun = own_time();
        (candidate.decide)(&mut run);
        let took = own_time() - begun;
        (took.as_nanos() as f64 / count as f64, run.admitted as f64 / count as f64)
    };
    let all: Vec<(f64, f64)> = if threads == 1 {
        vec![measured(0)]
    } else {
        thread::scope(|scope| {
            let measured = &measured;
            let handles: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || measured(thread))).collect();
            handles.into_iter().map(|handle| handle.join().expect("it does not panic")).collect()
        })
    };
    let mean = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    (mean(|one| one.0), mean(|one| one.1))
}

/// Returns how long this thread has run on a processor.
pub(crate) fn own_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::check_part;

    #[test]
    fn a_part_of_a_name_is_accepted_and_any_other_refused_with_the_names() {
        let names = ["one key", "two keys"];
        for part in [None, Some("key"), Some("two")] {
            check_part(part, &names).expect("it is in a name");
        }
        let told = check_part(Some("three"), &names).expect_err("it is in none").to_string();
        assert_eq!(told, "nothing has \"three\" in its name; there are: one key; two keys");
    }
}
