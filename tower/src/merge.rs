//! The header fields of several limits in one response.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::pause::number;
use crate::structured::{Item, items};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");
const LEGACY_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const LEGACY_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const LEGACY_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const LEGACY: [HeaderName; 3] = [LEGACY_LIMIT, LEGACY_REMAINING, LEGACY_RESET];

/// The header fields of a layer, each once.
#[derive(Default)]
pub(crate) struct AllFields {
    policies: Option<HeaderValue>,
    states: Option<HeaderValue>,
    /// Those of `X-RateLimit-*`, as in [`LEGACY`].
    older: Option<Box<[HeaderValue; 3]>>,
}

impl AllFields {
    /// Adds items to `RateLimit-Policy`.
    pub(crate) fn add_policies(&mut self, items: HeaderValue) {
        add(&mut self.policies, items);
    }

    /// Adds items to `RateLimit`.
    pub(crate) fn add_states(&mut self, items: HeaderValue) {
        add(&mut self.states, items);
    }

    pub(crate) fn set_older(&mut self, numbers: [u64; 3]) {
        self.older = Some(Box::new(numbers.map(number_value)));
    }

    fn is_empty(&self) -> bool {
        self.policies.is_none() && self.states.is_none() && self.older.is_none()
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let lists = self.policies.map(|list| (POLICY, list)).into_iter();
        let lists = lists.chain(self.states.map(|list| (STATE, list)));
        lists.chain(self.older.into_iter().flat_map(|older| LEGACY.into_iter().zip(*older)))
    }

    /// Adds the fields to a response that has no others.
    pub(crate) fn into_headers(self, headers: &mut HeaderMap) {
        for (name, value) in self.into_iter() {
            headers.insert(name, value);
        }
    }

    /// Adds the fields to a response of an inner service, which may have those of its own limits.
    ///
    /// Lists have the items of both; those of this layer are numbered if their names are taken. The older fields are of
    /// one limit: the one that denies, and otherwise the one that has the least left.
    pub(crate) fn merge_into(self, status: StatusCode, headers: &mut HeaderMap) {
        if self.is_empty() {
            return;
        }
        let is_denied = status == StatusCode::TOO_MANY_REQUESTS;
        let lists = [(POLICY, &self.policies), (STATE, &self.states)];
        let is_there = |name: &HeaderName| headers.contains_key(name);
        let is_shared = |(name, list): &(HeaderName, &Option<_>)| list.is_some() && is_there(name);
        let shares_older = self.older.is_some() && LEGACY.iter().any(is_there);
        if !is_denied && !lists.iter().any(is_shared) && !shares_older {
            return self.into_headers(headers);
        }
        let lists: Vec<_> =
            lists.iter().filter_map(|(name, list)| Some((name, list.as_ref()?))).collect();
        merge_lists(&lists, headers);
        if let Some(older) = self.older.filter(|older| !is_denied && is_nearer(older, headers)) {
            for (name, value) in LEGACY.into_iter().zip(*older) {
                headers.insert(name, value);
            }
        }
    }
}

/// Adds items to a list. Lists go on in one line, since many clients read only the first one.
fn add(list: &mut Option<HeaderValue>, items: HeaderValue) {
    *list = Some(match list.take() {
        Some(list) => value(&[list.as_bytes(), b", ", items.as_bytes()].concat()),
        None => items,
    });
}

fn merge_lists(ours: &[(&HeaderName, &HeaderValue)], headers: &mut HeaderMap) {
    // A field in an older form is replaced: with both forms in one list, no client could read either.
    let theirs = [POLICY, STATE].map(|name| {
        let lines: Vec<_> = headers.get_all(name).iter().map(text).collect();
        Some(lines.join(", ")).filter(|list| items(list).is_some()).unwrap_or_default()
    });
    let names = |list| items(list).into_iter().flatten().map(|item| item.name);
    let taken: Vec<_> = theirs.iter().flat_map(|list| names(list)).collect();
    let own: Vec<_> = ours.iter().flat_map(|(_, list)| names(text(list))).collect();
    for (name, list) in ours {
        let mut all = theirs[usize::from(**name == STATE)].clone();
        for Item { name, parameters, .. } in items(text(list)).into_iter().flatten() {
            let numbered = (2..).map(|number| format!("{name}-{number}"));
            let is_free = |name: &String| !taken.contains(&&**name);
            let mut free = numbered.filter(|name| is_free(name) && !own.contains(&&**name));
            let name = Some(name.to_owned()).filter(is_free).or_else(|| free.next());
            let separator = if all.is_empty() { "" } else { ", " };
            all.push_str(&format!("{separator}\"{}\"{parameters}", name.unwrap_or_default()));
        }
        headers.insert(*name, value(all.as_bytes()));
    }
}

/// Returns whether the limit of these older fields is nearer to denying than that of the response's.
fn is_nearer(ours: &[HeaderValue; 3], headers: &HeaderMap) -> bool {
    let [_, own_left, own_reset] = ours.each_ref().map(|value| number(text(value)));
    let their = |name| {
        let values = headers.get_all(name).iter().filter_map(|value| number(text(value)));
        values.reduce(f64::min)
    };
    let (Some(left), Some(their_left)) = (own_left, their(LEGACY_REMAINING)) else { return true };
    left < their_left || left == their_left && own_reset > their(LEGACY_RESET)
}

/// Returns the text of a field; an empty one if it is not text, which is no list and no number.
fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or("?")
}

/// Returns the field value of a number.
pub(crate) fn number_value(number: u64) -> HeaderValue {
    value(itoa::Buffer::new().format(number).as_bytes())
}

/// Returns the field value of a text.
pub(crate) fn value(text: &[u8]) -> HeaderValue {
    // Names are checked, and all else is ours.
    HeaderValue::from_bytes(text).expect("visible ASCII")
}
