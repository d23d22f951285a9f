//! What one who wants to share is told, of permits and of sides alike.

use lockage_core::{rw_lock, semaphore};

use crate::simulation::server::Outcome;

/// What was answered, whatever it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Held {
        token: u64,
        deadline_us: u64,
    },
    Released {
        token: u64,
    },
    Busy {
        until_us: u64,
    },
    /// A reader who wants to write, too.
    Upgrade {
        until_us: u64,
    },
    TooLate,
    NotHeld,
    Reused,
}

/// Nothing where that is no answer to one who wants to share.
pub(super) fn said(outcome: &Outcome) -> Option<Said> {
    Some(match outcome {
        Outcome::Semaphore(reply) => match reply.answer {
            semaphore::Answer::Held(grant) => {
                Said::Held { token: grant.token, deadline_us: grant.deadline.as_micros() }
            }
            semaphore::Answer::Released { token } => Said::Released { token },
            semaphore::Answer::Full { fits_at } => Said::Busy { until_us: fits_at.as_micros() },
            semaphore::Answer::TooLate => Said::TooLate,
            semaphore::Answer::NotHeld => Said::NotHeld,
            semaphore::Answer::Never => return None,
        },
        Outcome::RwLock(reply) => match reply.answer {
            rw_lock::Answer::Held(hold) => {
                Said::Held { token: hold.token, deadline_us: hold.deadline.as_micros() }
            }
            rw_lock::Answer::Released { token, .. } => Said::Released { token },
            rw_lock::Answer::Refused { retry_at } => Said::Busy { until_us: retry_at.as_micros() },
            rw_lock::Answer::UpgradeRefused { retry_at } => {
                Said::Upgrade { until_us: retry_at.as_micros() }
            }
            rw_lock::Answer::TooLate => Said::TooLate,
            rw_lock::Answer::NotHeld => Said::NotHeld,
            _ => return None,
        },
        Outcome::Reused => Said::Reused,
        _ => return None,
    })
}
