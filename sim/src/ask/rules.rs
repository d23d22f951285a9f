//! Reads a file of rules, and writes limits into it.

use lockage_core::Limit;
use lockage_rules::{Format, GivenLimit, LoadError, Mistakes};
use serde::{Deserialize, Serialize};

/// A file of rules, and the limits to write into it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RulesFile {
    name: String,
    text: String,
    /// Names as of the answer, and limits.
    #[serde(default)]
    limits: Vec<(String, String)>,
}

/// The limits of a file, the file with others, and its mistakes, each with its place.
#[derive(Default, Serialize)]
pub(super) struct RulesAnswer {
    given: Vec<Named>,
    mistakes: Vec<String>,
    /// The file as written; `None` if the one that was read has mistakes.
    text: Option<String>,
}

/// A limit, and its name in the page.
#[derive(Serialize)]
struct Named {
    name: String,
    rules: Vec<String>,
    limit: String,
}

/// Rules and tiers are distinguished by a character that rules cannot have in their names.
fn name_of(given: &GivenLimit) -> String {
    let rule = &given.rules[0];
    given.tier.as_ref().map_or_else(|| rule.clone(), |tier| format!("{rule} · {tier}"))
}

impl RulesFile {
    pub(super) fn answer(&self) -> RulesAnswer {
        let Some(format) = Format::of(&self.name) else {
            let error = LoadError::Format { path: self.name.clone() };
            return RulesAnswer { mistakes: vec![error.to_string()], ..RulesAnswer::default() };
        };
        let given = match GivenLimit::list(&self.text, format) {
            Ok(given) => given,
            Err(mistakes) => {
                return RulesAnswer { mistakes: self.lines(&mistakes), ..RulesAnswer::default() };
            }
        };
        let text = self.written(&given);
        let mistakes = GivenLimit::list(&text, format).err();
        let mistakes = mistakes.map(|mistakes| self.lines(&mistakes)).unwrap_or_default();
        let given = given.into_iter().map(|given| Named {
            name: name_of(&given),
            limit: given.limit.to_string(),
            rules: given.rules,
        });
        RulesAnswer { given: given.collect(), mistakes, text: Some(text) }
    }

    /// Returns the text with the limits. One that is only written differently stays as it is.
    fn written(&self, given: &[GivenLimit]) -> String {
        let mut changed: Vec<_> = given
            .iter()
            .filter_map(|given| {
                let name = name_of(given);
                let (_, limit) = self.limits.iter().find(|(other, _)| *other == name)?;
                let is_same = limit.parse() == Ok::<Limit, _>(given.limit);
                (!is_same).then(|| (given.span.clone(), limit))
            })
            .collect();
        changed.sort_by_key(|(span, _)| span.start);
        let mut text = self.text.clone();
        for (span, limit) in changed.into_iter().rev() {
            text.replace_range(span, &serde_json::Value::from(limit.as_str()).to_string());
        }
        text
    }

    fn lines(&self, mistakes: &Mistakes) -> Vec<String> {
        mistakes.iter().map(|mistake| format!("{}:{mistake}", self.name)).collect()
    }
}
