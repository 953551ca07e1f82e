//! Which plans and versions a list keeps.

use billing_domain::period::PlanDuration;
use billing_domain::plan::{Plan, PlanVersion};
use billing_domain::store::Transaction;
use billing_domain::workflow::find_currency;
use billing_domain::{Error, FieldCode};
use time::OffsetDateTime;

use crate::error::ApiError;
use crate::query::{FromQuery, Query};
use crate::wire::words_of;

/// Most tags in one query parameter.
const TAGS_MAX: usize = 50;

/// Which plans are kept.
#[derive(Clone, Debug, Default)]
pub struct PlanFilter {
    duration: Option<PlanDuration>,
    any_of: Vec<String>,
    all_of: Vec<String>,
    none_of: Vec<String>,
}

impl FromQuery for PlanFilter {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let duration = query.optional("duration");
        let lists = ["include_tags", "include_tags_all", "exclude_tags"].map(|name| (name, query.list::<String>(name)));
        for (name, list) in &lists {
            if list.as_ref().is_some_and(|tags| tags.len() > TAGS_MAX) {
                return Err(ApiError::field(
                    name,
                    FieldCode::ListTooLong,
                    format!("At most {TAGS_MAX} tags are allowed."),
                ));
            }
        }
        let read = match (duration, lists) {
            (Some(duration), [(_, Some(any_of)), (_, Some(all_of)), (_, Some(none_of))]) => {
                Some(Self { duration, any_of, all_of, none_of })
            }
            _ => None,
        };
        query.finish(read)
    }
}

impl PlanFilter {
    /// Whether `plan` is kept.
    pub fn keeps(&self, plan: &Plan) -> bool {
        let has = |tag: &String| plan.has_tag(tag);
        self.duration.is_none_or(|duration| plan.duration == Some(duration))
            && (self.any_of.is_empty() || self.any_of.iter().any(has))
            && self.all_of.iter().all(has)
            && !self.none_of.iter().any(has)
    }
}

billing_domain::choices! {
    /// Whether custom versions are kept.
    #[derive(Default)]
    pub CustomType {
        /// Only versions with target customers.
        CustomOnly = "custom_only",
        /// Only versions without.
        PublicOnly = "public_only",
        /// Both.
        #[default]
        All = "all",
    }
}

billing_domain::choices! {
    /// Where a version's time to be subscribed to stands.
    pub VersionState {
        /// It is now.
        Active = "active",
        /// It is to come.
        NotStarted = "not_started",
        /// It is over.
        Ended = "ended",
    }
}

impl VersionState {
    fn holds(self, version: &PlanVersion, now: OffsetDateTime) -> bool {
        match self {
            Self::Active => version.is_active(now),
            Self::NotStarted => version.is_not_started(now),
            Self::Ended => version.is_ended(now),
        }
    }
}

words_of! { CustomType, VersionState }

/// Which versions are kept; all by default.
#[derive(Clone, Debug, Default)]
pub struct VersionFilter {
    currency_code: Option<String>,
    custom: CustomType,
    states: Vec<VersionState>,
}

impl FromQuery for VersionFilter {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let currency_code = query.optional("version_currency_code");
        let custom = query.optional::<CustomType>("version_custom_type");
        let states = query.list("version_status");
        let read = match (currency_code, custom, states) {
            (Some(currency_code), Some(custom), Some(states)) => {
                Some(Self { currency_code, custom: custom.unwrap_or_default(), states })
            }
            _ => None,
        };
        query.finish(read)
    }
}

impl VersionFilter {
    /// Checks that the currency exists.
    ///
    /// # Errors
    /// `version_currency_code` does not exist.
    pub fn check(&self, tx: &mut dyn Transaction) -> Result<(), Error> {
        let Some(code) = &self.currency_code else { return Ok(()) };
        find_currency(tx, code).map(drop).map_err(|error| error.at_field("version_currency_code"))
    }

    /// Whether `version` is kept.
    pub fn keeps(&self, version: &PlanVersion, now: OffsetDateTime) -> bool {
        let custom = match self.custom {
            CustomType::CustomOnly => version.is_custom(),
            CustomType::PublicOnly => !version.is_custom(),
            CustomType::All => true,
        };
        custom
            && self.currency_code.as_ref().is_none_or(|code| version.currency_code == *code)
            && (self.states.is_empty() || self.states.iter().any(|state| state.holds(version, now)))
    }
}
