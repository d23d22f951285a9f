//! Stories of limiters. Their times are those at which decisions change, by the decisions before.

use std::time::Duration;

use lockage_core::{
    Acquire, AcquireEach, Adjust, CalendarWindow, CancelTurn, Cost, Decision, Limit, Peek, Renew,
    RequestId, Reservation, Reset, SetLimit, Settle, StoredLimit, TakeTurn, Ticket, Timestamp,
    Turn, Verdict, WithStoredLimit,
};
use lockage_sim::engine::bounded;
use serde_json::Value;

use super::Recorder;

const HOUR_US: u64 = 3_600_000_000;

/// The midnights in Berlin before the clocks are set, in 2026.
const BERLIN_SET_CLOCKS_US: [u64; 2] = [1_774_738_800_000_000, 1_792_879_200_000_000];

type Story = fn(&mut Recorder);

/// The stories of the first limit of each kind; the others have only decisions.
const OF_EACH_KIND: [Story; 4] = [decisions, requests, adjustments, reservations];

const KINDS: [(&str, [&str; 3]); 10] = [
    (
        "calendar-window",
        [
            "calendar-window 10/day in Europe/Berlin",
            "calendar-window 3/week in UTC",
            "calendar-window 1000000/month in America/New_York",
        ],
    ),
    ("fixed-window", ["fixed-window 10/60s", "fixed-window 3/7us", "fixed-window 1000000/day"]),
    ("sliding-log", ["sliding-log 10/60s", "sliding-log 3/7us", "sliding-log 1000000/day"]),
    (
        "sliding-window",
        ["sliding-window 10/60s", "sliding-window 3/7us", "sliding-window 1000000/day"],
    ),
    (
        "token-bucket",
        [
            "token-bucket 100/min burst 20",
            "token-bucket 3/7us burst 5",
            "token-bucket 1000000/day burst 1000000",
        ],
    ),
    (
        "interval-bucket",
        [
            "token-bucket 8 every 2s burst 8",
            "token-bucket 2 every 7us burst 5",
            "token-bucket 1000000 every day burst 1000000",
        ],
    ),
    (
        "warmup-bucket",
        [
            "token-bucket 100/min burst 20 warmup 10min",
            "token-bucket 3/7us burst 5 warmup 35us",
            "token-bucket 1000000/day burst 1000000 warmup 1h",
        ],
    ),
    (
        "in-flight",
        ["in-flight 10 lease 1day", "in-flight 3 lease 7us", "in-flight 1000000 lease 60s"],
    ),
    (
        "leaky-bucket",
        [
            "leaky-bucket 10/s queue 20",
            "leaky-bucket 3/7us queue 5",
            "leaky-bucket 1000000/day queue 1000000",
        ],
    ),
    (
        "composite",
        [
            "token-bucket 100/min burst 20 + sliding-window 10/60s",
            "fixed-window 3/7us + token-bucket 2 every 7us burst 5",
            "leaky-bucket 10/s queue 20 + sliding-log 1000/day",
        ],
    ),
];

const OTHERS: [(&str, &str, Story); 5] = [
    (
        "costs-by-part",
        "fixed-window 3/min + token-bucket 90_000/min + sliding-window 2_000_000/day",
        by_part,
    ),
    ("days", "calendar-window 10/day in Europe/Berlin", days),
    ("many-requests", "token-bucket 100/min burst 20", many_requests),
    ("stored-limits", "token-bucket 10/s burst 20", stored_limits),
    ("turns", "leaky-bucket 10/s queue 5", turns),
];

/// Returns the name of each file, and its vectors.
pub(super) fn stories() -> Vec<(&'static str, Vec<Value>)> {
    let kinds = KINDS.map(|(kind, [first, others @ ..])| {
        let of_first = OF_EACH_KIND.map(|story| told(first, story));
        let of_others = others.map(|limit| told(limit, decisions));
        (kind, of_first.into_iter().chain(of_others).flatten().collect())
    });
    let others = OTHERS.map(|(name, limit, story)| (name, told(limit, story)));
    kinds.into_iter().chain(others).collect()
}

fn told(limit: &str, story: Story) -> Vec<Value> {
    let mut key = Recorder::new(limit);
    story(&mut key);
    key.vectors
}

fn decisions(key: &mut Recorder) {
    let full = key.limit().capacity();
    _ = key.peek(full);
    _ = key.acquire(full.div_ceil(2));
    key.now_us += 1;
    let each = AcquireEach::new(key.limit(), vec![1, full, 1]).expect("a few, above 0");
    key.record("acquire each of 1, the capacity, 1", &each);
    _ = key.acquire(full + 1);
    // To the tick at which all of it fits again.
    let denied = key.acquire(full);
    key.now_us += micros(denied.retry_after().expect("the capacity can always be admitted again"));
    key.now_us -= 1;
    _ = key.peek(full);
    key.now_us += 1;
    assert_eq!(key.acquire(full).verdict, Verdict::Allowed, "D2");
    // A step back, then to the tick at which the state is fresh.
    key.now_us -= 2;
    let stalled = key.acquire(1);
    key.now_us += micros(stalled.reset_after) - 1;
    _ = key.peek(1);
    key.now_us += 1;
    _ = key.peek(1);
    _ = key.acquire(1);
}

/// Records requests with an id: repeated, used for another cost, denied, and forgotten (D11).
fn requests(key: &mut Recorder) {
    let full = key.limit().capacity();
    key.request(1, 1, 100);
    key.now_us += 1;
    key.request(1, 1, 100);
    key.request(2, 1, 100);
    _ = key.acquire(1);
    key.request(full, 2, 100);
    key.now_us += 98;
    key.request(1, 1, 100);
    key.now_us += 1;
    key.request(1, 1, 100);
}

/// Records more requests than a key remembers.
fn many_requests(key: &mut Recorder) {
    for id in 10..20 {
        key.request(1, id, HOUR_US);
    }
    key.request(1, 12, HOUR_US);
    key.request(1, 11, HOUR_US);
}

fn adjustments(key: &mut Recorder) {
    let (limit, second) = (key.limit(), Duration::from_secs(1));
    let block = Adjust::block(limit, second).expect("in range");
    let take = |most| Adjust::take_up_to(limit, most).expect("above 0");
    let take_once = take(1).with_request(RequestId::from_u128(1), second).expect("in range");
    key.record("block for 1s", &block);
    _ = key.acquire(1);
    _ = key.peek(1);
    key.record("unblock", &Adjust::unblock(limit));
    key.record("take up to 3", &take(3));
    key.record("take up to 1, with an id", &take_once);
    key.now_us += 1;
    key.record("take up to 1, with an id, repeated", &take_once);
    key.record("refund 2", &Adjust::refund(limit, 2).expect("above 0"));
    key.record("penalty 100", &Adjust::penalty(limit, 100).expect("above 0"));
    key.record("take up to 1", &take(1));
    let other: Limit = "fixed-window 77/s".parse().expect("well formed");
    key.record("acquire 1 under fixed-window 77/s", &Acquire::new(other, 1).expect("above 0"));
    key.record("reset", &Reset);
    key.record("reset, repeated", &Reset);
}

/// Reservations: repeated, denied, settled for less and for more, expired, and never made.
fn reservations(key: &mut Recorder) {
    let full = key.limit().capacity();
    let first = key.reserve(3, 1).expect("it is admitted");
    key.now_us += 1;
    _ = key.reserve(3, 1);
    _ = key.reserve(2, 1);
    _ = key.reserve(full, 2);
    _ = key.acquire(1);
    key.settle("of 3 for 1", &first, 1);
    key.now_us += 1;
    key.settle("of 3 for 1, repeated", &first, 1);
    key.settle("of 3 for 2", &first, 2);
    let second = key.reserve(1, 3).expect("it is admitted");
    key.settle("of 1 for 3", &second, 3);
    let third = key.reserve(1, 4).expect("it is admitted");
    key.settle("that was never made", &Reservation { id: RequestId::from_u128(5), ..third }, 1);
    key.now_us = third.expires_at.as_micros();
    key.settle("that has expired", &third, 0);
    let fourth = key.reserve(1, 6).expect("it is admitted");
    key.renew("", &fourth);
    key.renew(", repeated", &fourth);
    key.settle("that was renewed", &fourth, 0);
    key.renew(" that was settled", &fourth);
    key.renew(" that was never made", &Reservation { id: RequestId::from_u128(7), ..fourth });
}

/// Records limits that are stored under the key: set, followed, changed, begun afresh, and forgotten.
fn stored_limits(key: &mut Recorder) {
    let stored = StoredLimit::new(key.limit());
    let other: StoredLimit = "sliding-window 10/60s kept 1h".parse().expect("well formed");
    let per_client: StoredLimit = "sliding-log 5/s per client".parse().expect("well formed");
    let own = key.asked(2);
    let following = WithStoredLimit::new(own);
    key.record("acquire 2 under the stored limit, of which there is none", &following);
    key.record("set", &SetLimit::new(stored));
    key.record("acquire 2 under a limit of the caller's own", &own);
    key.record("acquire 2 under the stored limit", &following);
    key.record("set sliding-window 10/60s kept 1h, if none is", &SetLimit::if_absent(other));
    key.record("set sliding-window 10/60s kept 1h", &SetLimit::new(other));
    key.record("peek 1 under the stored limit", &WithStoredLimit::new(Peek::new(key.limit(), 1)));
    key.record("set afresh", &SetLimit::afresh(stored));
    key.record("reset", &Reset);
    key.record(
        "acquire 2 under the stored limit, or else this",
        &WithStoredLimit::or_under(&own, stored),
    );
    key.record("set sliding-log 5/s per client", &SetLimit::new(per_client));
    key.record("acquire 2 under the stored limit, which is per client", &following);
}

/// Records days of 23 and 25 hours, a caller whose zone data are others, and times outside the days that a call
/// knows.
fn days(key: &mut Recorder) {
    for midnight_us in BERLIN_SET_CLOCKS_US {
        key.now_us = midnight_us;
        let begun = key.acquire(10);
        key.now_us += micros(begun.reset_after) - 1;
        _ = key.peek(1);
        key.now_us += 1;
        _ = key.peek(1);
    }
    _ = key.acquire(9);
    let earlier =
        |window: CalendarWindow| window.with_boundaries(window.boundaries().map(|at| at - HOUR_US));
    let other = Acquire::new(key.limit().with_calendar(earlier), 1).expect("above 0");
    key.now_us += 24 * HOUR_US - 1;
    key.record("acquire 1, as if days ended an hour earlier", &other);
    key.now_us += 1;
    key.record("acquire 1, as if days ended an hour earlier", &other);
    let asked = key.asked(1);
    key.now_us += 48 * HOUR_US - 1;
    key.record("acquire 1 of a caller that is two days behind", &asked);
    key.now_us += 1;
    key.record("acquire 1 of a caller that is two days behind", &asked);
}

/// Costs by part: admitted, denied by one part, with a part that does not count, with an id, reserved and settled, given
/// back and owed, with logs, and of another number of parts than the stored limit.
fn by_part(key: &mut Recorder) {
    _ = key.by_part("+1+60000+60000");
    _ = key.by_part("+1+60000+60000");
    _ = key.by_part("+1+90001+1");
    _ = key.by_part("+0+30000+0");
    key.now_us += 1;
    let cost = |text: &str| text.parse::<Cost>().expect("well formed");
    let (limit, hour) = (key.limit(), Duration::from_secs(3600));
    key.record("peek +1+1+1", &Peek::by_part(limit, cost("+1+1+1")));
    key.now_us += 60_000_000;
    let own = Acquire::by_part(limit, cost("+1+2+3")).expect("above 0");
    let once = own.with_request(RequestId::from_u128(1), hour).expect("in range");
    key.record("acquire +1+2+3 as a request with an id", &once);
    key.record("acquire +1+2+3 as a request with an id, repeated", &once);
    let other = Acquire::by_part(limit, cost("+1+2+4")).expect("above 0");
    let other = other.with_request(RequestId::from_u128(1), hour).expect("in range");
    key.record("acquire +1+2+4 as a request with this id", &other);
    let reserve = own.reserve(RequestId::from_u128(2), hour).expect("in range");
    let reserved = key.record("reserve +1+2+3", &reserve).expect("it is decided");
    let reservation = reserved.reservation.expect("it is admitted");
    let settle = |text| Settle::by_part(limit, &reservation, cost(text));
    key.record("settle it for +1+0+5", &settle("+1+0+5"));
    key.record("settle it for +1+0+5, repeated", &settle("+1+0+5"));
    key.record("settle it for +1+0+4", &settle("+1+0+4"));
    let refund = Adjust::refund_by_part(limit, cost("+0+2+1")).expect("above 0");
    let refund_once = refund.with_request(RequestId::from_u128(3), hour).expect("in range");
    key.record("refund +0+2+1, with an id", &refund_once);
    key.record("refund +0+2+1, with an id, repeated", &refund_once);
    let penalty = Adjust::penalty_by_part(limit, cost("+0+200000+1")).expect("above 0");
    key.record("penalty +0+200000+1", &penalty);
    key.record("refund +1+1", &Adjust::refund_by_part(limit, cost("+1+1")).expect("above 0"));
    let logs: Limit = "sliding-log 3/s + leaky-bucket 1/s queue 9 + sliding-log 9/min"
        .parse()
        .expect("well formed");
    let of_logs = Acquire::by_part(logs, cost("+2+0+2")).expect("above 0");
    key.record("reset", &Reset);
    key.record("acquire +2+0+2 under logs and a queue", &of_logs);
    key.record("acquire +2+0+2 under logs and a queue, again", &of_logs);
    key.record(
        "set fixed-window 3/min",
        &SetLimit::new("fixed-window 3/min".parse().expect("a limit")),
    );
    key.record("acquire +1+2+3 under the stored limit", &WithStoredLimit::new(own));
    let with_log = "fixed-window 3/min + sliding-log 9/min";
    key.record(&format!("set {with_log}"), &SetLimit::new(with_log.parse().expect("a limit")));
    let nominal: Limit = "fixed-window 1/s".parse().expect("well formed");
    for text in ["+1+0", "+1+2"] {
        let acquire = Acquire::by_part(nominal, cost(text)).expect("above 0");
        let name = format!("acquire {text} under the stored limit with a log");
        key.record(&name, &WithStoredLimit::new(acquire));
    }
}

/// Turns in a queue: taken within a longest wait, and given back or not.
fn turns(key: &mut Recorder) {
    assert_eq!(key.take(2, u64::MAX).ticket, None, "it has its turn at once");
    key.now_us += 50_000;
    _ = key.take(1, 149_999);
    let first = key.take(1, 150_000).ticket;
    let second = key.take(1, u64::MAX).ticket;
    let third = key.take(1, u64::MAX).ticket;
    _ = key.take(1, u64::MAX);
    key.cancel("of one that is not the last", second);
    key.now_us += 10_000;
    key.cancel("of the last", third);
    key.now_us += 140_000;
    key.cancel("whose turn has come", first);
    key.request(1, 1, 400_000);
    let fourth = key.take(2, u64::MAX).ticket;
    key.cancel("of the last, after a request with an id", fourth);
    let fifth = key.take(2, u64::MAX).ticket;
    key.record("reset", &Reset);
    key.cancel("after a reset", fifth);
}

impl Recorder {
    /// Returns the limit of a caller whose clock is the store's.
    fn limit(&self) -> Limit {
        let limit = self.config.parse().expect("the limits above are well formed");
        bounded(&limit, Timestamp::from_micros(self.now_us).expect("within the range of time"))
    }

    fn asked(&self, cost: u64) -> Acquire {
        Acquire::new(self.limit(), cost).expect("above 0")
    }

    fn acquire(&mut self, cost: u64) -> Decision {
        let command = self.asked(cost);
        self.record(&format!("acquire {cost}"), &command).expect("it is decided")
    }

    fn by_part(&mut self, cost: &str) -> Decision {
        let of_parts = cost.parse().expect("well formed");
        let command = Acquire::by_part(self.limit(), of_parts).expect("above 0");
        self.record(&format!("acquire {cost}"), &command).expect("it is decided")
    }

    fn peek(&mut self, cost: u64) -> Decision {
        let command = Peek::new(self.limit(), cost);
        self.record(&format!("peek {cost}"), &command).expect("it is decided")
    }

    fn request(&mut self, cost: u64, id: u128, remember_us: u64) {
        let (id, remember) =
            (RequestId::from_u128(id << 64 | 7), Duration::from_micros(remember_us));
        let command = self.asked(cost).with_request(id, remember).expect("in range");
        self.record(&format!("acquire {cost} as a request with an id"), &command);
    }

    /// Holds it for a second.
    fn reserve(&mut self, cost: u64, id: u128) -> Option<Reservation> {
        let command = self.asked(cost).reserve(RequestId::from_u128(id), Duration::from_secs(1));
        self.record(&format!("reserve {cost}"), &command.expect("in range"))?.reservation
    }

    fn renew(&mut self, words: &str, reservation: &Reservation) {
        let hold = Duration::from_secs(60);
        let command = Renew::new(self.limit(), reservation, hold).expect("in range");
        self.record(&format!("renew the reservation{words}"), &command);
    }

    fn settle(&mut self, words: &str, reservation: &Reservation, actual: u64) {
        let command = Settle::new(self.limit(), reservation, actual);
        self.record(&format!("settle the reservation {words}"), &command);
    }

    fn take(&mut self, cost: u64, longest_wait_us: u64) -> Turn {
        let longest_wait = Duration::from_micros(longest_wait_us);
        let words = match longest_wait_us {
            u64::MAX => format!("acquire {cost}"),
            _ => format!("acquire {cost} within {longest_wait:?}"),
        };
        let command = TakeTurn::new(self.asked(cost).within(longest_wait));
        self.record(&words, &command).expect("it is decided")
    }

    fn cancel(&mut self, which: &str, ticket: Option<Ticket>) {
        let command = CancelTurn::new(ticket.expect("it waits for its turn"));
        self.record(&format!("cancel the turn {which}"), &command);
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).expect("no machine waits for longer than it remembers")
}
