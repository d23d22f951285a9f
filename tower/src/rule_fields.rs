//! The header fields of decisions by rules.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use http::{HeaderName, HeaderValue};
use lockage::Decision;
use lockage_rules::{Matched, RuleLimit, Rules};

use crate::answers::{Answers, OnError};
use crate::cost::Unit;
use crate::fields::{Fields, Policies};
use crate::merge::AllFields;
use crate::rejection::Rejection;

/// The header fields of decisions by rules, for a server that decides for others, such as a proxy.
///
/// ```
/// use std::sync::Arc;
///
/// use lockage::Limiter;
/// use lockage_memory::MemoryStore;
/// use lockage_rules::{Format, Request, Rules};
/// use lockage_tower::{Fields, RuleFields};
///
/// let file = "rules: [{ name: users, id: 'user:{user}', limit: fixed-window 100/min }]";
/// let rules = Arc::new(Rules::parse(file, Format::Yaml)?);
/// let [matched] = &rules.matches(&Request::new().user("ann"))[..] else { panic!("one matches") };
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limit = "fixed-window 100/min".parse()?;
/// let limiter = Limiter::new(MemoryStore::new(), limit).with_prefix("rules")?;
/// let decision = limiter.try_acquire(&matched.id, 3).await?;
/// let fields = RuleFields::new(Fields::DRAFT_11);
/// let fields: Vec<_> = fields.of(&rules, &[(matched, Some(&decision))], None).collect();
/// assert_eq!(fields[0].1, r#""users";q=100;w=60"#);
/// assert_eq!(fields[1].1, r#""users";r=97;t=60"#);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RuleFields {
    answers: Answers,
    known: ArcSwapOption<RulePolicies>,
}

impl RuleFields {
    /// Creates fields of these forms.
    pub fn new(fields: Fields) -> Self {
        let answers = Answers { fields, on_error: OnError::default() };
        RuleFields { answers, known: ArcSwapOption::empty() }
    }

    /// Returns the fields of a decision by these rules: on the limits that a request meets, of which the one at `denied`
    /// denies it. They are those of [`RateLimit::rules`](crate::RateLimit::rules), without `Retry-After`.
    pub fn of(
        &self,
        rules: &Arc<Rules>,
        met: &[(&Matched, Option<&Decision>)],
        denied: Option<usize>,
    ) -> impl Iterator<Item = (HeaderName, HeaderValue)> + use<> {
        let fields = match denied {
            _ if self.answers.fields == Fields::NONE => AllFields::default(),
            Some(at) => self.policies(rules).denied(self.answers, met, at).1,
            None => self.policies(rules).admitted(self.answers, met),
        };
        fields.into_iter()
    }

    fn policies(&self, rules: &Arc<Rules>) -> Arc<RulePolicies> {
        let known = self.known.load_full();
        known.filter(|known| Arc::ptr_eq(&known.rules, rules)).unwrap_or_else(|| {
            let new = Arc::new(RulePolicies::of(Arc::clone(rules)));
            self.known.store(Some(Arc::clone(&new)));
            new
        })
    }
}

/// The policies of rules.
#[derive(Debug)]
pub(crate) struct RulePolicies {
    pub(crate) rules: Arc<Rules>,
    /// Those of each limit, made when a request first meets it.
    each: Box<[OnceLock<Arc<Policies>>]>,
}

impl RulePolicies {
    pub(crate) fn of(rules: Arc<Rules>) -> Self {
        let each = (0..rules.limit_count()).map(|_| OnceLock::new()).collect();
        RulePolicies { rules, each }
    }

    /// Returns the fields of a request that goes ahead.
    pub(crate) fn admitted(
        &self,
        answers: Answers,
        met: &[(&Matched, Option<&Decision>)],
    ) -> AllFields {
        let policies = self.policies(met);
        let seen = policies.iter().zip(met);
        answers.admitted(seen.filter_map(|(policies, met)| Some((&**policies.as_ref()?, met.1?))))
    }

    /// Returns the rejection by the limit at `denied`, unless its rule blocks, and the fields.
    pub(crate) fn denied(
        &self,
        answers: Answers,
        met: &[(&Matched, Option<&Decision>)],
        denied: usize,
    ) -> (Option<Box<Rejection>>, AllFields) {
        let policies = self.policies(met);
        let rejection = met[denied]
            .1
            .and_then(|decision| answers.rejection(decision, policies[denied].as_deref()));
        let (rejection, mut fields) = rejection.unzip();
        let fields = fields.get_or_insert_default();
        if answers.fields.draft() {
            policies.iter().flatten().for_each(|policies| policies.add_policies(fields));
        }
        (rejection, std::mem::take(fields))
    }

    /// Returns the policies of each limit; `None` of those that clients do not see.
    fn policies(&self, met: &[(&Matched, Option<&Decision>)]) -> Vec<Option<Arc<Policies>>> {
        let is_seen = |matched: &Matched| {
            let rule = &matched.rule;
            rule.client.fields && !rule.shadow && *matched.limit() != RuleLimit::Blocked
        };
        let name = |at: usize| &met[at].0.rule.client.policy;
        let each = met.iter().enumerate().map(|(at, (matched, _))| {
            let is_same = |earlier: &usize| is_seen(met[*earlier].0) && name(*earlier) == name(at);
            let taken = (0..at).filter(is_same).count();
            is_seen(matched).then(|| match (taken, matched.limit_number()) {
                (0, Some(number)) => {
                    let known = &self.each[number];
                    Arc::clone(known.get_or_init(|| Arc::new(policies(matched, name(at)))))
                }
                (0, None) => Arc::new(policies(matched, name(at))),
                // As the items of nested layers.
                _ => Arc::new(policies(matched, &format!("{}-{}", name(at), taken + 1))),
            })
        });
        each.collect()
    }
}

fn policies(matched: &Matched, name: &str) -> Policies {
    let limit = match matched.limit() {
        RuleLimit::Given(limit) => Some(*limit),
        _ => None,
    };
    let parts = limit.iter().flat_map(|limit| limit.part_names());
    let mut names: Vec<Arc<str>> = parts.map(|part| format!("{name}-{part}").into()).collect();
    if names.is_empty() {
        names.push(name.into());
    }
    Policies::new(limit, &names, Unit::Requests).expect("all parts have names, or none")
}
