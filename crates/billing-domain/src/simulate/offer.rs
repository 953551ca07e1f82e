//! A plan written down in a few lines, to be simulated.

use crate::custom_sql::CustomSql;
use crate::decimal;
use crate::error::{FieldCode, FieldErrors};
use crate::id::MetricId;
use crate::metric::{Aggregation, Measure, MetricFilters};
use crate::period::PlanDuration;
use crate::plan::{ChargeBehavior, ChargeTiming, PrepaidCharge};
use crate::tier::TierSchedule;
use crate::workflow::{CreateMetric, NewComponent, NewPlanVersion, NewRecurringCharge};

use super::TierBuilder;

/// A plan with one version and the metrics it needs, that belongs to no organization yet.
///
/// Amounts are decimal text in major units of the currency. What is wrong is told when it is priced.
#[derive(Clone, Debug)]
pub struct Offer {
    pub(super) name: String,
    pub(super) duration: PlanDuration,
    pub(super) metered: Vec<Metered>,
    version: NewPlanVersion,
    configure: Option<fn(&mut NewPlanVersion)>,
    errors: FieldErrors,
}

/// A metric and what it costs.
#[derive(Clone, Debug)]
pub(super) struct Metered {
    pub metric: CreateMetric,
    tiers: TierSchedule,
    prepaid: Option<PrepaidCharge>,
}

impl Offer {
    /// A plan by the month, in US dollars, with nothing on it.
    pub fn monthly(name: &str) -> Self {
        Self::lasting(PlanDuration::Monthly, name)
    }

    /// A plan by the quarter.
    pub fn quarterly(name: &str) -> Self {
        Self::lasting(PlanDuration::Quarterly, name)
    }

    /// A plan by the year.
    pub fn yearly(name: &str) -> Self {
        Self::lasting(PlanDuration::Yearly, name)
    }

    fn lasting(duration: PlanDuration, name: &str) -> Self {
        let version = NewPlanVersion::empty("USD");
        let (metered, errors) = (Vec::new(), FieldErrors::default());
        Self { name: name.to_owned(), duration, metered, version, configure: None, errors }
    }

    /// Prices everything in another currency.
    #[must_use]
    pub fn in_currency(mut self, code: &str) -> Self {
        code.clone_into(&mut self.version.currency_code);
        self
    }

    /// Adds a fee for each period, billed in advance and prorated.
    #[must_use]
    pub fn fee(self, name: &str, amount: &str) -> Self {
        self.fee_with(name, amount, ChargeTiming::InAdvance, ChargeBehavior::Prorate)
    }

    /// Adds a fee for each period.
    #[must_use]
    pub fn fee_with(mut self, name: &str, amount: &str, timing: ChargeTiming, behavior: ChargeBehavior) -> Self {
        let amount = self.number(name, amount);
        self.version.recurring_charges.push(NewRecurringCharge {
            name: name.to_owned(),
            amount,
            timing,
            behavior,
            invoicing_interval: None,
            reset_interval: None,
        });
        self
    }

    /// Prices the number of events of a name.
    #[must_use]
    pub fn count(self, event_name: &str, tiers: TierBuilder) -> Self {
        self.metered(event_name, Aggregation::Count.into(), tiers, None)
    }

    /// Prices the sum of a property over the events of a name.
    #[must_use]
    pub fn sum(self, event_name: &str, property_name: &str, tiers: TierBuilder) -> Self {
        self.metered(event_name, Aggregation::Sum { property_name: property_name.to_owned() }.into(), tiers, None)
    }

    /// Prices what any measure makes of the events of a name: another aggregation, a gauge, a rate.
    #[must_use]
    pub fn measured(self, event_name: &str, measure: Measure, tiers: TierBuilder) -> Self {
        self.metered(event_name, measure, tiers, None)
    }

    /// Prices what a query makes of all events of the customer; see [`custom_sql`](crate::custom_sql). `name` tells such
    /// metrics apart. A query that has no usable result for somebody leaves that line unbilled, as it would on an invoice.
    #[must_use]
    pub fn custom(mut self, name: &str, custom_sql: &str, tiers: TierBuilder) -> Self {
        match CustomSql::parse(custom_sql) {
            Ok(sql) => self.priced(Some(name), "", Measure::Custom(sql), tiers, None),
            Err(error) => {
                self.errors.push(name, FieldCode::CustomSqlNotAllowed, error.to_string());
                self
            }
        }
    }

    /// Prices the number of events of a name, with units to be paid for in advance; see
    /// [`Simulation::prepaying`](super::Simulation::prepaying).
    #[must_use]
    pub fn count_prepaid(self, event_name: &str, tiers: TierBuilder, behavior: ChargeBehavior) -> Self {
        self.metered(event_name, Aggregation::Count.into(), tiers, Some(PrepaidCharge { units: None, behavior }))
    }

    /// Sets whatever the methods here do not reach: intervals, anchors, a price adjustment.
    #[must_use]
    pub fn configured(mut self, configure: fn(&mut NewPlanVersion)) -> Self {
        self.configure = Some(configure);
        self
    }

    fn metered(self, event_name: &str, measure: Measure, tiers: TierBuilder, prepaid: Option<PrepaidCharge>) -> Self {
        self.priced(None, event_name, measure, tiers, prepaid)
    }

    fn priced(
        mut self,
        name: Option<&str>,
        event_name: &str,
        measure: Measure,
        tiers: TierBuilder,
        prepaid: Option<PrepaidCharge>,
    ) -> Self {
        if let Some(tiers) = self.errors.keep_all(name.unwrap_or(event_name), tiers.build()) {
            let metric = CreateMetric {
                name: name.map(str::to_owned),
                event_name: event_name.to_owned(),
                measure,
                filters: MetricFilters::default(),
                is_cost_metric: false,
            };
            self.metered.push(Metered { metric, tiers, prepaid });
        }
        self
    }

    /// The version, its components metered by `metrics` in order.
    pub(super) fn version(&self, metrics: &[MetricId]) -> Result<NewPlanVersion, FieldErrors> {
        let mut version = self.version.clone();
        version.components = self
            .metered
            .iter()
            .zip(metrics)
            .map(|(metered, metric)| NewComponent {
                metric: *metric,
                tiers: metered.tiers.clone(),
                invoicing_interval: None,
                reset_interval: None,
                prepaid_charge: metered.prepaid.clone(),
            })
            .collect();
        if let Some(configure) = self.configure {
            configure(&mut version);
        }
        self.errors.clone().finish(version)
    }

    fn number(&mut self, attr: &str, text: &str) -> bigdecimal::BigDecimal {
        decimal::parse(text).unwrap_or_else(|error| {
            self.errors.push(attr, FieldCode::Invalid, format!("{text:?}: {error}"));
            bigdecimal::BigDecimal::default()
        })
    }
}
