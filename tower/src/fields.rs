//! Header fields that report limits to clients: `RateLimit-Policy` and `RateLimit` of
//! draft-ietf-httpapi-ratelimit-headers-11, and the older `X-RateLimit-*`.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use lockage::limiter::{CalendarWindow, Origin, bounded_at};
use lockage::store::Timestamp;
use lockage::{Decision, Limit, Verdict};
use smallvec::SmallVec;

use crate::cost::Unit;
use crate::error::SetupError;
use crate::merge::{AllFields, value};
use crate::pause::ceil;

/// The largest integer of a structured field (RFC 9651, 3.3.1).
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// The value of a field while it is written, without an allocation of its own.
type Text = SmallVec<[u8; 128]>;

/// The header fields of responses.
///
/// Parses from names in configurations: `draft-11`, `x-ratelimit`, both with a comma, or `none`.
///
/// ```
/// use lockage_tower::Fields;
///
/// assert_eq!("draft-11, x-ratelimit".parse::<Fields>()?, Fields::DRAFT_11.and_x_ratelimit());
/// let error = "draft-6".parse::<Fields>().unwrap_err();
/// assert!(error.to_string().contains("there are draft-11, x-ratelimit and none"));
/// # Ok::<(), lockage_tower::SetupError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    draft: bool,
    legacy: bool,
}

impl Fields {
    /// Only `Retry-After`.
    pub const NONE: Fields = Fields { draft: false, legacy: false };
    /// `RateLimit-Policy` and `RateLimit`.
    pub const DRAFT_11: Fields = Fields { draft: true, legacy: false };

    /// Adds `X-RateLimit-Limit`, `-Remaining` and `-Reset`, in seconds since the epoch by this machine's clock, of the
    /// limit that has the least left.
    pub const fn and_x_ratelimit(self) -> Self {
        Fields { legacy: true, ..self }
    }
}

impl FromStr for Fields {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Self, SetupError> {
        let mut fields = Fields::NONE;
        for name in text.split(',').map(str::trim) {
            match name {
                "draft-11" => fields.draft = true,
                "x-ratelimit" => fields.legacy = true,
                "none" if text.trim() == "none" => {}
                other => return Err(SetupError::Fields(other.into())),
            }
        }
        Ok(fields)
    }
}

/// The policies of one limiter, for clients.
#[derive(Debug)]
pub(crate) struct Policies {
    parts: Vec<Policy>,
    /// The field of all parts, if it never changes.
    fixed: Option<HeaderValue>,
}

/// One limit, for clients.
#[derive(Debug)]
struct Policy {
    name: Arc<str>,
    pace: Pace,
    unit: Unit,
}

/// A window of a calendar: its length in seconds, and when it ends since the epoch.
#[derive(Debug, Default)]
struct Running {
    seconds: u64,
    ends: Duration,
}

/// How fast a limit admits.
#[derive(Debug)]
enum Pace {
    /// A quota in each window, which begins with its first use.
    Window { quota: u64, seconds: u64 },
    /// A quota in this many seconds, and `burst` at once.
    Bucket { quota: u64, seconds: u64, burst: u64 },
    /// A quota in each window of a calendar; `last` is the window asked for last.
    Calendar { window: CalendarWindow, last: Mutex<Running> },
    /// A limit that is stored with each id, and not known here.
    Stored,
    /// A quota at once.
    AtOnce { quota: u64 },
}

impl Policies {
    /// Returns the policies of a limit, or of a stored one; the names are of its parts.
    pub(crate) fn new(
        limit: Option<Limit>,
        names: &[Arc<str>],
        unit: Unit,
    ) -> Result<Self, SetupError> {
        let paces: Vec<_> = match limit {
            Some(limit) => limit.parts().map(Pace::of).collect(),
            None => vec![Pace::Stored],
        };
        let names: Vec<Arc<str>> = match names {
            // One name for several parts numbers them.
            [name] if paces.len() > 1 => {
                (1..=paces.len()).map(|number| format!("{name}-{number}").into()).collect()
            }
            names if names.len() == paces.len() => names.to_vec(),
            names => {
                return Err(SetupError::NameCount { names: names.len(), limits: paces.len() });
            }
        };
        let policy = |(name, pace)| Policy { name, pace, unit };
        Ok(Policies::of(names.into_iter().zip(paces).map(policy).collect()))
    }

    /// Returns the policy of a bound on the requests that are served at once.
    pub(crate) fn at_once(name: Arc<str>, quota: u64) -> Self {
        Policies::of(vec![Policy { name, pace: Pace::AtOnce { quota }, unit: Unit::AtOnce }])
    }

    fn of(parts: Vec<Policy>) -> Self {
        let changes = parts.iter().any(|part| matches!(part.pace, Pace::Calendar { .. }));
        let mut policies = Policies { parts, fixed: None };
        if !changes {
            let mut text = Text::new();
            policies.write_policies(&mut text);
            policies.fixed = Some(value(&text));
        }
        policies
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.parts.iter().map(|part| &part.name)
    }

    /// Returns the unit that all of them count.
    pub(crate) fn unit(&self) -> Unit {
        self.parts[0].unit
    }

    /// Returns the names of the limits that deny.
    pub(crate) fn violated(&self, decision: &Decision) -> Vec<Arc<str>> {
        self.violated_parts(decision).map(|(_, part)| part.name.clone()).collect()
    }

    fn violated_parts(&self, decision: &Decision) -> impl Iterator<Item = (usize, &Policy)> {
        let admits = |index: usize| {
            let part = decision.parts.get(index);
            // For a decision without parts, and for a block, all of them.
            !decision.is_blocked() && part.is_some_and(|part| part.verdict == Verdict::Allowed)
        };
        self.parts.iter().enumerate().filter(move |&(index, _)| !admits(index))
    }

    /// Adds the policies, unless the limit is stored with each id: then its quota is not known here.
    pub(crate) fn add_policies(&self, fields: &mut AllFields) {
        if self.parts.iter().any(|part| matches!(part.pace, Pace::Stored)) {
            return;
        }
        let field = self.fixed.clone().unwrap_or_else(|| {
            let mut text = Text::new();
            self.write_policies(&mut text);
            value(&text)
        });
        fields.add_policies(field);
    }

    /// Adds the remaining quota after a decision that admits. Adds nothing if that is unknown: for prefetched permits
    /// and a fallback's decision, made without the store. For a stored limit, whose rate is not known here, it adds no
    /// time.
    pub(crate) fn add_state(&self, decision: &Decision, fields: &mut AllFields) {
        if decision.origin == Origin::Prefetch || decision.origin == Origin::Fallback {
            return;
        }
        let mut text = Text::new();
        for (index, policy) in self.parts.iter().enumerate() {
            let (remaining, reset_after) = match decision.parts.get(index) {
                Some(part) => (part.remaining, part.reset_after),
                None => (decision.remaining, decision.reset_after),
            };
            policy.write_state(remaining, policy.pace.lasts(remaining, reset_after), &mut text);
        }
        fields.add_states(value(&text));
    }

    /// Adds the limits that deny.
    pub(crate) fn add_denial(&self, decision: &Decision, retry_after: u64, fields: &mut AllFields) {
        let mut text = Text::new();
        for (_, policy) in self.violated_parts(decision) {
            policy.write_state(0, Some(retry_after), &mut text);
        }
        fields.add_states(value(&text));
    }

    /// Adds that all places are taken.
    pub(crate) fn add_no_room(&self, fields: &mut AllFields) {
        let mut text = Text::new();
        for policy in &self.parts {
            policy.write_state(0, None, &mut text);
        }
        fields.add_states(value(&text));
    }

    fn write_policies(&self, text: &mut Text) {
        for Policy { name, pace, unit } in &self.parts {
            let (quota, seconds, burst) = match pace {
                Pace::Window { quota, seconds } => (*quota, Some(*seconds), None),
                Pace::Bucket { quota, seconds, burst } => (*quota, Some(*seconds), Some(*burst)),
                Pace::Calendar { window, last } => {
                    (window.limit(), Some(running(window, last)), None)
                }
                Pace::AtOnce { quota } => (*quota, None, None),
                Pace::Stored => continue,
            };
            begin_item(name, text);
            parameter(";q=", quota, text);
            for (name, number) in [(";w=", seconds), (";lockage-burst=", burst)] {
                if let Some(number) = number {
                    parameter(name, number, text);
                }
            }
            let unit = if let Pace::AtOnce { .. } = pace { Unit::AtOnce } else { *unit };
            text.extend_from_slice(unit.parameter().as_bytes());
        }
    }
}

impl Policy {
    fn write_state(&self, remaining: u64, lasts: Option<u64>, text: &mut Text) {
        begin_item(&self.name, text);
        parameter(";r=", remaining, text);
        if let Some(seconds) = lasts {
            parameter(";t=", seconds, text);
        }
    }
}

impl Pace {
    fn of(limit: Limit) -> Self {
        let window = |quota, window: Duration| Pace::Window { quota, seconds: ceil(window) };
        let bucket = |amount, period, burst| {
            let (quota, seconds) = per_seconds(amount, period);
            Pace::Bucket { quota, seconds, burst }
        };
        match limit {
            Limit::FixedWindow(limit) => window(limit.limit(), limit.window()),
            Limit::SlidingLog(limit) => window(limit.limit(), limit.window()),
            Limit::SlidingWindow(limit) => window(limit.limit(), limit.window()),
            Limit::TokenBucket(limit) => bucket(limit.amount(), limit.period(), limit.burst()),
            Limit::IntervalBucket(limit) => bucket(limit.amount(), limit.interval(), limit.burst()),
            Limit::WarmupBucket(limit) => bucket(limit.amount(), limit.period(), limit.burst()),
            Limit::LeakyBucket(limit) => bucket(limit.amount(), limit.period(), limit.queue()),
            Limit::InFlight(limit) => Pace::AtOnce { quota: limit.limit() },
            Limit::CalendarWindow(window) => Pace::Calendar { window, last: Mutex::default() },
            // A kind that this version does not know.
            _ => Pace::Stored,
        }
    }

    /// Returns for how many seconds no more than `remaining` is available.
    ///
    /// For a bucket, that is the time in which it refills as much, so `r/t` never exceeds its rate. The time until it
    /// is full would be zero for a full bucket, and then a client would take its burst every second.
    fn lasts(&self, remaining: u64, reset_after: Duration) -> Option<u64> {
        match *self {
            Pace::Window { .. } | Pace::Calendar { .. } => Some(ceil(reset_after)),
            Pace::Bucket { quota, seconds, .. } => {
                let lasts = u128::from(remaining) * u128::from(seconds);
                let lasts = lasts.div_ceil(u128::from(quota));
                Some(u64::try_from(lasts).unwrap_or(u64::MAX).max(1))
            }
            Pace::Stored | Pace::AtOnce { .. } => None,
        }
    }
}

/// Returns a rate per whole seconds: as written if it is one, and otherwise the same rate in the fewest seconds.
fn per_seconds(amount: u64, period: Duration) -> (u64, u64) {
    if period.subsec_nanos() == 0 {
        return (amount, period.as_secs());
    }
    let (amount, period) = (u128::from(amount) * 1_000_000_000, period.as_nanos());
    let (mut a, mut b) = (amount, period);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    // The rate would have to be above 2^53 a second.
    let whole = |number: u128| u64::try_from(number / a).unwrap_or(u64::MAX);
    (whole(amount), whole(period))
}

/// Returns the length in seconds of the current window of a calendar, by this machine's clock.
fn running(window: &CalendarWindow, last: &Mutex<Running>) -> u64 {
    let now = since_epoch();
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let micros = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
    if now >= last.ends
        && let Ok(now) = Timestamp::from_micros(micros)
    {
        let [_, begin, end, _] = bounded_at(*window, now).boundaries().map(Duration::from_micros);
        *last = Running { seconds: ceil(end.saturating_sub(begin)), ends: end };
    }
    last.seconds
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Adds the fields of `X-RateLimit-*`.
pub(crate) fn add_legacy(decision: &Decision, fields: &mut AllFields) {
    let wait = decision.retry_after().unwrap_or(decision.reset_after);
    fields.set_older([decision.limit, decision.remaining, ceil(since_epoch() + wait)]);
}

impl Fields {
    pub(crate) fn draft(self) -> bool {
        self.draft
    }

    pub(crate) fn legacy(self) -> bool {
        self.legacy
    }
}

/// Checks a name, which must be valid in a structured field's string and in JSON.
pub(crate) fn check_name(name: &str) -> Result<Arc<str>, SetupError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_plain) {
        return Err(SetupError::Name(name.into()));
    }
    Ok(name.into())
}

fn begin_item(name: &str, text: &mut Text) {
    if !text.is_empty() {
        text.extend_from_slice(b", ");
    }
    text.push(b'"');
    text.extend_from_slice(name.as_bytes());
    text.push(b'"');
}

fn parameter(name: &str, number: u64, text: &mut Text) {
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(itoa::Buffer::new().format(number.min(MAX_INTEGER)).as_bytes());
}
