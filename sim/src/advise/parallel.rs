//! Parallel map over all cores.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope};

/// Maps `work` over these, in their order. The longest work should be last.
pub(super) fn each<J: Sync, R: Send>(jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let worker = || {
        // The longest are taken first, so that no thread is left alone with one.
        let places = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let places = places.map_while(|taken| jobs.len().checked_sub(taken + 1));
        places.map(|place| (place, work(&jobs[place]))).collect::<Vec<_>>()
    };
    let threads = available_parallelism().map_or(1, usize::from).min(jobs.len());
    // A browser has no threads to give.
    if threads <= 1 {
        return jobs.iter().map(work).collect();
    }
    let mut results: Vec<(usize, R)> = scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.flat_map(|results| results.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_their_jobs() {
        for count in [0, 1, 2, 1000] {
            let jobs: Vec<u64> = (0..count).collect();
            let doubled: Vec<u64> = jobs.iter().map(|job| 2 * job).collect();
            assert_eq!(each(&jobs, |job| 2 * job), doubled);
        }
    }
}
