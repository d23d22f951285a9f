//! The usage that the body of a response states, read while it passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::CONTENT_ENCODING;
use http::{HeaderValue, response};
use tracing::warn;

use crate::documents::{Documents, Format};
use crate::error::SetupError;
use crate::numbers::{self, Found, Pointer};

/// The usage that the body of a response states: of a streamed answer in its last events, otherwise in its document.
///
/// The body passes unchanged and unbuffered while it is read. `Content-Type` names its form: server-sent events, JSON
/// lines, or one JSON document. Of each number the last one counts.
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use std::time::Duration;
///
/// use http::request::Parts;
/// use lockage::runtime::Tokio;
/// use lockage::{Limiter, limit};
/// use lockage_memory::MemoryStore;
/// use lockage_tower::{Commit, Cost, RateLimit, Unmeasured, Usage, header};
///
/// let limit = limit!("requests: fixed-window 60/min + tokens: token-bucket 90_000/min");
/// let limiter = Limiter::new(MemoryStore::new(), limit).with_prefix("llm")?;
/// let usage = Usage::openai().if_unmeasured(Unmeasured::Events(1));
/// let layer = RateLimit::by(header("x-api-key")?, limiter)
///     .cost_of("requests", |_: &Parts| 1)
///     .cost_of("tokens", Cost::by_body(4_096))
///     .reserve(Tokio, Duration::from_secs(600), Commit::by_usage(usage).for_part("tokens"))
///     .build()?;
/// # } Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Unmeasured responses
/// A response without a number for the answer, one that breaks off before it, and a request without a response cost what
/// [`if_unmeasured`](Usage::if_unmeasured) chooses, and those of status 4xx and 5xx what [`if_failed`](Usage::if_failed)
/// does; never less than the usage that was seen. So do bodies with a `Content-Encoding`, which are not read: let the
/// layer that compresses be outside of this one, and let clients to the model not ask for compression.
#[derive(Clone)]
pub struct Usage {
    pointers: Arc<[Pointer]>,
    /// The meaning of the number at each pointer.
    kinds: Vec<Kind>,
    /// Whether the tokens of the input exclude those of the cache.
    cache_is_apart: bool,
    /// The form of bodies whose `Content-Type` names none.
    format: Option<Format>,
    bound: usize,
    /// The cost of each part of a name, or one without a name for all.
    charges: Vec<(Box<str>, Arc<Charge>)>,
    if_unmeasured: Unmeasured,
    if_failed: Unmeasured,
    has_warned: Arc<AtomicBool>,
}

type Charge = dyn Fn(&Tokens) -> u64 + Send + Sync;

/// The cost of a response that does not state its usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unmeasured {
    /// The estimate of the request.
    #[default]
    Estimate,
    /// This much output for each event, or line, that arrived. An event of a language model has about one token.
    Events(u64),
    /// One unit of output for this many bytes that arrived, rounded up.
    Bytes(u64),
    /// Nothing.
    Nothing,
}

/// The usage of one response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tokens {
    /// The tokens of the prompt, with those that were read from the cache.
    pub input: u64,
    /// The part of the input that was read from the cache.
    pub cached_input: u64,
    /// The tokens of the answer.
    pub output: u64,
}

impl Tokens {
    /// Returns the sum of input and output.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Returns the input that was not read from the cache.
    pub fn uncached_input(&self) -> u64 {
        self.input.saturating_sub(self.cached_input)
    }
}

/// The meaning of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Input,
    CacheRead,
    CacheWrite,
    /// The output so far, early in a stream.
    FirstOutput,
    Output,
    Total,
}

/// The largest document, by default.
const BOUND: usize = 1 << 20;

impl Usage {
    /// Reads the usage of OpenAI's API, and of those with its forms: chat completions, responses and embeddings. Streamed
    /// chat completions state it only on request, by `"stream_options": {"include_usage": true}`.
    pub fn openai() -> Self {
        let mut fields = Vec::new();
        for place in ["/usage", "/response/usage"] {
            for (name, kind) in [
                ("prompt_tokens", Kind::Input),
                ("prompt_tokens_details/cached_tokens", Kind::CacheRead),
                ("completion_tokens", Kind::Output),
                ("input_tokens", Kind::Input),
                ("input_tokens_details/cached_tokens", Kind::CacheRead),
                ("output_tokens", Kind::Output),
                ("total_tokens", Kind::Total),
            ] {
                fields.push((format!("{place}/{name}"), kind));
            }
        }
        Usage::of(fields, false)
    }

    /// Reads the usage of messages of Anthropic's API. It is complete with the `message_delta` that ends the answer; a
    /// stream that breaks off before has at least the input of its `message_start`.
    pub fn anthropic() -> Self {
        let mut fields = Vec::new();
        for (place, output) in [("/message/usage", Kind::FirstOutput), ("/usage", Kind::Output)] {
            for (name, kind) in [
                ("input_tokens", Kind::Input),
                ("cache_creation_input_tokens", Kind::CacheWrite),
                ("cache_read_input_tokens", Kind::CacheRead),
                ("output_tokens", output),
            ] {
                fields.push((format!("{place}/{name}"), kind));
            }
        }
        // In events `/message/usage` is of the start. A document has `/usage` alone.
        Usage::of(fields, true)
    }

    /// Reads the number at this place of each document, a JSON Pointer such as `/usage/units`, as the output.
    ///
    /// # Errors
    /// [`SetupError::Pointer`].
    pub fn at(pointer: &str) -> Result<Self, SetupError> {
        Pointer::parse(pointer)?;
        Ok(Usage::of(vec![(pointer.into(), Kind::Output)], false))
    }

    /// Counts the events of the body, or its lines, as the output. `[DONE]` is none.
    pub fn events() -> Self {
        Usage::of(Vec::new(), false)
    }

    fn of(fields: Vec<(String, Kind)>, cache_is_apart: bool) -> Self {
        let pointer = |(text, _): &(String, Kind)| Pointer::parse(text).expect("it is a pointer");
        Usage {
            pointers: fields.iter().map(pointer).collect(),
            kinds: fields.into_iter().map(|(_, kind)| kind).collect(),
            cache_is_apart,
            format: None,
            bound: BOUND,
            charges: Vec::new(),
            if_unmeasured: Unmeasured::default(),
            if_failed: Unmeasured::Nothing,
            has_warned: Arc::default(),
        }
    }

    /// Sets the form of bodies whose `Content-Type` names none. By default these are unmeasured.
    pub fn format(self, format: Format) -> Self {
        Usage { format: Some(format), ..self }
    }

    /// Sets how long a document, an event or a line may be to be read, 1 MiB by default. As much is kept of one that is
    /// not yet whole. Longer ones are skipped, as an event of `tracing` says once.
    pub fn up_to(self, bytes: usize) -> Self {
        Usage { bound: bytes, ..self }
    }

    /// Computes the cost from the usage, by default its [total](Tokens::total).
    ///
    /// ```
    /// use lockage_tower::Usage;
    ///
    /// // An output token costs as much as five of the input, of which the cache's are free.
    /// let usage = Usage::anthropic().cost(|tokens| tokens.uncached_input() + tokens.output * 5);
    /// ```
    pub fn cost(self, cost: impl Fn(&Tokens) -> u64 + Send + Sync + 'static) -> Self {
        Usage { charges: vec![("".into(), Arc::new(cost))], ..self }
    }

    /// Computes the cost of one part of the limit from the usage, for limits that count input and output apart.
    pub fn cost_of(
        mut self,
        part: &str,
        cost: impl Fn(&Tokens) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.charges.retain(|(name, _)| !name.is_empty() && **name != *part);
        self.charges.push((part.into(), Arc::new(cost)));
        self
    }

    /// Sets the cost of responses that do not state it, [`Unmeasured::Estimate`] by default.
    pub fn if_unmeasured(self, cost: Unmeasured) -> Self {
        Usage { if_unmeasured: cost, ..self }
    }

    /// Sets the cost of responses of status 4xx and 5xx that do not state it, [`Unmeasured::Nothing`] by default.
    pub fn if_failed(self, cost: Unmeasured) -> Self {
        Usage { if_failed: cost, ..self }
    }

    /// Returns the names of the parts that it has costs of.
    pub(crate) fn parts(&self) -> Arc<[Box<str>]> {
        self.charges.iter().map(|(name, _)| name.clone()).filter(|name| !name.is_empty()).collect()
    }

    /// Returns the cost of the part at this place after `bytes` of a response, or without one.
    pub(crate) fn charge(
        &self,
        place: usize,
        estimate: u64,
        meter: Option<&Meter>,
        bytes: u64,
    ) -> u64 {
        let seen = meter.map_or(Seen::default(), |meter| meter.seen);
        let tokens = self.tokens(&seen);
        let charge = |tokens: &Tokens| match self.charges.get(place) {
            Some((_, charge)) => charge(tokens),
            None => tokens.total(),
        };
        if seen.is_measured {
            return charge(&tokens);
        }
        let counted = |output: u64| charge(&Tokens { output: tokens.output.max(output), ..tokens });
        match meter.filter(|meter| meter.has_failed).map_or(self.if_unmeasured, |_| self.if_failed)
        {
            Unmeasured::Estimate => charge(&tokens).max(estimate),
            Unmeasured::Events(each) => counted(seen.events.saturating_mul(each)),
            Unmeasured::Bytes(each) => counted(bytes.div_ceil(each.max(1))),
            Unmeasured::Nothing => charge(&tokens),
        }
    }

    fn tokens(&self, seen: &Seen) -> Tokens {
        let (read, written) =
            if self.cache_is_apart { (seen.cache_read, seen.cache_write) } else { (0, 0) };
        let input = seen.input.saturating_add(read).saturating_add(written);
        let output = seen.output.unwrap_or_else(|| seen.total.saturating_sub(input));
        Tokens { input, cached_input: seen.cache_read.min(input), output }
    }
}

/// The numbers that a response has stated so far.
#[derive(Clone, Copy, Default)]
struct Seen {
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: Option<u64>,
    total: u64,
    events: u64,
    /// Whether the number for the whole answer is among them.
    is_measured: bool,
}

/// The usage of one response, while its body passes.
pub(crate) struct Meter {
    usage: Arc<Usage>,
    /// `None` if the body cannot be read.
    documents: Option<Documents>,
    seen: Seen,
    has_failed: bool,
}

impl Meter {
    pub(crate) fn new(usage: &Arc<Usage>, head: &response::Parts) -> Self {
        let is_plain =
            |encoding: &HeaderValue| encoding.as_bytes().eq_ignore_ascii_case(b"identity");
        let is_plain = head.headers.get_all(CONTENT_ENCODING).iter().all(is_plain);
        let format = Format::of(&head.headers).or(usage.format).filter(|_| is_plain);
        Meter {
            documents: format.map(|format| Documents::new(format, usage.bound)),
            usage: Arc::clone(usage),
            seen: Seen::default(),
            has_failed: head.status.is_client_error() || head.status.is_server_error(),
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let Meter { usage, documents, seen, .. } = self;
        if let Some(documents) = documents {
            documents.push(bytes, &mut |document| {
                if document != b"[DONE]" {
                    seen.events = seen.events.saturating_add(1);
                    seen.read(usage, document);
                }
            });
        }
    }

    /// Reads the last document. One that a broken body cuts is no event.
    pub(crate) fn finish(&mut self, is_end: bool) {
        let Meter { usage, documents, seen, .. } = self;
        let Some(mut documents) = documents.take() else { return };
        documents.finish(&mut |document| {
            if document != b"[DONE]" {
                seen.events = seen.events.saturating_add(u64::from(is_end));
                seen.read(usage, document);
            }
        });
        seen.is_measured |= is_end && usage.pointers.is_empty();
        if documents.has_skipped() && !usage.has_warned.swap(true, Ordering::Relaxed) {
            let bound = usage.bound;
            warn!(
                target: "lockage",
                "a document of a response exceeds {bound} bytes and is not read, so its usage does not count: set \
                 `Usage::up_to`"
            );
        }
    }
}

impl Seen {
    fn read(&mut self, usage: &Usage, document: &[u8]) {
        if usage.pointers.is_empty() {
            self.output = Some(self.events);
            return;
        }
        // A document that is not JSON states nothing.
        let Ok(found) = numbers::read(document, &usage.pointers) else { return };
        for (kind, found) in usage.kinds.iter().zip(found) {
            let Found::Number(number) = found else { continue };
            match kind {
                Kind::Input => self.input = number,
                Kind::CacheRead => self.cache_read = number,
                Kind::CacheWrite => self.cache_write = number,
                Kind::FirstOutput | Kind::Output => self.output = Some(number),
                Kind::Total => self.total = number,
            }
            self.is_measured |= matches!(kind, Kind::Output | Kind::Total);
        }
    }
}
