//! A rule, and the limit that a request meets by it.

use lockage::limiter::Cost;
use lockage::limiter::CostError;
use smallvec::SmallVec;

use crate::condition::{Condition, Said};
use crate::limits::{Effect, RuleLimit};
use crate::mistake::Span;
use crate::request::Request;
use crate::settings::{ClientView, Cost as RuleCost, PLAIN, Priority, RuleFallback};
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

/// A rule, ready to be matched.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) conditions: Vec<Condition>,
    /// Whether a request with other keys does not match.
    pub(crate) exact: bool,
    pub(crate) id: Option<Template>,
    /// Without a tier, and then on each tier; one if the tier does not matter.
    pub(crate) effects: Vec<Effect>,
    pub(crate) costs: Vec<RuleCost>,
    pub(crate) shadow: bool,
    pub(crate) fallback: Option<RuleFallback>,
    pub(crate) priority: Priority,
    pub(crate) client: ClientView,
    pub(crate) replaces: Vec<usize>,
    /// Whether an earlier rule can have the same id.
    pub(crate) shares_id: bool,
}

/// A limit that a request meets. All of a request are to be decided together: each admits it, or it is charged to none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Matched<'r> {
    /// The name of the rule.
    pub rule: &'r str,
    /// The id of the limiter. The ids of one request differ.
    pub id: String,
    /// The limit.
    pub limit: &'r RuleLimit,
    /// The cost.
    pub costs: Costs,
    /// Whether a denial is only reported.
    pub shadow: bool,
    /// The behaviour while the store does not answer; `None` for the program's own.
    pub fallback: Option<RuleFallback>,
    /// The importance of the request.
    pub priority: Priority,
    /// The client's view of the rule.
    pub client: &'r ClientView,
    /// The index of the request that it matches: 0, or that among the requests of
    /// [`matches_each`](crate::Rules::matches_each).
    pub request: usize,
}

impl<'r> Matched<'r> {
    /// Makes a request for a limit that no file has, such as one that the request itself names.
    pub fn new(rule: &'r str, id: String, limit: &'r RuleLimit, costs: Costs) -> Self {
        let (priority, client) = (Priority::default(), &PLAIN);
        Matched {
            rule,
            id,
            limit,
            costs,
            shadow: false,
            fallback: None,
            priority,
            client,
            request: 0,
        }
    }
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
    pub fn cost(&self) -> Result<Cost, CostError> {
        match self {
            Costs::One(cost) => Ok((*cost).into()),
            Costs::Parts(parts) => Cost::by_part(parts),
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

    pub(crate) fn matched<'r>(
        &'r self,
        id: String,
        limit: &'r RuleLimit,
        requests: &[Request<'_>],
        place: usize,
    ) -> Matched<'r> {
        let request = &requests[place];
        let cost = |cost: &RuleCost| {
            let amount = match cost {
                RuleCost::Number(amount) => *amount,
                RuleCost::Named { name, default } => {
                    let given = request.costs.iter().find(|(other, _)| other == name);
                    given.map_or(*default, |(_, amount)| *amount)
                }
            };
            amount.saturating_mul(request.hits)
        };
        Matched {
            rule: &self.name,
            id,
            limit,
            costs: match self.costs.as_slice() {
                [only] => Costs::One(cost(only)),
                parts => Costs::Parts(parts.iter().map(cost).collect()),
            },
            shadow: self.shadow,
            fallback: self.fallback,
            priority: self.priority,
            client: &self.client,
            request: place,
        }
    }
}

/// A rule and the places of its parts.
pub(crate) struct Draft {
    pub(crate) rule: Rule,
    pub(crate) span: Span,
    pub(crate) id: Span,
    pub(crate) costs: Span,
    pub(crate) fallback: Span,
    pub(crate) replaces: Vec<(String, Span)>,
}
