//! Mistakes of rules among each other, and of the parts of a rule.

use std::collections::HashMap;

use lockage::Limit;

use crate::condition::{Condition, Test};
use crate::keys::Keys;
use crate::limits::{Effect, RuleLimit};
use crate::mistake::{Report, Span, nearest};
use crate::rule::{Draft, Match, Rule};
use crate::settings::{Cost, GivenCosts, RuleFallback};
use crate::tree::Key;

/// Checks the rules, and connects those that replace others.
pub(crate) fn check(drafts: &mut [Draft], matching: Match, keys: &Keys, report: &mut Report<'_>) {
    find_same_names(drafts, report);
    find_replaced(drafts, report);
    for draft in &mut *drafts {
        check_id(draft, keys, report);
        place_costs(draft, report);
        check_shares(draft, report);
    }
    find_unreachable(drafts, matching, report);
    find_shared_ids(drafts, keys, report);
}

fn find_same_names(drafts: &[Draft], report: &mut Report<'_>) {
    let mut first = HashMap::new();
    for Draft { rule, span, .. } in drafts.iter().filter(|draft| !draft.rule.name.is_empty()) {
        let earlier = *first.entry(rule.name.as_str()).or_insert(*span);
        if earlier != *span {
            let line = report.line(earlier);
            let message = format!("a second rule `{}`: the first one is in line {line}", rule.name);
            report.at(*span, message);
        }
    }
}

fn find_replaced(drafts: &mut [Draft], report: &mut Report<'_>) {
    let names: Vec<String> = drafts.iter().map(|draft| draft.rule.name.clone()).collect();
    for draft in drafts.iter_mut() {
        for (name, span) in &draft.replaces {
            match names.iter().position(|other| other == name) {
                Some(_) if *name == draft.rule.name => {
                    report.at(*span, format!("`{name}` replaces itself"));
                }
                Some(place) => draft.rule.replaces.push(place),
                None => {
                    let nearest = nearest(name, names.iter().map(String::as_str));
                    report.at(*span, format!("unknown rule `{name}`{nearest}"));
                }
            }
        }
    }
    // Rules that replace each other would all be dropped.
    for index in 0..drafts.len() {
        let (mut open, mut seen) = (drafts[index].rule.replaces.clone(), vec![false; drafts.len()]);
        while let Some(next) = open.pop() {
            if !std::mem::replace(&mut seen[next], true) {
                open.extend(&drafts[next].rule.replaces);
            }
        }
        if seen[index]
            && let Some((name, span)) = drafts[index].replaces.first()
        {
            report.at(
                *span,
                format!("rules that replace each other: `{name}` leads back to this rule"),
            );
        }
    }
}

fn check_id(Draft { rule, id, span, .. }: &Draft, keys: &Keys, report: &mut Report<'_>) {
    let Some(template) = &rule.id else { return };
    let missing = template.needs().find(|key| {
        let condition = rule.conditions.iter().find(|condition| condition.key == *key);
        condition.is_some_and(|condition| condition.tests == [Test::Absent])
    });
    if let Some(key) = missing {
        let name = keys.name(key);
        let message = format!(
            "the rule can never match: it is for requests without `{name}`, and its id needs one; write \
             `{{{name}|none}}`"
        );
        report.at(*span, message);
    }
    let is_by_tier = rule.effects.iter().any(|effect| *effect != rule.effects[0]);
    if is_by_tier && template.keys().next().is_none() {
        let message = format!(
            "the limit differs by tier, and all tiers would count on one id: expected one such as \"{}:{{tier|none}}\"",
            template.text
        );
        report.at(*id, message);
    }
}

/// Returns the limit of an effect; `None` if it has none, or its limits are only in the store.
fn limit(effect: &Effect) -> Option<Limit> {
    match effect {
        Some(RuleLimit::Given(limit)) => Some(*limit),
        Some(RuleLimit::Stored(Some(stored))) => Some(stored.limit()),
        None | Some(RuleLimit::Stored(None) | RuleLimit::Blocked) => None,
    }
}

/// Returns the limits that a rule applies, each once.
fn limits(rule: &Rule) -> Vec<Limit> {
    let mut limits: Vec<Limit> = Vec::new();
    for limit in rule.effects.iter().filter_map(limit) {
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    limits
}

/// Brings the costs of each tier into the order of its limit's parts, and checks them.
fn place_costs(draft: &mut Draft, report: &mut Report<'_>) {
    let span = draft.costs_span;
    let placed: Option<Vec<Vec<Cost>>> = match &draft.costs {
        GivenCosts::ByPlace(costs) => Some(vec![costs.clone()]),
        GivenCosts::Named(named) => {
            let place = |effect: &Effect| match (effect, limit(effect)) {
                (_, Some(limit)) => placed(named, &limit, span, report),
                (Some(RuleLimit::Stored(None)), None) => {
                    let message = "costs by name under a stored limit without a default: expected `limit` with the \
                                   names, or a list of costs by place";
                    report.at(span, message);
                    None
                }
                (_, None) => Some(vec![Cost::Number(1)]),
            };
            let each: Vec<_> = draft.rule.effects.iter().map(place).collect();
            each.into_iter().collect()
        }
    };
    let Some(placed) = placed else {
        draft.rule.costs = vec![vec![Cost::Number(1)]];
        return;
    };
    let mut checked: Vec<Limit> = Vec::new();
    for (tier, effect) in draft.rule.effects.iter().enumerate() {
        let costs = placed.get(tier).unwrap_or(&placed[0]);
        match limit(effect) {
            Some(limit) if !checked.contains(&limit) => {
                check_costs(costs, &limit, span, report);
                checked.push(limit);
            }
            Some(_) => {}
            None => check_zero(costs, span, report),
        }
    }
    draft.rule.costs = placed;
}

/// Returns the costs in the order of the parts; a part that is not named costs nothing. `None` after a mistake.
fn placed(
    named: &[(Key, Cost)],
    limit: &Limit,
    span: Span,
    report: &mut Report<'_>,
) -> Option<Vec<Cost>> {
    let names: Vec<&str> = limit.part_names().collect();
    if names.is_empty() {
        let message = format!(
            "the parts of `{limit}` have no names: expected one cost, a list by place, or names as in \
             `requests: fixed-window 60/min + tokens: token-bucket 90_000/min`"
        );
        report.at(span, message);
        return None;
    }
    let (mut costs, mut is_right) = (vec![Cost::Number(0); names.len()], true);
    for (name, cost) in named {
        match limit.place_of(&name.text) {
            Some(place) => costs[place] = cost.clone(),
            None => {
                let nearest = nearest(&name.text, names.iter().copied());
                report.at(name.span, format!("unknown part `{}` of `{limit}`{nearest}", name.text));
                is_right = false;
            }
        }
    }
    is_right.then_some(costs)
}

fn check_zero(costs: &[Cost], span: Span, report: &mut Report<'_>) {
    if costs.iter().all(|cost| *cost == Cost::Number(0)) {
        report.at(span, "a cost of 0: a request costs at least 1");
    }
}

fn check_costs(costs: &[Cost], limit: &Limit, span: Span, report: &mut Report<'_>) {
    check_zero(costs, span, report);
    let parts: Vec<Limit> = limit.parts().collect();
    if costs.len() > 1 && costs.len() != parts.len() {
        let message = format!(
            "{} costs for `{limit}`: expected one, or {} for its parts",
            costs.len(),
            parts.len()
        );
        report.at(span, message);
        return;
    }
    let whole = [*limit];
    let charged = if costs.len() == 1 { &whole[..] } else { &parts };
    for (cost, limit) in costs.iter().zip(charged) {
        let most = limit.capacity();
        if let Cost::Number(cost) = cost
            && *cost > most
        {
            let message =
                format!("a cost of {cost} is never admitted by `{limit}`: expected at most {most}");
            report.at(span, message);
        }
    }
    let is_log = |part: &Limit| matches!(part, Limit::SlidingLog(_));
    let mut of_logs = costs.iter().zip(&parts).filter(|(_, part)| is_log(part));
    if costs.len() > 1
        && let Some((first, _)) = of_logs.next()
        && (*first == Cost::Number(0) || of_logs.any(|(other, _)| other != first))
    {
        let message = format!(
            "the sliding logs of `{limit}` share their entries: expected one cost for all of them, at least 1"
        );
        report.at(span, message);
    }
}

fn check_shares(Draft { rule, fallback: span, .. }: &Draft, report: &mut Report<'_>) {
    let Some(RuleFallback::LocalShare(shares)) = rule.fallback else { return };
    for limit in limits(rule) {
        if let Err(error) = limit.share(shares) {
            report.at(*span, format!("no share of `{limit}` of rule `{}`: {error}", rule.name));
        }
    }
}

/// Finds rules whose requests all meet an earlier one instead.
fn find_unreachable(drafts: &[Draft], matching: Match, report: &mut Report<'_>) {
    let wanted: Vec<Vec<Condition>> = drafts.iter().map(|draft| wanted(&draft.rule)).collect();
    let mut is_replaced = vec![false; drafts.len()];
    for draft in drafts {
        draft.rule.replaces.iter().for_each(|replaced| is_replaced[*replaced] = true);
    }
    for (index, Draft { rule, span, .. }) in drafts.iter().enumerate() {
        let takes_all = |earlier: &usize| {
            let other = &drafts[*earlier].rule;
            let same_id = || match (&rule.id, &other.id) {
                (Some(ours), Some(theirs)) => ours.text == theirs.text,
                _ => false,
            };
            (matching == Match::First || same_id() && !is_replaced[*earlier])
                && covers(other, &wanted[*earlier], rule, &wanted[index])
        };
        if let Some(earlier) = (0..index).find(takes_all) {
            let (name, line) = (&drafts[earlier].rule.name, report.line(drafts[earlier].span));
            let remedy = "put the rule with more conditions first";
            let message = format!(
                "the rule can never apply: `{name}` in line {line} takes all of its requests; {remedy}"
            );
            report.at(*span, message);
        }
    }
}

/// Returns the conditions of a rule, with those of its id.
fn wanted(rule: &Rule) -> Vec<Condition> {
    let mut wanted = rule.conditions.clone();
    for key in rule.id.iter().flat_map(|id| id.needs()) {
        if !wanted.iter().any(|condition| condition.key == key && condition.needs_value()) {
            wanted.push(Condition { key, tests: vec![Test::Present] });
        }
    }
    wanted
}

fn covers(
    wide: &Rule,
    wide_wants: &[Condition],
    narrow: &Rule,
    narrow_wants: &[Condition],
) -> bool {
    if wide.exact
        && !(narrow.exact && narrow.keys().all(|key| wide.keys().any(|other| other == key)))
    {
        return false;
    }
    wide_wants
        .iter()
        .all(|wide| narrow_wants.iter().any(|narrow| wide.key == narrow.key && wide.covers(narrow)))
}

/// Keys that vary within the requests of one client.
const VARYING: [&str; 3] = ["route", "method", "path"];

/// Finds rules that can charge one id. They have one limit, and a request is charged by the first alone.
fn find_shared_ids(drafts: &mut [Draft], keys: &Keys, report: &mut Report<'_>) {
    for index in 1..drafts.len() {
        let Some(template) = &drafts[index].rule.id else { continue };
        let mut shares = false;
        for earlier in 0..index {
            let other = &drafts[earlier].rule;
            if !other.id.as_ref().is_some_and(|other| template.meets(other)) {
                continue;
            }
            shares = true;
            let Draft { rule, id, .. } = &drafts[index];
            if let Some(problem) = differs(rule, other, keys) {
                let line = report.line(drafts[earlier].span);
                let message = format!(
                    "`{}` in line {line} counts on such ids too, {problem}: expected another id, such as \"{}:{}\"",
                    other.name, rule.name, template.text
                );
                report.at(*id, message);
                break;
            }
        }
        drafts[index].rule.shares_id = shares;
    }
}

/// Returns why two rules cannot count on one id.
fn differs(one: &Rule, other: &Rule, keys: &Keys) -> Option<&'static str> {
    let tiers = one.effects.len().max(other.effects.len());
    let effect = |rule: &Rule, tier: usize| -> Effect {
        rule.effects.get(tier).unwrap_or(&rule.effects[0]).clone()
    };
    let is_stored = |effect: &Effect| matches!(effect, Some(RuleLimit::Stored(_)));
    let counts =
        |effect: &Effect| matches!(effect, Some(RuleLimit::Given(_) | RuleLimit::Stored(_)));
    let mut pairs = (0..tiers).map(|tier| (effect(one, tier), effect(other, tier)));
    if pairs
        .clone()
        .any(|(one, other)| counts(&one) && counts(&other) && is_stored(&one) != is_stored(&other))
    {
        return Some("and only one of them under a stored limit");
    }
    let differ = pairs.any(|(one, other)| counts(&one) && counts(&other) && one != other);
    let varies = |rule: &Rule| {
        let in_id = |key: usize| rule.id.iter().flat_map(|id| id.keys()).any(|other| other == key);
        let mut conditions = rule.conditions.iter().map(|condition| condition.key);
        conditions.any(|key| VARYING.contains(&keys.name(key)) && !in_id(key))
    };
    (differ && (varies(one) || varies(other)))
        .then_some("under another limit, for other requests of the same client")
}
