//! A world in words.

use std::fmt;

use super::job::Job;
use super::scenario::{Beside, Fault, Limiter, Machine, Place, Scenario};

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scenario { network, .. } = self;
        write!(f, "{}", self.machine)?;
        for Beside { machine, clients } in &self.beside {
            write!(f, ", beside it for the last {clients} clients {machine}")?;
        }
        writeln!(f, ", calls take at most {} us", self.timeout_us)?;
        writeln!(
            f,
            "messages take {} to {} us, once all is well {}; in 1000 {} take up to {} us, {} requests and {} replies are lost, {} requests come twice, and {} come when something ends; they arrive at multiples of {} us",
            network.least_us,
            network.most_us,
            network.calm_most_us,
            network.late,
            network.late_most_us,
            network.lost_requests,
            network.lost_replies,
            network.doubled,
            network.aimed,
            network.grain_us
        )?;
        write!(f, "the store's clock is {} ppm fast", self.store_ppm)?;
        for (client, ppm) in self.client_ppm.iter().enumerate() {
            write!(f, ", client {client}'s {ppm} ppm")?;
        }
        writeln!(f, "; all is well from {} us on", self.heal_us)?;
        for Job { number, client, at_us, work } in &self.jobs {
            writeln!(f, "{at_us:>10} us  job {number}: client {client}: {work:?}")?;
        }
        for Fault { at_us, trouble } in &self.faults {
            writeln!(f, "{at_us:>10} us  {trouble:?}")?;
        }
        if !self.spared.is_empty() {
            writeln!(f, "nothing happens to {} of the messages", self.spared.len())?;
        }
        Ok(())
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Machine::Lock { lock, poll_us } => {
                let (lease, remember) = (lock.lease(), lock.remember());
                write!(f, "a lock, lease {lease:?}, remembers {remember:?}, poll {poll_us} us")
            }
            Machine::Semaphore { semaphore, poll_us } => {
                let (lease, remember) = (semaphore.lease(), semaphore.remember());
                let permits = semaphore.permits();
                write!(
                    f,
                    "a semaphore of {permits}, lease {lease:?}, remembers {remember:?}, poll {poll_us} us"
                )
            }
            Machine::RwLock { lock, poll_us } => {
                let (lease, remember) = (lock.lease(), lock.remember());
                write!(
                    f,
                    "a read-write lock, lease {lease:?}, remembers {remember:?}, poll {poll_us} us"
                )
            }
            Machine::Latch { latch } => write!(f, "a latch, kept for {:?}", latch.keep()),
            Machine::Limiter(Limiter {
                limit,
                other,
                place,
                keep_us,
                other_is_per_client,
                remember_us,
            }) => {
                write!(f, "{limit}")?;
                if let Some(other) = other {
                    write!(f, ", at times {other}")?;
                }
                if *other_is_per_client {
                    f.write_str(" per client")?;
                }
                f.write_str(match place {
                    Place::WithCallers => "",
                    Place::Stored => ", stored",
                    Place::StoredOrDefault => ", stored with the first use",
                })?;
                if *keep_us > 0 {
                    write!(f, ", kept for {keep_us} us")?;
                }
                write!(f, ", remembers {remember_us} us")
            }
        }
    }
}
