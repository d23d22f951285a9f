//! The limiters of a layer, each with its key, and with the limits of tiers.

use std::collections::HashMap;
use std::sync::Arc;

use http::request::Parts;
use lockage::Limiter;

use crate::fields::Policies;
use crate::key::Key;
use crate::rejection::Reason;

/// Names the tier of a request.
pub(crate) type Choose = Arc<dyn for<'a> Fn(&'a Parts) -> Option<&'a str> + Send + Sync>;

/// A limiter for all requests with the same key.
pub(crate) struct Rule<S> {
    pub(crate) key: Key,
    pub(crate) limits: Limits<S>,
}

/// The limits of a rule.
pub(crate) enum Limits<S> {
    One(Charge<S>),
    Tiers { own: Charge<S>, tiers: HashMap<Box<str>, Charge<S>>, choose: Choose },
}

/// A limiter, and its policies for clients.
pub(crate) struct Charge<S> {
    pub(crate) limiter: Limiter<S>,
    pub(crate) policies: Policies,
    pub(crate) is_shadow: bool,
}

impl<S> Limits<S> {
    /// Returns the charge that is not of a tier.
    pub(crate) fn own(&self) -> &Charge<S> {
        match self {
            Limits::One(own) | Limits::Tiers { own, .. } => own,
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Charge<S>> {
        let tiers = match self {
            Limits::One(_) => None,
            Limits::Tiers { tiers, .. } => Some(tiers.values()),
        };
        std::iter::once(self.own()).chain(tiers.into_iter().flatten())
    }

    pub(crate) fn of(&self, parts: &Parts) -> Result<&Charge<S>, Reason> {
        match self {
            Limits::One(own) => Ok(own),
            Limits::Tiers { own, tiers, choose } => match choose(parts) {
                None => Ok(own),
                Some(name) => tiers.get(name).ok_or_else(|| Reason::NoTier(name.into())),
            },
        }
    }
}
