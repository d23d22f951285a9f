//! Lines with fields: each name with its text.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::text::{escape_invalid, quoted, shorten};

/// The fields of a line.
#[derive(Debug)]
pub(super) enum Fields<'a> {
    Json(Map<String, Value>),
    Pairs(Vec<(Cow<'a, str>, Cow<'a, str>)>),
}

impl Fields<'_> {
    /// Returns the fields of a JSON object.
    pub(super) fn of_json(text: &[u8]) -> Option<Fields<'static>> {
        (text.first() == Some(&b'{')).then_some(())?;
        serde_json::from_slice(text).ok().map(Fields::Json)
    }

    /// Returns the field of this name, with the name as it stands there. Case and all but letters, digits and dots in
    /// it mean nothing, and a dot leads into an object.
    pub(super) fn get(&self, wanted: &str) -> Option<(String, String)> {
        match self {
            Fields::Json(object) => in_object(object, &plain(wanted)),
            Fields::Pairs(pairs) => {
                let wanted = plain(wanted);
                let (name, text) =
                    pairs.iter().find(|(name, _)| rest_of(name, &wanted) == Some(""))?;
                Some((name.clone().into_owned(), text.clone().into_owned()))
            }
        }
    }

    /// Returns the first of these fields that has a text.
    pub(super) fn first(&self, names: &[&str]) -> Option<(String, String)> {
        names.iter().find_map(|name| self.get(name).filter(|(_, text)| has_text(text)))
    }

    /// Returns the names of all fields, in words.
    pub(super) fn names(&self) -> String {
        fn add(object: &Map<String, Value>, path: &str, names: &mut Vec<String>) {
            for (name, value) in object {
                match value {
                    Value::Object(inner) => add(inner, &format!("{path}{name}."), names),
                    _ => names.push(format!("{path}{name}")),
                }
            }
        }
        let mut names = Vec::new();
        match self {
            Fields::Json(object) => add(object, "", &mut names),
            Fields::Pairs(pairs) => {
                names.extend(pairs.iter().map(|(name, _)| name.clone().into_owned()))
            }
        }
        shorten(&names.join(", "), 200)
    }
}

/// Returns whether a text is there: servers write `-` for none.
pub(super) fn has_text(text: &str) -> bool {
    !matches!(text, "" | "-")
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| is_plain(*c)).map(|c| c.to_ascii_lowercase()).collect()
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || c == '.'
}

/// Returns the rest of a wanted name after a name; `None` if it does not begin with it.
fn rest_of<'a>(name: &str, wanted: &'a str) -> Option<&'a str> {
    let mut rest = wanted;
    for c in name.chars().filter(|c| is_plain(*c)) {
        rest = rest.strip_prefix(c.to_ascii_lowercase())?;
    }
    (rest.len() < wanted.len()).then_some(rest)
}

fn in_object(object: &Map<String, Value>, wanted: &str) -> Option<(String, String)> {
    object.iter().find_map(|(name, value)| match (rest_of(name, wanted)?, value) {
        ("", value) => Some((name.clone(), text_of(value)?)),
        (rest, Value::Object(inner)) => {
            let (inner, text) = in_object(inner, rest.strip_prefix('.')?)?;
            Some((format!("{name}.{inner}"), text))
        }
        _ => None,
    })
}

/// Returns a value as text; of a list all values, as header fields have several. Journald writes a text with colours in
/// it as a list of its bytes.
fn text_of(value: &Value) -> Option<String> {
    let byte = |value: &Value| u8::try_from(value.as_u64()?).ok();
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Array(values) => match values.iter().map(byte).collect::<Option<Vec<u8>>>() {
            Some(bytes) if !bytes.is_empty() => Some(escape_invalid(&bytes).into_owned()),
            _ => Some(values.iter().map(text_of).collect::<Option<Vec<_>>>()?.join(", ")),
        },
        Value::Null | Value::Object(_) => None,
    }
}

/// Splits `name=value other="a \"quoted\" value" flag`.
pub(super) fn logfmt(line: &[u8]) -> Option<Fields<'_>> {
    let (mut pairs, mut rest) = (Vec::new(), line);
    while !rest.is_empty() {
        let end =
            rest.iter().position(|byte| matches!(byte, b'=' | b' ' | b'"')).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let (value, after) = match after {
            [b'=', b'"', after @ ..] => {
                let (value, after) = after.split_at(quoted(after));
                (unescaped(value), after.strip_prefix(b"\"")?)
            }
            [b'=', after @ ..] => {
                let end = after.iter().position(|&byte| byte == b' ').unwrap_or(after.len());
                (escape_invalid(&after[..end]), &after[end..])
            }
            after => (Cow::Borrowed(""), after),
        };
        if name.is_empty() || !(after.is_empty() || after.starts_with(b" ")) {
            return None;
        }
        pairs.push((escape_invalid(name), value));
        rest = after.trim_ascii_start();
    }
    (line.contains(&b'=')).then_some(Fields::Pairs(pairs))
}

fn unescaped(text: &[u8]) -> Cow<'_, str> {
    let text = escape_invalid(text);
    if text.contains('\\') { text.replace("\\\"", "\"").replace("\\\\", "\\").into() } else { text }
}

/// Names fields by their places: those with a separator of one byte, or words, quoted texts and dates in brackets.
pub(super) fn by_place<'a>(
    names: impl Iterator<Item = &'a str>,
    texts: Vec<&'a [u8]>,
) -> Fields<'a> {
    let pairs = names.zip(texts).map(|(name, text)| (Cow::Borrowed(name), escape_invalid(text)));
    Fields::Pairs(pairs.collect())
}

/// Splits words, `"quoted texts"` and `[texts in brackets]`. The last may be cut off.
pub(super) fn words(line: &[u8]) -> Vec<&[u8]> {
    let (mut words, mut rest) = (Vec::new(), line);
    while !rest.is_empty() {
        let (word, after) = match rest {
            [b'"', inner @ ..] => {
                let (word, after) = inner.split_at(quoted(inner));
                (word, after.get(1..).unwrap_or_default())
            }
            // An address in brackets has its port behind them.
            [b'[', inner @ ..]
                if inner.iter().take_while(|byte| **byte != b' ').all(|byte| *byte != b']') =>
            {
                let end = inner.iter().position(|&byte| byte == b']').unwrap_or(inner.len());
                (&inner[..end], inner.get(end + 1..).unwrap_or_default())
            }
            _ => rest.split_at(rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len())),
        };
        words.push(word);
        rest = after.trim_ascii_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(fields: &Fields<'_>, name: &str) -> Option<(String, String)> {
        fields.get(name)
    }

    #[test]
    fn fields_of_json_are_found_in_any_case_and_in_objects() {
        let line = br#"{"ts":1646861401.5241024,"request":{"Remote_IP":"192.0.2.1","headers":{"X-Forwarded-For":["a","b"]}},"no":null}"#;
        let fields = Fields::of_json(line).unwrap();
        let found = |name| get(&fields, name).map(|(name, text)| format!("{name}={text}"));
        assert_eq!(found("ts").unwrap(), "ts=1646861401.5241024");
        assert_eq!(found("request.remote-ip").unwrap(), "request.Remote_IP=192.0.2.1");
        assert_eq!(
            found("request.headers.x_forwarded_for").unwrap(),
            "request.headers.X-Forwarded-For=a, b"
        );
        assert_eq!(
            (found("no"), found("request"), found("t"), found("tss")),
            (None, None, None, None)
        );
        assert_eq!(fields.names(), "no, request.Remote_IP, request.headers.X-Forwarded-For, ts");
        assert!(Fields::of_json(b"[1]").is_none() && Fields::of_json(b"{\"cut").is_none());
    }

    #[test]
    fn logfmt_is_split_at_its_quotes() {
        let fields = logfmt(br#"at=info path="/a b\"c\"" flag ip=192.0.2.1 empty="#).unwrap();
        for (name, text) in [
            ("at", "info"),
            ("path", "/a b\"c\""),
            ("flag", ""),
            ("ip", "192.0.2.1"),
            ("empty", ""),
        ] {
            assert_eq!(get(&fields, name).unwrap().1, text);
        }
        for line in ["plain words", "a=\"open", "=5", "a=\"b\"c"] {
            assert!(logfmt(line.as_bytes()).is_none(), "{line}");
        }
    }

    #[test]
    fn words_keep_quotes_and_brackets_together() {
        let found =
            words(br#"h2 [2001:db8::1]:80 [06/Feb/2019:00:00:38 +0000] "GET / \"x\"" "" "cut"#);
        let found: Vec<_> = found.into_iter().map(escape_invalid).collect();
        assert_eq!(
            found,
            ["h2", "[2001:db8::1]:80", "06/Feb/2019:00:00:38 +0000", r#"GET / \"x\""#, "", "cut"]
        );
    }
}
