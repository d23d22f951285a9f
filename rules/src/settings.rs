//! The settings of a rule, of which a file can have defaults.

use std::fmt;

use crate::fields::{Fields, number, switch, text, word};
use crate::mistake::{Report, Span, nearest};
use crate::tree::{Key, Node, Value};

/// The behaviour while the store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleFallback {
    /// Admit: [`Fallback::open`](lockage::Fallback::open).
    Open,
    /// Deny: [`Fallback::closed`](lockage::Fallback::closed).
    Closed,
    /// Apply this process's share of the limit, one part in this number:
    /// [`Fallback::local_share`](lockage::Fallback::local_share).
    LocalShare(u64),
}

/// The importance of requests: the less important are shed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Priority {
    /// Shed first.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Shed after the normal ones.
    High,
    /// Shed last.
    Critical,
}

impl Priority {
    /// Returns its name in a file.
    pub fn name(self) -> &'static str {
        let known = PRIORITIES.iter().find(|(_, priority)| *priority == self);
        known.map_or("", |(name, _)| name)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A rule as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientView {
    /// The name of the policy in the response's fields: the rule's, unless it is given.
    pub policy: String,
    /// Whether the response has fields about this rule.
    pub fields: bool,
    /// The status of a denial; `None` for the server's own.
    pub status: Option<u16>,
    /// The text of a denial; `None` for the server's own.
    pub message: Option<String>,
}

impl ClientView {
    pub(crate) fn of_policy(name: &str) -> Self {
        ClientView { policy: name.to_owned(), fields: true, status: None, message: None }
    }
}

/// The cost of a rule, as the file gives it.
#[derive(Clone)]
pub(crate) enum GivenCosts {
    /// One for all parts of the limit, or one for each in their order.
    ByPlace(Vec<Cost>),
    /// By the names of parts, each with its place in the file.
    Named(Vec<(Key, Cost)>),
}

/// A part of a request's cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    Number(u64),
    /// A cost that the program computes, and its amount if the program gives none.
    Named {
        name: String,
        default: u64,
    },
}

/// The settings that a table has.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) costs: Option<(GivenCosts, Span)>,
    pub(crate) shadow: Option<bool>,
    pub(crate) fallback: Option<(RuleFallback, Span)>,
    pub(crate) priority: Option<Priority>,
    policy: Option<String>,
    fields: Option<bool>,
    status: Option<u16>,
    message: Option<String>,
}

/// The keys of settings.
pub(crate) const SETTINGS: [&str; 5] = ["cost", "shadow", "fallback", "priority", "client"];

const PRIORITIES: [(&str, Priority); 4] = [
    ("low", Priority::Low),
    ("normal", Priority::Normal),
    ("high", Priority::High),
    ("critical", Priority::Critical),
];

impl Settings {
    pub(crate) fn read(
        fields: &Fields<'_>,
        costs: &[(String, u64)],
        report: &mut Report<'_>,
    ) -> Self {
        let costs = fields
            .get("cost")
            .and_then(|node| read_costs(node, costs, report).map(|costs| (costs, node.span)));
        let mut settings = Settings { costs, ..Settings::default() };
        settings.shadow = fields.get("shadow").and_then(|node| switch(node, "`shadow`", report));
        settings.fallback = fields
            .get("fallback")
            .and_then(|node| read_fallback(node, report).map(|fallback| (fallback, node.span)));
        settings.priority =
            fields.get("priority").and_then(|node| word(node, "priority", &PRIORITIES, report));
        if let Some(node) = fields.get("client") {
            settings.read_client(node, report);
        }
        settings
    }

    fn read_client(&mut self, node: &Node, report: &mut Report<'_>) {
        let known = ["policy", "fields", "status", "message"];
        let Some(fields) = Fields::read(node, "`client`", &known, report) else { return };
        if let Some(node) = fields.get("policy") {
            let policy = text(node, "a name", report);
            self.policy =
                policy.filter(|name| check_name(name, node.span, report)).map(str::to_owned);
        }
        self.fields = fields.get("fields").and_then(|node| switch(node, "`fields`", report));
        if let Some(node) = fields.get("status")
            && let Some(status) = number(node, "a status", report)
        {
            self.status = u16::try_from(status).ok().filter(|status| (400..600).contains(status));
            if self.status.is_none() {
                report.at(node.span, format!("the status {status}: expected one from 400 to 599"));
            }
        }
        self.message =
            fields.get("message").and_then(|node| text(node, "a text", report)).map(str::to_owned);
    }

    /// Returns these settings, with those of `defaults` where there are none.
    pub(crate) fn or(self, defaults: &Settings) -> Settings {
        let defaults = defaults.clone();
        Settings {
            costs: self.costs.or(defaults.costs),
            shadow: self.shadow.or(defaults.shadow),
            fallback: self.fallback.or(defaults.fallback),
            priority: self.priority.or(defaults.priority),
            policy: self.policy.or(defaults.policy),
            fields: self.fields.or(defaults.fields),
            status: self.status.or(defaults.status),
            message: self.message.or(defaults.message),
        }
    }

    pub(crate) fn client(&self, rule: &str) -> ClientView {
        ClientView {
            policy: self.policy.clone().unwrap_or_else(|| rule.to_owned()),
            fields: self.fields.unwrap_or(true),
            status: self.status,
            message: self.message.clone(),
        }
    }
}

/// Checks a name that is sent to clients.
pub(crate) fn check_name(name: &str, span: Span, report: &mut Report<'_>) -> bool {
    let is_sent = |one: char| matches!(one, ' '..='~') && !matches!(one, '"' | '\\');
    let is_name = !name.trim().is_empty() && name.chars().all(is_sent);
    if !is_name {
        let message = format!("{name:?} cannot be a name: expected printable ASCII without quotes");
        report.at(span, message);
    }
    is_name
}

fn read_costs(node: &Node, known: &[(String, u64)], report: &mut Report<'_>) -> Option<GivenCosts> {
    // A cost with a mistake counts as 1, so that it is one mistake.
    let mut read = |node: &Node| read_cost(node, known, report).unwrap_or(Cost::Number(1));
    let costs = match &node.value {
        Value::Map(parts) => {
            let each = parts.iter().map(|(name, node)| (name.clone(), read(node)));
            GivenCosts::Named(each.collect())
        }
        _ => GivenCosts::ByPlace(node.each().iter().map(read).collect()),
    };
    if matches!(&costs, GivenCosts::Named(costs) if costs.is_empty())
        || matches!(&costs, GivenCosts::ByPlace(costs) if costs.is_empty())
    {
        report.at(node.span, "no cost: expected a number, or one for each part of the limit");
        return None;
    }
    Some(costs)
}

fn read_cost(node: &Node, costs: &[(String, u64)], report: &mut Report<'_>) -> Option<Cost> {
    let Value::Text(name) = &node.value else {
        let what = "a cost, or the name of one of `[costs]`";
        return number(node, what, report).map(Cost::Number);
    };
    match costs.iter().find(|(known, _)| known == name) {
        Some((name, default)) => Some(Cost::Named { name: name.clone(), default: *default }),
        None => {
            let nearest = match costs.is_empty() {
                true => {
                    format!(": add `{name} = 1` to `[costs]`, with its amount if there is none")
                }
                false => nearest(name, costs.iter().map(|(name, _)| name.as_str())),
            };
            report.at(node.span, format!("unknown cost `{name}`{nearest}"));
            None
        }
    }
}

fn read_fallback(node: &Node, report: &mut Report<'_>) -> Option<RuleFallback> {
    const WORDS: [(&str, RuleFallback); 2] =
        [("open", RuleFallback::Open), ("closed", RuleFallback::Closed)];
    const EXPECTED: &str = "`open`, `closed` or `local-share 4` for four processes";
    let words = text(node, EXPECTED, report)?;
    if let Some((_, fallback)) = WORDS.iter().find(|(word, _)| *word == words) {
        return Some(*fallback);
    }
    let shares = words.strip_prefix("local-share ").and_then(|number| number.trim().parse().ok());
    match shares {
        Some(shares) if shares > 0 => Some(RuleFallback::LocalShare(shares)),
        _ => {
            report.at(node.span, format!("unknown fallback `{words}`: expected {EXPECTED}"));
            None
        }
    }
}
