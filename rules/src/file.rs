//! The tables of a file, read into rules.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::check::check;
use crate::condition::{Condition, Test};
use crate::fields::{Fields, entries, number, switch, text, word};
use crate::keys::Keys;
use crate::limits::{Effect, Limits, PlacedEffect, RuleLimit, effect_word, parse};
use crate::mistake::{Mistakes, Report, Span, nearest};
use crate::request::{ADDRESS, TIER};
use crate::rule::{Draft, Match, Rule};
use crate::settings::{Cost, GivenCosts, SETTINGS, Settings, check_name};
use crate::syntax::Format;
use crate::template::Template;
use crate::tree::{Node, Value};

/// A file that was read.
pub(crate) struct File {
    pub(crate) matching: Match,
    pub(crate) keys: Keys,
    pub(crate) tiers: Vec<String>,
    pub(crate) costs: Vec<(String, u64)>,
    pub(crate) drafts: Vec<Draft>,
}

const TABLES: [&str; 6] = ["match", "limits", "tiers", "costs", "defaults", "rules"];
const RULE: [&str; 6] = ["name", "when", "id", "limit", "stored", "replaces"];
const SWITCHES: [&str; 2] = ["exact", "overdraft"];

/// Returns the text without the mark of its encoding that some editors begin it with.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

impl File {
    /// Reads a text.
    pub(crate) fn parse(text: &str, format: Format) -> Result<File, Mistakes> {
        let mut report = Report::new(text);
        let tree = format.read(text, &mut report);
        let file = tree.and_then(|tree| File::read(&tree, &mut report));
        report.finish()?;
        Ok(file.expect("a file that cannot be read has a mistake"))
    }

    /// Reads the tree. After a mistake the file is what could be read.
    fn read(tree: &Node, report: &mut Report<'_>) -> Option<File> {
        let fields = Fields::read(tree, "the file", &TABLES, report)?;
        let words = [("all", Match::All), ("first", Match::First)];
        let matching = fields.get("match").and_then(|node| word(node, "`match`", &words, report));
        let limits = Limits::read(fields.get("limits"), fields.get("tiers"), report);
        let costs = fields.get("costs").map(|node| read_costs(node, report)).unwrap_or_default();
        let defaults = fields.get("defaults").and_then(|node| {
            let fields = Fields::read(node, "`defaults`", &SETTINGS, report)?;
            Some(Settings::read(&fields, &costs, report))
        });
        let defaults = defaults.unwrap_or_default();
        let mut reader = Reader { limits, costs, defaults, keys: Keys::default() };
        let rules = match fields.get("rules").map(|node| (&node.value, node)) {
            Some((Value::List(list), _)) => list.as_slice(),
            Some((_, node)) => {
                report.at(node.span, format!("expected a list of rules, found {}", node.kind()));
                &[]
            }
            None => {
                let message =
                    "no rules: expected `[[rules]]`, or an empty list of them to limit nothing";
                report.at(tree.span, message);
                &[]
            }
        };
        let mut drafts = Vec::new();
        for node in rules {
            drafts.extend(reader.rule(node, report));
        }
        let matching = matching.unwrap_or_default();
        check(&mut drafts, matching, &reader.keys, report);
        let Reader { limits, costs, keys, .. } = reader;
        Some(File { matching, keys, tiers: limits.tiers, costs, drafts })
    }
}

fn read_costs(node: &Node, report: &mut Report<'_>) -> Vec<(String, u64)> {
    let mut costs = Vec::new();
    for (key, node) in entries(node, "costs", report).unwrap_or(&[]) {
        let amount = number(node, "a cost that the program does not give", report);
        costs.push((key.text.clone(), amount.unwrap_or(1)));
    }
    costs
}

struct Reader {
    limits: Limits,
    costs: Vec<(String, u64)>,
    defaults: Settings,
    keys: Keys,
}

impl Reader {
    fn rule(&mut self, node: &Node, report: &mut Report<'_>) -> Option<Draft> {
        let known = [&RULE[..], &SWITCHES, &SETTINGS].concat();
        let fields = Fields::read(node, "a rule", &known, report)?;
        let span = match &node.value {
            Value::Map(map) => map.first().map_or(node.span, |(key, _)| key.span),
            _ => node.span,
        };
        let name = fields.get("name").and_then(|node| {
            text(node, "a name", report).filter(|name| check_name(name, node.span, report))
        });
        if fields.get("name").is_none() {
            fields.lacks("name", span, "a rule without a name: add `name`", report);
        }
        let conditions = fields.get("when").map(|node| self.conditions(node, report));
        let id = fields.get("id").and_then(|node| self.id(node, report));
        let effects = self.effects(&fields, span, report);
        let needs_id = |effect: &Effect| !matches!(effect, None | Some(RuleLimit::Blocked));
        let (effects, limits): (Vec<Effect>, Vec<Span>) =
            effects.unwrap_or_else(|| vec![(None, span)]).into_iter().unzip();
        if fields.get("id").is_none() && effects.iter().any(needs_id) {
            let message = "a rule without an id: add `id`, such as \"user:{user}\", or a text without braces for \
                           a limit that all requests share";
            fields.lacks("id", span, message, report);
        }
        let [exact, overdraft] = SWITCHES.map(|name| {
            let node = fields.get(name);
            node.and_then(|node| switch(node, &format!("`{name}`"), report)) == Some(true)
        });
        let settings = Settings::read(&fields, &self.costs, report).or(&self.defaults);
        let replaces = fields.get("replaces").map(Node::each).unwrap_or_default().iter();
        let replaces = replaces.filter_map(|node| {
            text(node, "the name of a rule", report).map(|name| (name.to_owned(), node.span))
        });
        let replaces = replaces.collect();
        let name = name.unwrap_or_default().to_owned();
        let (costs, costs_span) =
            settings.costs.clone().unwrap_or((GivenCosts::ByPlace(vec![Cost::Number(1)]), span));
        let fallback = settings.fallback;
        Some(Draft {
            span,
            id: fields.get("id").map_or(span, |node| node.span),
            limits,
            costs,
            costs_span,
            fallback: fallback.map_or(span, |(_, span)| span),
            replaces,
            rule: Rule {
                conditions: conditions.unwrap_or_default(),
                client: settings.client(&name),
                name,
                exact,
                id,
                effects,
                costs: Vec::new(),
                shadow: settings.shadow.unwrap_or(false),
                overdraft,
                fallback: fallback.map(|(fallback, _)| fallback),
                priority: settings.priority,
                replaces: Vec::new(),
                shares_id: false,
                first_limit: 0,
            },
        })
    }

    fn id(&mut self, node: &Node, report: &mut Report<'_>) -> Option<Template> {
        let id = text(node, "an id such as \"user:{user}\"", report)?;
        match Template::parse(id, &mut self.keys) {
            Ok(template) => Some(template),
            Err((offset, message)) => {
                report.within(node.span, id, offset, message);
                None
            }
        }
    }

    /// Returns the effects on each tier, or one if the tier does not matter.
    fn effects(
        &self,
        fields: &Fields<'_>,
        span: Span,
        report: &mut Report<'_>,
    ) -> Option<Vec<PlacedEffect>> {
        let stored = fields.get("stored").and_then(|node| switch(node, "`stored`", report));
        let is_stored = stored == Some(true);
        let Some(node) = fields.get("limit") else {
            if !is_stored {
                let message = "a rule without a limit: add `limit`, or `stored = true`";
                fields.lacks("limit", span, message, report);
            }
            return Some(vec![(Some(RuleLimit::Stored(None)), span)]);
        };
        let words = text(node, "a limit such as \"token-bucket 100/min burst 20\"", report)?;
        let effects = if let Some(effect) = effect_word(words) {
            vec![(effect, node.span)]
        } else if let Some(effects) = self.limits.named(words) {
            effects.to_vec()
        } else if !words.contains(char::is_whitespace) && !words.is_empty() {
            let names = self.limits.names().chain(["unlimited", "blocked"]);
            let message = format!(
                "unknown limit `{words}`{}, or a limit such as \"token-bucket 100/min burst 20\"",
                nearest(words, names).trim_end_matches('?')
            );
            report.at(node.span, message);
            return None;
        } else if is_stored {
            let default = parse(node, report)?;
            return Some(vec![(Some(RuleLimit::Stored(Some(default))), node.span)]);
        } else {
            vec![(Some(RuleLimit::Given(parse(node, report)?)), node.span)]
        };
        let stored = |(effect, span)| match effect {
            Some(RuleLimit::Given(limit)) if is_stored => {
                (Some(RuleLimit::Stored(Some(limit.into()))), span)
            }
            other => (other, span),
        };
        Some(effects.into_iter().map(stored).collect())
    }

    fn conditions(&mut self, node: &Node, report: &mut Report<'_>) -> Vec<Condition> {
        let mut conditions: Vec<Condition> = Vec::new();
        self.add_conditions("", node, &mut conditions, report);
        conditions.sort_by_key(|condition| condition.key);
        conditions
    }

    fn add_conditions(
        &mut self,
        within: &str,
        node: &Node,
        conditions: &mut Vec<Condition>,
        report: &mut Report<'_>,
    ) {
        for (key, node) in entries(node, "`when`", report).unwrap_or(&[]) {
            let name = format!("{within}{}", key.text);
            if let Value::Map(_) = node.value {
                self.add_conditions(&format!("{name}."), node, conditions, report);
                continue;
            }
            let number = self.keys.number(&name);
            if conditions.iter().any(|other| other.key == number) {
                report.at(
                    key.span,
                    format!("a second condition on `{name}`: expected a list of values"),
                );
            }
            if node.each().is_empty() {
                report.at(node.span, format!("no value of `{name}`: the rule can never match"));
            }
            let tests = node.each().iter().filter_map(|node| self.test(&name, node, report));
            let tests: Vec<Test> = tests.collect::<Vec<_>>();
            if !tests.is_empty() {
                conditions.push(Condition { key: number, tests });
            }
        }
    }

    fn test(&self, name: &str, node: &Node, report: &mut Report<'_>) -> Option<Test> {
        let value = match &node.value {
            Value::Bool(true) => return Some(Test::Present),
            Value::Bool(false) => return Some(Test::Absent),
            Value::Number(text) | Value::Text(text) => text,
            _ => {
                let message = format!(
                    "expected a value of `{name}`, or true for any and false for none, found {}",
                    node.kind()
                );
                report.at(node.span, message);
                return None;
            }
        };
        if value.is_empty() {
            report.at(
                node.span,
                format!("an empty value is as good as none: write `{name} = false`"),
            );
            return None;
        }
        let test = match name {
            ADDRESS if value != "*" => return self.network(value, node.span, report),
            _ => Test::parse(value),
        };
        let is_known = |test: &Test| match test {
            Test::Exact(tier) => self.limits.tiers.contains(tier),
            Test::Glob(glob) => self.limits.tiers.iter().any(|tier| glob.matches(tier)),
            _ => true,
        };
        if name == TIER && !self.limits.tiers.is_empty() && !is_known(&test) {
            let nearest = nearest(value, self.limits.tiers.iter().map(String::as_str));
            report.at(node.span, format!("unknown tier `{value}`{nearest}"));
        }
        Some(test)
    }

    fn network(&self, value: &str, span: Span, report: &mut Report<'_>) -> Option<Test> {
        let network = value.parse::<IpNet>().ok();
        let network = network.or_else(|| value.parse::<IpAddr>().ok().map(IpNet::from));
        match network {
            Some(network) if network.trunc() == network => Some(Test::Network(network)),
            Some(network) => {
                let trunc = network.trunc();
                report.at(
                    span,
                    format!("{network} has bits behind its prefix: did you mean `{trunc}`?"),
                );
                None
            }
            None => {
                let message = format!(
                    "`{value}` is no address or network: expected one such as `192.0.2.7`, `10.0.0.0/8` or \
                     `2001:db8::/32`"
                );
                report.at(span, message);
                None
            }
        }
    }
}
