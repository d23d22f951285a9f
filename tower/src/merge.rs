//! The header fields of several limits in one response.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use smallvec::SmallVec;

use crate::pause::number;
use crate::structured::{Item, items};

pub(crate) const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(crate) const STATE: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) const LEGACY_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
pub(crate) const LEGACY_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
pub(crate) const LEGACY_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
pub(crate) const LEGACY: [HeaderName; 3] = [LEGACY_LIMIT, LEGACY_REMAINING, LEGACY_RESET];

/// The header fields of a layer, each once.
#[derive(Default)]
pub(crate) struct AllFields(SmallVec<[(HeaderName, HeaderValue); 2]>);

impl AllFields {
    /// Adds a field. Lists go on in one line, since many clients read only the first one.
    pub(crate) fn add(&mut self, name: HeaderName, value: HeaderValue) {
        match self.0.iter_mut().find(|(other, _)| *other == name) {
            Some((_, list)) => {
                *list = crate::merge::value(&[list.as_bytes(), b", ", value.as_bytes()].concat())
            }
            None => self.0.push((name, value)),
        }
    }

    #[cfg(feature = "rules")]
    pub(crate) fn into_iter(self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        self.0.into_iter()
    }

    /// Adds the fields to a response that has no others.
    pub(crate) fn into_headers(self, headers: &mut HeaderMap) {
        headers.extend(self.0);
    }

    /// Adds the fields to a response of an inner service, which may have those of its own limits.
    ///
    /// Lists have the items of both; those of this layer are numbered if their names are taken. The older fields are of
    /// one limit: the one that denies, and otherwise the one that has the least left.
    pub(crate) fn merge_into(self, status: StatusCode, headers: &mut HeaderMap) {
        let is_denied = status == StatusCode::TOO_MANY_REQUESTS;
        let is_there = |name: &HeaderName| headers.contains_key(name);
        if !is_denied && !self.0.iter().any(|(name, _)| is_there(name)) {
            return self.into_headers(headers);
        }
        let (lists, older): (Vec<_>, Vec<_>) =
            self.0.into_iter().partition(|(name, _)| *name == POLICY || *name == STATE);
        merge_lists(&lists, headers);
        if !is_denied && is_nearer(&older, headers) {
            LEGACY.iter().for_each(|name| drop(headers.remove(name)));
            headers.extend(older);
        }
    }
}

fn merge_lists(ours: &[(HeaderName, HeaderValue)], headers: &mut HeaderMap) {
    // A field in an older form is replaced: with both forms in one list, no client could read either.
    let theirs = [POLICY, STATE].map(|name| {
        let lines: Vec<_> = headers.get_all(name).iter().map(text).collect();
        Some(lines.join(", ")).filter(|list| items(list).is_some()).unwrap_or_default()
    });
    let names = |list| items(list).into_iter().flatten().map(|item| item.name);
    let taken: Vec<_> = theirs.iter().flat_map(|list| names(list)).collect();
    let own: Vec<_> = ours.iter().flat_map(|(_, list)| names(text(list))).collect();
    for (name, list) in ours {
        let mut all = theirs[usize::from(*name == STATE)].clone();
        for Item { name, parameters, .. } in items(text(list)).into_iter().flatten() {
            let numbered = (2..).map(|number| format!("{name}-{number}"));
            let is_free = |name: &String| !taken.contains(&&**name);
            let mut free = numbered.filter(|name| is_free(name) && !own.contains(&&**name));
            let name = Some(name.to_owned()).filter(is_free).or_else(|| free.next());
            let separator = if all.is_empty() { "" } else { ", " };
            all.push_str(&format!("{separator}\"{}\"{parameters}", name.unwrap_or_default()));
        }
        headers.insert(name, value(all.as_bytes()));
    }
}

/// Returns whether the limit of these older fields is nearer to denying than that of the response's.
fn is_nearer(ours: &[(HeaderName, HeaderValue)], headers: &HeaderMap) -> bool {
    let own = |name| {
        ours.iter().find(|(other, _)| *other == name).and_then(|(_, value)| number(text(value)))
    };
    let their = |name| {
        let values = headers.get_all(name).iter().filter_map(|value| number(text(value)));
        values.reduce(f64::min)
    };
    let (Some(left), Some(their_left)) = (own(LEGACY_REMAINING), their(LEGACY_REMAINING)) else {
        return !ours.is_empty();
    };
    left < their_left || left == their_left && own(LEGACY_RESET) > their(LEGACY_RESET)
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
