//! The alternative texts of a script.

use std::ops::Range;

/// A file of `lua`, a part of scripts.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its name, without the ending.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// A part with one place changed.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The changed part.
    pub part: Part,
    place: Range<usize>,
    instead: String,
}

impl Mutant {
    /// Returns the part's text as the mutant has it.
    pub fn text(&self) -> String {
        let text = self.part.text;
        [&text[..self.place.start], &self.instead, &text[self.place.end..]].concat()
    }

    /// Returns the key of its listing: the part, the line as it is, and as the mutant has it.
    pub fn line(&self) -> [String; 3] {
        let text = self.part.text;
        let from = text[..self.place.start].rfind('\n').map_or(0, |at| at + 1);
        let to = text[self.place.end..].find('\n').map_or(text.len(), |at| self.place.end + at);
        let mutated = [&text[from..self.place.start], &self.instead, &text[self.place.end..to]];
        [
            self.part.name.to_owned(),
            text[from..to].trim().to_owned(),
            mutated.concat().trim().to_owned(),
        ]
    }
}

/// Returns every mutant of a part: comparisons, arithmetic, logic, numbers, texts, conditions as a whole, and
/// statements left out.
pub fn of(part: Part) -> Vec<Mutant> {
    let tokens = tokens(part.text);
    let mut mutants: Vec<Mutant> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &part.text[tokens[at].clone()]);
        for instead in alternatives(&part.text[token.clone()], before) {
            mutants.push(Mutant { part, place: token.clone(), instead });
        }
    }
    mutants.extend(of_lines(part));
    mutants
}

/// Returns the alternatives of a token. Half of the comparisons' opposites are other mutants of theirs.
fn alternatives(token: &str, before: Option<&str>) -> Vec<String> {
    let some: &[&str] = match token {
        "<" => &["<=", ">"],
        "<=" => &["<", ">="],
        ">" => &[">=", "<"],
        ">=" => &[">", "<="],
        "==" => &["~="],
        "~=" => &["=="],
        "+" => &["-"],
        "-" => &["+"],
        "*" => &["/"],
        "/" => &["*"],
        "%" => &["*"],
        "and" => &["or"],
        "or" => &["and"],
        "not" => &[""],
        "true" => &["false"],
        "false" => &["true"],
        "floor" => &["ceil"],
        "ceil" => &["floor"],
        "max" if before == Some(".") => &["min"],
        "max" => &["math.min"],
        "min" if before == Some(".") => &["max"],
        _ => &[],
    };
    if !some.is_empty() {
        return some.iter().map(|&it| it.to_owned()).collect();
    }
    if let Ok(number) = token.parse::<u64>() {
        let mut others = vec![number + 1];
        others.extend((number > 0).then(|| number - 1));
        return others.into_iter().map(|number| number.to_string()).collect();
    }
    // A number that is written once, where it stands for one.
    if token.starts_with('$') && token.len() > 1 && before != Some(".") {
        return [format!("({token} + 1)"), format!("({token} - 1)")].into();
    }
    match token.starts_with('\'') && token.len() > 2 {
        true => vec!["''".to_owned()],
        false => Vec::new(),
    }
}

/// Conditions that always hold, or never, and statements that are left out.
fn of_lines(part: Part) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    let mut start = 0;
    for line in part.text.split_inclusive('\n') {
        let code = line.trim();
        let indent = line.len() - line.trim_start().len();
        let whole = start + indent..start + indent + code.len();
        for keyword in ["if ", "elseif "] {
            let condition = code.strip_prefix(keyword).and_then(|rest| rest.split_once(" then"));
            if let Some((condition, _)) = condition {
                let from = whole.start + keyword.len();
                for instead in ["true", "false"] {
                    let place = from..from + condition.len();
                    mutants.push(Mutant { part, place, instead: instead.to_owned() });
                }
            }
        }
        if is_statement(code) {
            mutants.push(Mutant { part, place: whole, instead: String::new() });
        }
        start += line.len();
    }
    mutants
}

/// Returns whether a line is a statement by itself that may be left out: a call, or an assignment to an existing
/// name.
fn is_statement(code: &str) -> bool {
    let first = code.split([' ', '(', '.', '[', ',']).next().unwrap_or_default();
    let first = first.strip_prefix('$').unwrap_or(first);
    let keyword = [
        "local", "function", "end", "if", "else", "elseif", "for", "while", "return", "repeat",
        "until",
    ];
    let balanced = ['(', '{']
        .into_iter()
        .zip([')', '}'])
        .all(|(open, close)| code.matches(open).count() == code.matches(close).count());
    let is_name = first.chars().all(|c| c.is_alphanumeric() || c == '_') && !first.is_empty();
    is_name && balanced && !keyword.contains(&first) && code.contains(['=', '('])
}

/// Returns the places of a Lua text's tokens, without those of comments.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    let run = |from: usize, holds: &dyn Fn(u8) -> bool| {
        bytes[from..].iter().position(|&byte| !holds(byte)).map_or(bytes.len(), |n| from + n)
    };
    while at < bytes.len() {
        let end = match bytes[at] {
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                at = run(at, &|byte| byte != b'\n');
                continue;
            }
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            quote @ (b'\'' | b'"') => run(at + 1, &|byte| byte != quote) + 1,
            b'$' => run(at + 1, &|byte| {
                byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
            }),
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                run(at, &|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            }
            b'<' | b'>' | b'=' | b'~' if bytes.get(at + 1) == Some(&b'=') => at + 2,
            b'.' => run(at, &|byte| byte == b'.'),
            _ => at + 1,
        };
        tokens.push(at..end);
        at = end;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_changed_in_one_place_at_a_time_and_never_in_a_comment() {
        let text = "-- 1 < 2\nif a < 1 then b = 'x' end\n  c = max(a, 0)\n";
        let part = Part { name: "part", text };
        let mutated: Vec<String> =
            of(part).into_iter().map(|mutant| mutant.line()[2].clone()).collect();
        assert_eq!(
            mutated,
            [
                "if a <= 1 then b = 'x' end",
                "if a > 1 then b = 'x' end",
                "if a < 2 then b = 'x' end",
                "if a < 0 then b = 'x' end",
                "if a < 1 then b = '' end",
                "c = math.min(a, 0)",
                "c = max(a, 1)",
                "if true then b = 'x' end",
                "if false then b = 'x' end",
                "",
            ]
        );
        assert!(of(part).iter().all(|mutant| mutant.text().starts_with("-- 1 < 2\n")));
    }
}
