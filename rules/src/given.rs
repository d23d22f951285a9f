//! The limits of a file with their places, for programs that show or change it.

use std::collections::HashMap;
use std::ops::Range;

use lockage::Limit;
use lockage_core::StoredLimit;

use crate::file::{File, without_mark};
use crate::limits::RuleLimit;
use crate::mistake::Mistakes;
use crate::syntax::Format;

/// A limit that a file gives, and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GivenLimit {
    /// The names of the rules that apply it. One that rules or tiers share by its name in `[limits]` is listed once.
    pub rules: Vec<String>,
    /// The first of its tiers; `None` if requests without a tier meet it.
    pub tier: Option<String>,
    /// The limit.
    pub limit: Limit,
    /// The bytes of its value in the text, with its quotes. A text in double quotes, as JSON has them, can replace them
    /// in each format, but for a block scalar of YAML, and a value whose anchor has aliases.
    pub span: Range<usize>,
}

impl GivenLimit {
    /// Lists the limits that the rules of a text apply, in the order of the rules and then of the tiers.
    ///
    /// Rules that are blocked or unlimited have none, nor do stored limits without a default, or with other terms than
    /// a limit has.
    ///
    /// ```
    /// use lockage_rules::{Format, GivenLimit};
    ///
    /// let text = "rules: [{ name: search, id: 'user:{user}', limit: fixed-window 5/s }]";
    /// let given = GivenLimit::list(text, Format::Yaml)?;
    /// assert_eq!((&given[0].rules[..], given[0].limit.to_string().as_str()), (&["search".to_owned()][..], "fixed-window 5/s"));
    /// assert_eq!(&text[given[0].span.clone()], "fixed-window 5/s");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Mistakes`]: all of them, as of [`Rules::parse`](crate::Rules::parse).
    pub fn list(text: &str, format: Format) -> Result<Vec<GivenLimit>, Mistakes> {
        let unmarked = without_mark(text);
        let mark = text.len() - unmarked.len();
        let File { drafts, tiers, .. } = File::parse(unmarked, format)?;
        let mut given: Vec<GivenLimit> = Vec::new();
        let mut places: HashMap<usize, usize> = HashMap::new();
        for draft in drafts {
            let rule = draft.rule.name;
            for (place, (effect, span)) in draft.rule.effects.iter().zip(&draft.limits).enumerate()
            {
                let limit = match effect {
                    Some(RuleLimit::Given(limit)) => *limit,
                    Some(RuleLimit::Stored(Some(stored)))
                        if *stored == StoredLimit::new(stored.limit()) =>
                    {
                        stored.limit()
                    }
                    _ => continue,
                };
                let number = *places.entry(span.start).or_insert(given.len());
                if let Some(known) = given.get_mut(number) {
                    if !known.rules.contains(&rule) {
                        known.rules.push(rule.clone());
                    }
                    continue;
                }
                given.push(GivenLimit {
                    rules: vec![rule.clone()],
                    tier: place.checked_sub(1).map(|tier| tiers[tier].clone()),
                    limit,
                    span: mark + span.start..mark + span.end,
                });
            }
        }
        Ok(given)
    }
}
