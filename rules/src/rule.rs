//! A rule, and the limit that a request meets by it.

use std::sync::Arc;

use lockage::limiter::{Cost as ChargedCost, CostError};
use smallvec::SmallVec;

use crate::condition::{Condition, Said};
use crate::limits::{Effect, RuleLimit};
use crate::mistake::Span;
use crate::request::Request;
use crate::settings::{ClientView, Cost, GivenCosts, Priority, RuleFallback};
use crate::template::Template;

/// Which of the rules that match a request apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// All, but of those with one id the first.
    #[default]
    All,
    /// The first.
    First,
}

/// A rule of a file.
#[derive(Debug)]
#[non_exhaustive]
pub struct Rule {
    /// The name.
    pub name: String,
    /// Whether a denial is only reported.
    pub shadow: bool,
    /// Whether a cost that does not fit is charged all the same: see [`Limiter::penalty`](lockage::Limiter::penalty).
    pub overdraft: bool,
    /// The behaviour while the store does not answer; `None` for the program's own.
    pub fallback: Option<RuleFallback>,
    /// The importance of its requests; `None` if the file does not say.
    pub priority: Option<Priority>,
    /// The client's view of the rule.
    pub client: ClientView,
    pub(crate) conditions: Vec<Condition>,
    /// Whether a request with other keys does not match.
    pub(crate) exact: bool,
    pub(crate) id: Option<Template>,
    /// Without a tier, and then on each tier; one if the tier does not matter.
    pub(crate) effects: Vec<Effect>,
    /// Likewise: a cost, or one for each part of the limit.
    pub(crate) costs: Vec<Vec<Cost>>,
    pub(crate) replaces: Vec<usize>,
    /// Whether an earlier rule can have the same id.
    pub(crate) shares_id: bool,
    /// The number of its first effect among those of all rules.
    pub(crate) first_limit: usize,
}

/// A limit that a request meets. All of a request are to be decided together: each admits it, or it is charged to none.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Matched {
    /// The rule.
    pub rule: Arc<Rule>,
    /// The id of the limiter. The ids of one request differ.
    pub id: String,
    /// The cost.
    pub costs: Costs,
    /// The index of the request that it matches: 0, or that among the requests of
    /// [`matches_each`](crate::Rules::matches_each).
    pub request: usize,
    /// The place of the effect: 0, or that of the tier.
    tier: usize,
    /// A limit in place of the rule's.
    own: Option<Arc<RuleLimit>>,
}

/// The cost of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Costs {
    /// One, for all parts of the limit.
    One(u64),
    /// One for each part of the limit, in their order.
    Parts(SmallVec<[u64; 4]>),
}

impl Costs {
    /// Returns it for a [`Limiter::request`](lockage::Limiter::request).
    ///
    /// # Errors
    /// [`CostError`] for a cost out of range, or more costs than a limit has parts.
    pub fn cost(&self) -> Result<ChargedCost, CostError> {
        match self {
            Costs::One(cost) => Ok((*cost).into()),
            Costs::Parts(parts) => ChargedCost::by_part(parts),
        }
    }

    /// Returns the numbers: one, or one for each part.
    pub fn amounts(&self) -> &[u64] {
        match self {
            Costs::One(amount) => std::slice::from_ref(amount),
            Costs::Parts(amounts) => amounts,
        }
    }
}

/// The values of a request, by the numbers of their keys.
pub(crate) struct Values<'q> {
    pub(crate) said: SmallVec<[(usize, Said<'q>); 8]>,
    pub(crate) tier: usize,
    /// The number of keys, also of those that are in no rule.
    pub(crate) keys: usize,
}

impl Values<'_> {
    fn get(&self, key: usize) -> Option<Said<'_>> {
        self.said.iter().find(|(other, _)| *other == key).map(|(_, said)| *said)
    }
}

impl Rule {
    /// Returns the id of a request that matches; without a template, it is the rule's name.
    pub(crate) fn id_of(&self, values: &Values<'_>) -> Option<String> {
        if !self.conditions.iter().all(|condition| condition.holds(values.get(condition.key))) {
            return None;
        }
        if self.exact && values.keys != self.keys().filter(|key| values.get(*key).is_some()).count()
        {
            return None;
        }
        match &self.id {
            Some(template) => template.id(|key| values.get(key)),
            None => Some(self.name.clone()),
        }
    }

    /// Returns the keys that the rule names, each once.
    pub(crate) fn keys(&self) -> impl Iterator<Item = usize> {
        let conditions = self.conditions.iter().map(|condition| condition.key);
        let in_id: SmallVec<[usize; 4]> = self.id.iter().flat_map(|id| id.keys()).collect();
        let mut keys: SmallVec<[usize; 8]> = conditions.chain(in_id).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter()
    }

    /// Returns a rule without a name, a limit and a cost.
    fn of_no_file() -> Self {
        Rule {
            name: String::new(),
            shadow: false,
            overdraft: false,
            fallback: None,
            priority: None,
            client: ClientView::of_policy("limit"),
            conditions: Vec::new(),
            exact: false,
            id: None,
            effects: vec![None],
            costs: vec![Vec::new()],
            replaces: Vec::new(),
            shares_id: false,
            first_limit: 0,
        }
    }

    /// Returns the place of the effect on this tier, if that is a limit.
    pub(crate) fn effect_of(&self, tier: usize) -> Option<usize> {
        let place = if tier < self.effects.len() { tier } else { 0 };
        self.effects[place].is_some().then_some(place)
    }

    fn costs_of(&self, tier: usize) -> &[Cost] {
        self.costs.get(tier).unwrap_or(&self.costs[0])
    }
}

impl Matched {
    /// Makes a request for a limit that no file has, such as one that the request itself names. Its rule has no name.
    pub fn new(id: String, limit: RuleLimit, costs: Costs) -> Self {
        let rule = Arc::new(Rule::of_no_file());
        Matched { rule, id, costs, request: 0, tier: 0, own: Some(Arc::new(limit)) }
    }

    /// Puts another limit, with its costs, in place of the rule's.
    pub fn replace_limit(&mut self, limit: RuleLimit, costs: Costs) {
        (self.own, self.costs) = (Some(Arc::new(limit)), costs);
    }

    /// Returns the limit that one of these requests meets by the rule.
    pub(crate) fn of(
        rule: &Arc<Rule>,
        id: String,
        tier: usize,
        requests: &[Request<'_>],
        place: usize,
    ) -> Self {
        let request = &requests[place];
        let amount = |name: &str| {
            let given = request.costs.iter().find(|(other, _)| other == name);
            given.map(|(_, amount)| *amount)
        };
        let amount = |cost: &Cost| {
            let amount = match cost {
                Cost::Number(amount) => *amount,
                Cost::Named { name, default } => amount(name).unwrap_or(*default),
            };
            amount.saturating_mul(request.hits)
        };
        let costs = match rule.costs_of(tier) {
            [only] => Costs::One(amount(only)),
            parts => Costs::Parts(parts.iter().map(amount).collect()),
        };
        Matched { rule: Arc::clone(rule), id, costs, request: place, tier, own: None }
    }

    /// Returns the limit.
    pub fn limit(&self) -> &RuleLimit {
        if let Some(own) = &self.own {
            return own;
        }
        // Invariant: effects without a limit match nothing.
        self.rule.effects[self.tier].as_ref().expect("it has a limit")
    }

    /// Returns the number of the rule's limit, below [`Rules::limit_count`](crate::Rules::limit_count): one of each rule
    /// and tier. `None` for another limit than the rule's.
    pub fn limit_number(&self) -> Option<usize> {
        self.own.is_none().then_some(self.rule.first_limit + self.tier)
    }

    /// Returns the name of the cost at this place among the [costs](Self::costs): of another limit than the rule's, that of
    /// the part. `None` if it is a number of the rule, or the part has no name.
    pub fn cost_name(&self, place: usize) -> Option<&str> {
        match (self.own.as_deref(), &self.costs) {
            (Some(RuleLimit::Given(limit)), Costs::Parts(_)) => limit.part_names().nth(place),
            (Some(_), _) => None,
            (None, _) => match self.rule.costs_of(self.tier).get(place)? {
                Cost::Named { name, .. } => Some(name),
                Cost::Number(_) => None,
            },
        }
    }

    /// Returns the amount of this name among the costs; `None` if the rule does not name it.
    pub(crate) fn amount_of(&self, name: &str) -> Option<u64> {
        let mut amounts = self.costs.amounts().iter().enumerate();
        let named = amounts.find(|(place, _)| self.cost_name(*place) == Some(name));
        named.map(|(_, amount)| *amount)
    }

    /// Returns the costs with another amount of this name.
    pub(crate) fn costs_with(&self, name: &str, amount: u64) -> Costs {
        let mut costs = self.costs.clone();
        let amounts = match &mut costs {
            Costs::One(only) => std::slice::from_mut(only),
            Costs::Parts(amounts) => &mut amounts[..],
        };
        for (place, old) in amounts.iter_mut().enumerate() {
            if self.cost_name(place) == Some(name) {
                *old = amount;
            }
        }
        costs
    }
}

/// A rule and the places of its parts.
pub(crate) struct Draft {
    pub(crate) rule: Rule,
    pub(crate) span: Span,
    pub(crate) id: Span,
    /// The place of each effect's text.
    pub(crate) limits: Vec<Span>,
    pub(crate) costs: GivenCosts,
    pub(crate) costs_span: Span,
    pub(crate) fallback: Span,
    pub(crate) replaces: Vec<(String, Span)>,
}
