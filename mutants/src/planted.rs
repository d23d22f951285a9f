//! A file with all its mutants at once: each place asks which mutant is there.

use std::ops::Range;

use crate::places::{Form, Place};

/// One other text at one place.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    pub(crate) number: usize,
    /// The file, from the root of the workspace.
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The lines of the place, and the place as the mutant has it.
    pub(crate) was: String,
    pub(crate) is: String,
    /// Where it stands in the file that has all of them: the text alone, and the place with all its texts.
    own: Range<usize>,
    all: Range<usize>,
}

impl Mutant {
    /// Returns the name of the mutant in lists: the file, the line, and the other text.
    pub(crate) fn key(&self) -> [String; 3] {
        [self.file.clone(), self.was.clone(), self.is.clone()]
    }

    /// Returns whether a compiler's error on these bytes is about the text of this mutant. Places
    /// around the bytes count only if no text does.
    pub(crate) fn is_meant(&self, bytes: &Range<usize>) -> bool {
        meet(&self.own, bytes)
    }

    pub(crate) fn is_around(&self, bytes: &Range<usize>) -> bool {
        meet(&self.all, bytes)
    }

    pub(crate) fn size(&self) -> usize {
        self.all.len()
    }
}

fn meet(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Returns the text with its mutants, which are numbered from this number on; those for which `skips` holds are left out.
pub(crate) fn plant(
    file: &str,
    text: &str,
    places: &[Place],
    first: usize,
    skips: impl Fn(usize) -> bool,
) -> (String, Vec<Mutant>) {
    let question = match file.starts_with("core/") {
        true => "crate::mutant::is",
        false => "::lockage_core::mutant::is",
    };
    // Beginnings of outer places before those in them, and ends of inner ones before those around them.
    let mut edits: Vec<(usize, bool, isize, usize)> = Vec::new();
    for (at, place) in places.iter().enumerate() {
        let Range { start, end } = place.range;
        let size = isize::try_from(end - start).expect("a file is small");
        match place.form {
            Form::Body => edits.push((start, true, isize::MIN, at)),
            Form::Arm => edits.push((end, false, isize::MAX, at)),
            Form::Expression | Form::Statement => {
                edits.push((start, true, -size, at));
                edits.push((end, false, size, places.len() - at));
            }
        }
    }
    edits.sort_unstable();
    let mut numbers = Vec::with_capacity(places.len());
    let mut next = first;
    for place in places {
        numbers.push(next);
        next += place.texts.len();
    }
    let (mut out, mut from) = (String::with_capacity(3 * text.len()), 0);
    let mut mutants: Vec<Mutant> = Vec::new();
    for (at, is_start, size, key) in edits {
        out.push_str(&text[from..at]);
        from = at;
        let index = if is_start || size == isize::MAX { key } else { places.len() - key };
        let place = &places[index];
        let kept: Vec<(usize, &String)> =
            (numbers[index]..).zip(&place.texts).filter(|(number, _)| !skips(*number)).collect();
        if kept.is_empty() {
            continue;
        }
        if !is_start && size != isize::MAX {
            out.push_str(if place.form == Form::Expression { " })" } else { " }" });
            for mutant in &mut mutants {
                if kept.iter().any(|(number, _)| *number == mutant.number) {
                    mutant.all.end = out.len();
                }
            }
            continue;
        }
        let start = out.len();
        if place.form == Form::Expression {
            out.push('(');
        }
        for (count, (number, other)) in kept.iter().enumerate() {
            if count > 0 && place.form != Form::Body {
                out.push_str(" else ");
            }
            let begin = out.len();
            match place.form {
                Form::Body => {
                    out.push_str(&format!("if {question}({number}) {{ return {other}; }} "))
                }
                Form::Arm => out.push_str(&format!(" if !{question}({number})")),
                Form::Expression | Form::Statement => {
                    out.push_str(&format!("if {question}({number}) {{ {other} }}"));
                }
            }
            let was = &text[place.range.clone()];
            mutants.push(Mutant {
                number: *number,
                file: file.to_owned(),
                line: place.line,
                was: line_of(text, place),
                is: words(match place.form {
                    Form::Body => format!("return {other}"),
                    Form::Arm => format!("no arm {was}"),
                    Form::Statement if other.is_empty() => format!("nothing for {was}"),
                    Form::Expression | Form::Statement => other.to_string(),
                }),
                own: begin..out.len(),
                all: start..out.len(),
            });
        }
        if matches!(place.form, Form::Expression | Form::Statement) {
            out.push_str(" else { ");
        }
    }
    out.push_str(&text[from..]);
    (out, mutants)
}

/// Returns the text on one line.
fn words(text: String) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the line on which the place begins.
fn line_of(text: &str, place: &Place) -> String {
    text.lines().nth(place.line - 1).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    const TEXT: &str = "\
fn f(a: u8) -> bool {
    count -= a;
    if a < 1 && b() {
        tell(Some(!c));
    }
    match a.min(2) {
        0 => true,
        _ if d => g[3 + 4],
        _ => matches!(a, 1 | 2),
    }
}
fn none() -> Option<u8> { None }
/// Returns the latest.
fn documented() -> u32 { d }
const C: u8 = 1 + 2;
#[cfg(test)]
fn t() -> bool { true }
";

    fn planted(skips: impl Fn(usize) -> bool) -> (String, Vec<Mutant>) {
        plant("client/src/f.rs", TEXT, &places::of(TEXT).unwrap(), 0, skips)
    }

    #[test]
    fn each_place_has_its_other_texts_and_constants_patterns_and_tests_have_none() {
        let (_, mutants) = planted(|_| false);
        let mut texts: Vec<_> = mutants.iter().map(|it| it.is.as_str()).collect();
        texts.sort_unstable();
        assert_eq!(
            texts,
            [
                "!matches!(a, 1 | 2)",
                "3 - 4",
                "None",
                "a < 1 || b()",
                "a <= 1",
                "a > 1",
                "a.max(2)",
                "c",
                "count += a;",
                "false",
                "false",
                "false",
                "no arm 0",
                "nothing for count -= a;",
                "nothing for tell(Some(!c));",
                "return 0",
                "return 1",
                "return false",
                "return true",
                "true",
                "true",
            ]
        );
    }

    #[test]
    fn the_text_without_its_questions_is_the_file() {
        let (text, mutants) = planted(|_| false);
        syn::parse_file(&text).unwrap();
        assert!(
            mutants.iter().all(|it| text[it.own.clone()].contains(&format!("({})", it.number)))
        );
        assert_eq!(planted(|_| true).0, TEXT);
    }
}
