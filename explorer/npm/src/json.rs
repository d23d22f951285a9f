//! Outcomes in JSON: times and spans in microseconds, ids in hexadecimal digits.

use std::fmt::Write;
use std::time::Duration;

use lockage_core::fenced::{Access, Kept};
use lockage_core::{
    Adjusted, AnyOutcome, Cancellation, Decision, DenialReason, Part, Renewal, Reserved,
    Settlement, StoredLimit, StoredLimitOutcome, Timestamp, Verdict, latch, lock, rw_lock,
    semaphore,
};

pub(crate) trait Json {
    fn json(&self, out: &mut String);
}

/// Returns the outcome of a command in JSON.
pub(crate) fn of_outcome(outcome: &AnyOutcome) -> String {
    let mut text = String::new();
    macro_rules! first_of {
        ($($type:ty),* $(,)?) => {
            $(
                if let Some(outcome) = outcome.downcast_ref::<$type>() {
                    outcome.json(&mut text);
                    return text;
                }
            )*
        };
    }
    first_of!(
        Decision,
        Vec<Decision>,
        Reserved,
        Settlement,
        Renewal,
        Adjusted,
        Cancellation,
        StoredLimitOutcome<Decision>,
        StoredLimitOutcome<Vec<Decision>>,
        StoredLimitOutcome<Reserved>,
        StoredLimitOutcome<Settlement>,
        StoredLimitOutcome<Renewal>,
        StoredLimitOutcome<Adjusted>,
        lock::Reply,
        lock::Inspection,
        Timestamp,
        rw_lock::Reply,
        rw_lock::Inspection,
        semaphore::Reply,
        semaphore::Inspection,
        latch::Reply,
        latch::Inspection,
        Access<()>,
        Access<Option<Kept>>,
        Option<Kept>,
        Option<u64>,
        bool,
    );
    unreachable!("each outcome of a call has a form in JSON")
}

/// Writes an object of these fields.
macro_rules! object {
    ($out:ident, $($name:literal: $value:expr),+) => {{
        let mut before = '{';
        $(
            $out.push(before);
            before = ',';
            $out.push_str(concat!("\"", $name, "\":"));
            $value.json($out);
        )+
        let _ = before;
        $out.push('}');
    }};
}

/// Implements [`Json`] for types that display themselves as in JSON.
macro_rules! displayed {
    ($quote:literal: $($type:ty)*) => {
        $(
            impl Json for $type {
                fn json(&self, out: &mut String) {
                    // Invariant: writing to a `String` cannot fail.
                    let _ = write!(out, concat!($quote, "{}", $quote), self);
                }
            }
        )*
    };
}

displayed!("": bool u64 usize);
// None of these contains a character that JSON escapes.
displayed!("\"": str lock::OwnerId semaphore::PermitId lockage_core::RequestId StoredLimit);

impl Json for lock::Label {
    fn json(&self, out: &mut String) {
        // Labels are printable ASCII, which Rust escapes as JSON does.
        let _ = write!(out, "{:?}", self.as_str());
    }
}

impl<T: Json + ?Sized> Json for &T {
    fn json(&self, out: &mut String) {
        (**self).json(out);
    }
}

impl<T: Json> Json for Option<T> {
    fn json(&self, out: &mut String) {
        match self {
            Some(value) => value.json(out),
            None => out.push_str("null"),
        }
    }
}

impl<T: Json> Json for [T] {
    fn json(&self, out: &mut String) {
        out.push('[');
        for (index, element) in self.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            element.json(out);
        }
        out.push(']');
    }
}

impl<T: Json> Json for Vec<T> {
    fn json(&self, out: &mut String) {
        self[..].json(out);
    }
}

impl Json for Timestamp {
    fn json(&self, out: &mut String) {
        self.as_micros().json(out);
    }
}

impl Json for Duration {
    fn json(&self, out: &mut String) {
        (self.as_micros() as u64).json(out);
    }
}

impl Json for Verdict {
    fn json(&self, out: &mut String) {
        match *self {
            Verdict::Allowed => object!(out, "is": "allowed"),
            Verdict::Denied { retry_after, reason } => {
                let reason = if reason == DenialReason::Blocked { "blocked" } else { "limit" };
                object!(out, "is": "denied", "retryAfterUs": retry_after, "reason": reason);
            }
            Verdict::Never => object!(out, "is": "never"),
        }
    }
}

impl Json for Decision {
    fn json(&self, out: &mut String) {
        object!(out, "verdict": self.verdict, "limit": self.limit, "remaining": self.remaining,
            "resetAfterUs": self.reset_after, "turnAfterUs": self.turn_after, "binding": self.binding,
            "parts": self.parts[..]);
    }
}

impl Json for Part {
    fn json(&self, out: &mut String) {
        object!(out, "verdict": self.verdict, "limit": self.limit, "remaining": self.remaining,
            "resetAfterUs": self.reset_after);
    }
}

impl Json for Adjusted {
    fn json(&self, out: &mut String) {
        object!(out, "amount": self.amount, "after": self.after);
    }
}

impl Json for Reserved {
    fn json(&self, out: &mut String) {
        let expires_at = self.reservation.map(|reservation| reservation.expires_at);
        object!(out, "decision": self.decision, "expiresAtUs": expires_at);
    }
}

impl Json for Settlement {
    fn json(&self, out: &mut String) {
        match self {
            Settlement::Settled { amount, after } => {
                object!(out, "is": "settled", "amount": amount, "after": after);
            }
            Settlement::AlreadySettled => object!(out, "is": "alreadySettled"),
            Settlement::Expired => object!(out, "is": "expired"),
            _ => object!(out, "is": "unknown"),
        }
    }
}

impl Json for Renewal {
    fn json(&self, out: &mut String) {
        match self {
            Renewal::Renewed(reservation) => {
                object!(out, "is": "renewed", "expiresAtUs": reservation.expires_at);
            }
            Renewal::AlreadySettled => object!(out, "is": "alreadySettled"),
            Renewal::Expired => object!(out, "is": "expired"),
            _ => object!(out, "is": "unknown"),
        }
    }
}

impl Json for Cancellation {
    fn json(&self, out: &mut String) {
        match self {
            Cancellation::GivenBack => "givenBack",
            Cancellation::NotLast => "notLast",
            Cancellation::TooLate => "tooLate",
        }
        .json(out);
    }
}

impl<T: Json> Json for StoredLimitOutcome<T> {
    fn json(&self, out: &mut String) {
        match self {
            StoredLimitOutcome::NoLimit => object!(out, "is": "noLimit"),
            StoredLimitOutcome::PerClient(limit) => object!(out, "is": "perClient", "limit": limit),
            StoredLimitOutcome::ClockOff(limit) => object!(out, "is": "clockOff", "limit": limit),
            StoredLimitOutcome::Done { outcome, limit } => {
                object!(out, "is": "done", "outcome": outcome, "limit": limit);
            }
        }
    }
}

impl Json for lock::Reply {
    fn json(&self, out: &mut String) {
        object!(out, "nowUs": self.now, "answer": self.answer);
    }
}

impl Json for lock::Answer {
    fn json(&self, out: &mut String) {
        match self {
            lock::Answer::Held(hold) => object!(out, "is": "held", "hold": hold),
            lock::Answer::Released { token, holds } => {
                object!(out, "is": "released", "token": token, "holds": holds);
            }
            lock::Answer::Refused(holder) => object!(out, "is": "refused", "holder": holder),
            lock::Answer::TooLate { forgotten } => {
                object!(out, "is": "tooLate", "forgottenUs": forgotten);
            }
            lock::Answer::Queued { ahead, until } => {
                object!(out, "is": "queued", "ahead": ahead, "untilUs": until);
            }
        }
    }
}

impl Json for lock::Hold {
    fn json(&self, out: &mut String) {
        object!(out, "token": self.token, "holds": self.holds, "deadlineUs": self.deadline);
    }
}

impl Json for lock::Holder {
    fn json(&self, out: &mut String) {
        object!(out, "owner": self.owner, "hold": self.hold);
    }
}

impl Json for lock::Inspection {
    fn json(&self, out: &mut String) {
        object!(out, "nowUs": self.now, "holder": self.holder, "sinceUs": self.since,
            "label": self.label, "queued": self.queued);
    }
}

/// Replies of locks that contain whether waiters were notified.
macro_rules! replies {
    ($($reply:ty)*) => {
        $(
            impl Json for $reply {
                fn json(&self, out: &mut String) {
                    object!(out, "nowUs": self.now, "answer": self.answer, "woke": self.woke);
                }
            }
        )*
    };
}

replies!(rw_lock::Reply semaphore::Reply latch::Reply);

impl Json for rw_lock::Answer {
    fn json(&self, out: &mut String) {
        use rw_lock::Answer;
        match self {
            Answer::Held(hold) => object!(out, "is": "held", "hold": hold),
            Answer::Released { token, holds } => {
                object!(out, "is": "released", "token": token, "holds": holds);
            }
            Answer::Refused { retry_at } => object!(out, "is": "refused", "retryAtUs": retry_at),
            Answer::UpgradeRefused { retry_at } => {
                object!(out, "is": "upgradeRefused", "retryAtUs": retry_at);
            }
            Answer::TooMany { retry_at } => object!(out, "is": "tooMany", "retryAtUs": retry_at),
            Answer::TooLate { forgotten } => {
                object!(out, "is": "tooLate", "forgottenUs": forgotten);
            }
            Answer::NotHeld => object!(out, "is": "notHeld"),
        }
    }
}

impl Json for rw_lock::Hold {
    fn json(&self, out: &mut String) {
        let mode = if self.mode == rw_lock::Mode::Read { "read" } else { "write" };
        object!(out, "mode": mode, "token": self.token, "holds": self.holds,
            "deadlineUs": self.deadline);
    }
}

impl Json for rw_lock::Holder {
    fn json(&self, out: &mut String) {
        object!(out, "owner": self.owner, "hold": self.hold);
    }
}

impl Json for rw_lock::Inspection {
    fn json(&self, out: &mut String) {
        object!(out, "nowUs": self.now, "keptUntilUs": self.kept_until, "holders": self.holders);
    }
}

impl Json for semaphore::Answer {
    fn json(&self, out: &mut String) {
        use semaphore::Answer;
        match self {
            Answer::Held(grant) => object!(out, "is": "held", "grant": grant),
            Answer::Released { token } => object!(out, "is": "released", "token": token),
            Answer::Full { fits_at } => object!(out, "is": "full", "fitsAtUs": fits_at),
            Answer::Never => object!(out, "is": "never"),
            Answer::TooLate { forgotten } => {
                object!(out, "is": "tooLate", "forgottenUs": forgotten);
            }
            Answer::NotHeld => object!(out, "is": "notHeld"),
        }
    }
}

impl Json for semaphore::Grant {
    fn json(&self, out: &mut String) {
        object!(out, "count": self.count, "token": self.token, "deadlineUs": self.deadline);
    }
}

impl Json for (semaphore::PermitId, semaphore::Grant) {
    fn json(&self, out: &mut String) {
        object!(out, "id": self.0, "grant": self.1);
    }
}

impl Json for semaphore::Inspection {
    fn json(&self, out: &mut String) {
        object!(out, "nowUs": self.now, "used": self.used, "holders": self.holders,
            "grants": self.grants);
    }
}

impl Json for latch::Answer {
    fn json(&self, out: &mut String) {
        match self {
            latch::Answer::Done { left } => object!(out, "is": "done", "left": left),
            latch::Answer::Closed { left, open_at } => {
                object!(out, "is": "closed", "left": left, "openAtUs": open_at);
            }
            latch::Answer::Open => object!(out, "is": "open"),
            latch::Answer::TooLate { forgotten } => {
                object!(out, "is": "tooLate", "forgottenUs": forgotten);
            }
        }
    }
}

impl Json for latch::Inspection {
    fn json(&self, out: &mut String) {
        object!(out, "nowUs": self.now, "left": self.left, "openAtUs": self.open_at);
    }
}

impl Json for () {
    fn json(&self, out: &mut String) {
        out.push_str("null");
    }
}

impl<T: Json> Json for Access<T> {
    fn json(&self, out: &mut String) {
        match self {
            Access::Accepted(kept) => object!(out, "is": "accepted", "kept": kept),
            Access::Stale { newest } => object!(out, "is": "stale", "newest": newest),
        }
    }
}

impl Json for Kept {
    fn json(&self, out: &mut String) {
        let hex: String = self.value.iter().map(|byte| format!("{byte:02x}")).collect();
        object!(out, "hex": hex[..], "leftUs": self.left);
    }
}
