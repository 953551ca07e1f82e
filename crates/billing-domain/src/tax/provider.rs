//! Who knows a customer's tax rate, asked in turn.

use std::fmt;

use bigdecimal::BigDecimal;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use crate::decimal;
use crate::id::TaxHookId;
use crate::period::instant;

/// Answers of the organization's own provider that are kept of a customer: more than one transaction needs.
pub const QUOTES_MAX: usize = 8;

choices! {
    /// Who may be asked for a tax rate.
    pub TaxProvider {
        /// The rate that is set on the customer, else on the organization.
        FlatRate = "flat_rate",
        /// The organization's own, over HTTP: see [`TaxHook`].
        Http = "http",
    }
}

choices! {
    /// What becomes of an invoice when a provider failed and no other one knows a rate.
    pub TaxFailure {
        /// It waits until there is an answer.
        Wait = "wait",
        /// It is issued without tax.
        BillUntaxed = "bill_untaxed",
    }
}

/// Why there is no answer where a provider is named that the organization does not have any more.
const NOWHERE_TO_ASK: &str = "the organization has no tax_provider_url";

/// Where an organization's own provider is asked. Whoever runs workflows asks it, outside of any transaction, and notes the answer:
/// here it is a fact that is there or not.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaxHook {
    /// Another one for each address, so that answers of an earlier one are none.
    pub id: TaxHookId,
    /// Its address.
    pub url: String,
    /// What questions are signed with.
    pub secret: String,
}

/// Without the secret: it would be in logs.
impl fmt::Debug for TaxHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaxHook").field("id", &self.id).field("url", &self.url).finish_non_exhaustive()
    }
}

/// What an organization's own provider said of a customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaxQuote {
    /// The [`TaxHook`] that was asked.
    pub hook: TaxHookId,
    /// The first instant, in the customer's time, that it is for.
    #[serde(with = "instant")]
    pub from: OffsetDateTime,
    /// The first that it is not for any more.
    #[serde(with = "instant")]
    pub until: OffsetDateTime,
    /// What it said.
    pub outcome: TaxOutcome,
}

impl TaxQuote {
    /// How long an answer is good that does not say so itself.
    pub const USUAL_TIME: Duration = Duration::hours(24);
    /// How long an answer can be good.
    pub const TIME_MAX: Duration = Duration::days(366);
    /// How long it counts that there was none, for an invoice that was not asked for: in the customer's time.
    pub const FAILURE_TIME: Duration = Duration::minutes(1);

    fn covers(&self, hook: TaxHookId, at: OffsetDateTime) -> bool {
        self.hook == hook && self.is_for(at)
    }

    /// Whether it says that there was no answer for `at`.
    pub(crate) fn is_failure_at(&self, at: OffsetDateTime) -> bool {
        matches!(self.outcome, TaxOutcome::Failed(_)) && self.is_for(at)
    }

    fn is_for(&self, at: OffsetDateTime) -> bool {
        self.from <= at && at < self.until
    }
}

/// What a provider said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaxOutcome {
    /// A rate.
    Rate(#[serde(with = "decimal::number")] BigDecimal),
    /// That it knows none: the next one is asked.
    NoRate,
    /// Nothing, for this reason.
    Failed(String),
}

/// A rate, and whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaxRate {
    /// In percent (10.5 means 10.5 %).
    pub rate: BigDecimal,
    /// Who knew it.
    pub provider: TaxProvider,
}

/// All that is known about the tax rate of one customer.
#[derive(Clone, Debug)]
pub struct TaxSources<'s> {
    /// Who is asked, in order.
    pub providers: Vec<TaxProvider>,
    /// What [`TaxProvider::FlatRate`] says: 0 is a rate too and means exempt.
    pub flat_rate: Option<&'s BigDecimal>,
    /// Where [`TaxProvider::Http`] is asked; `None`: it fails.
    pub hook: Option<&'s TaxHook>,
    /// What it has said.
    pub quotes: &'s [TaxQuote],
    /// What happens when it fails.
    pub on_failure: TaxFailure,
}

impl TaxSources<'_> {
    /// The rate that holds at `at`: that of the first provider that knows one. None when none does, and then there is no tax.
    ///
    /// # Errors
    /// What is missing to know: `None`: an answer that nobody has asked for; otherwise why it is missing.
    pub fn rate(&self, at: OffsetDateTime) -> Result<Option<TaxRate>, Option<String>> {
        let mut failure = None;
        for provider in self.providers.iter().copied() {
            let rate = match (provider, self.hook) {
                (TaxProvider::FlatRate, _) => self.flat_rate,
                (TaxProvider::Http, None) => {
                    failure = Some(NOWHERE_TO_ASK.to_owned());
                    None
                }
                (TaxProvider::Http, Some(hook)) => {
                    let quote = self.quotes.iter().rev().find(|quote| quote.covers(hook.id, at));
                    match &quote.ok_or(None)?.outcome {
                        TaxOutcome::Rate(rate) => Some(rate),
                        TaxOutcome::NoRate => None,
                        TaxOutcome::Failed(reason) => {
                            failure = Some(reason.clone());
                            None
                        }
                    }
                }
            };
            if let Some(rate) = rate {
                return Ok(Some(TaxRate { rate: rate.clone(), provider }));
            }
        }
        match (failure, self.on_failure) {
            (Some(reason), TaxFailure::Wait) => Err(Some(reason)),
            _ => Ok(None),
        }
    }
}

/// What [`TaxProvider::FlatRate`] says: the customer's rate, else the organization's.
///
/// ```
/// use billing_domain::BigDecimal;
/// use billing_domain::tax::flat_rate;
///
/// let (zero, ten) = (BigDecimal::from(0), BigDecimal::from(10));
/// assert_eq!(flat_rate(None, Some(&ten)), Some(&ten));
/// // Surprising: a customer's rate of 0 is an answer, not a missing one.
/// assert_eq!(flat_rate(Some(&zero), Some(&ten)), Some(&zero));
/// ```
pub fn flat_rate<'r>(customer: Option<&'r BigDecimal>, organization: Option<&'r BigDecimal>) -> Option<&'r BigDecimal> {
    customer.or(organization)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use uuid::Uuid;

    use super::TaxFailure::{BillUntaxed, Wait};
    use super::TaxProvider::{FlatRate, Http};
    use super::*;

    const NOON: OffsetDateTime = datetime!(2026-03-01 12:00 UTC);

    fn quote(hook: u128, from_hours: i64, outcome: TaxOutcome) -> TaxQuote {
        let from = NOON + Duration::hours(from_hours);
        TaxQuote { hook: Uuid::from_u128(hook).into(), from, until: from + TaxQuote::USUAL_TIME, outcome }
    }

    #[test]
    fn the_first_provider_that_knows_a_rate_is_believed() {
        let (ten, twenty) = (BigDecimal::from(10), BigDecimal::from(20));
        let hook = TaxHook { id: Uuid::from_u128(1).into(), url: String::new(), secret: String::new() };
        let rate = || TaxOutcome::Rate(twenty.clone());
        let down = || TaxOutcome::Failed("down".to_owned());
        let known = |rate: &BigDecimal, provider| Ok(Some(TaxRate { rate: rate.clone(), provider }));
        #[rustfmt::skip]
        let cases = [
            // providers,                 flat,       quotes,                                                         on failure,   rate,                       why
            (vec![FlatRate],              Some(&ten), vec![],                                                         Wait,        known(&ten, FlatRate),       "the built-in one"),
            (vec![FlatRate],              None,       vec![],                                                         Wait,        Ok(None),                    "nobody knows: no tax"),
            (vec![],                      Some(&ten), vec![],                                                         Wait,        Ok(None),                    "nobody is asked"),
            (vec![Http],                  Some(&ten), vec![quote(1, 0, rate())],                                      Wait,        known(&twenty, Http),        "its answer"),
            (vec![Http, FlatRate],        Some(&ten), vec![quote(1, 0, rate())],                                      Wait,        known(&twenty, Http),        "the first"),
            (vec![FlatRate, Http],        Some(&ten), vec![],                                                         Wait,        known(&ten, FlatRate),       "the second is not even asked"),
            (vec![FlatRate, Http],        None,       vec![],                                                         Wait,        Err(None),                   "the second is to be asked"),
            (vec![Http],                  None,       vec![],                                                         BillUntaxed, Err(None),                   "nobody has asked, which is no failure"),
            (vec![Http],                  None,       vec![quote(1, 1, rate())],                                      Wait,        Err(None),                   "an answer for later"),
            (vec![Http],                  None,       vec![quote(1, -24, rate())],                                    Wait,        Err(None),                   "an answer of the day before"),
            (vec![Http],                  None,       vec![quote(2, 0, rate())],                                      Wait,        Err(None),                   "an answer of another address"),
            (vec![Http],                  None,       vec![quote(1, -2, down()), quote(1, -1, rate())],               Wait,        known(&twenty, Http),        "the latest answer counts"),
            (vec![Http, FlatRate],        Some(&ten), vec![quote(1, 0, TaxOutcome::NoRate)],                          Wait,        known(&ten, FlatRate),       "it passes on what it does not know"),
            (vec![Http],                  Some(&ten), vec![quote(1, 0, TaxOutcome::NoRate)],                          Wait,        Ok(None),                    "and then nobody does"),
            (vec![Http, FlatRate],        Some(&ten), vec![quote(1, 0, down())],                                      Wait,        known(&ten, FlatRate),       "when it fails, the next one is asked"),
            (vec![Http, FlatRate],        None,       vec![quote(1, 0, down())],                                      Wait,        Err(Some("down".to_owned())), "and when that one knows nothing, the invoice waits"),
            (vec![Http, FlatRate],        None,       vec![quote(1, 0, down())],                                      BillUntaxed, Ok(None),                    "unless the organization wants it now"),
        ];
        for (providers, flat_rate, quotes, on_failure, expected, why) in cases {
            let sources = TaxSources { providers, flat_rate, hook: Some(&hook), quotes: &quotes, on_failure };
            assert_eq!(sources.rate(NOON), expected, "{why}");
        }
        #[rustfmt::skip]
        let cases = [
            // providers,           on failure,  rate,                             why
            (vec![Http],            Wait,        Err(Some(NOWHERE_TO_ASK.to_owned())), "there is no address any more, and somebody still names it"),
            (vec![Http],            BillUntaxed, Ok(None),                         "which is a failure like others"),
            (vec![Http, FlatRate],  Wait,        known(&ten, FlatRate),            "and another one may know a rate"),
        ];
        for (providers, on_failure, expected, why) in cases {
            let nowhere = TaxSources { providers, flat_rate: Some(&ten), hook: None, quotes: &[], on_failure };
            assert_eq!(nowhere.rate(NOON), expected, "{why}");
        }
    }

    #[test]
    fn a_hook_keeps_its_secret_from_the_log() {
        let hook = TaxHook { id: Uuid::nil().into(), url: "https://a".to_owned(), secret: "whsec_x".to_owned() };
        assert!(!format!("{hook:?}").contains("whsec"));
    }
}
