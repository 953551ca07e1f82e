//! Plan versions as answers show them.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use billing_domain::currency::Currency;
use billing_domain::id::{FeatureId, MetricId, PlanId, PlanVersionId};
use billing_domain::metric::Metric;
use billing_domain::period::{Interval, IntervalUnit};
use billing_domain::plan::{
    ChargeBehavior, ChargeTiming, Component, Feature, Plan, PlanVersion, PlanVersionStatus, PriceAdjustment,
    PriceAdjustmentKind, RecurringCharge,
};
use billing_domain::store::Transaction;
use billing_domain::tier::{BatchRounding, StepKind, Tier, TierPrice};
use billing_domain::workflow::find_currency;
use billing_domain::{Error, Noun};
use time::OffsetDateTime;

use crate::feature::FeatureView;
use crate::metric::MetricView;
use crate::wire::{CurrencyView, CustomerBriefView, Instant, Number, view};

/// What versions refer to, read once for one answer.
pub struct Catalog {
    pub(super) now: OffsetDateTime,
    versions: Vec<PlanVersion>,
    metrics: BTreeMap<MetricId, Metric>,
    features: BTreeMap<FeatureId, Feature>,
    currencies: BTreeMap<String, Currency>,
    active_subscriptions: BTreeMap<PlanVersionId, u64>,
}

impl Catalog {
    /// Reads what the versions of one plan, or of all plans, refer to.
    ///
    /// # Errors
    /// Those of the store.
    pub fn load(tx: &mut dyn Transaction, plan: Option<PlanId>, now: OffsetDateTime) -> Result<Self, Error> {
        Ok(Self {
            now,
            versions: tx.plans().list_versions(plan)?,
            metrics: tx.metrics().list()?.into_iter().map(|metric| (metric.id, metric)).collect(),
            features: tx.features().list()?.into_iter().map(|feature| (feature.id, feature)).collect(),
            currencies: BTreeMap::new(),
            active_subscriptions: tx.plans().active_subscriptions(now)?,
        })
    }

    /// The versions of a plan, oldest first.
    pub fn versions_of(&self, plan: PlanId) -> impl Iterator<Item = &PlanVersion> {
        self.versions.iter().filter(move |version| version.plan == plan)
    }

    /// How many subscriptions of a version run.
    pub fn active_subscriptions(&self, version: PlanVersionId) -> u64 {
        self.active_subscriptions.get(&version).copied().unwrap_or(0)
    }

    fn currency(&mut self, tx: &mut dyn Transaction, code: &str) -> Result<CurrencyView, Error> {
        if let Some(currency) = self.currencies.get(code) {
            return Ok(currency.into());
        }
        let currency = find_currency(tx, code)?;
        let view = CurrencyView::from(&currency);
        self.currencies.insert(code.to_owned(), currency);
        Ok(view)
    }
}

view! {
    /// One revision of a plan.
    PlanVersionView {
        /// Its id.
        version_id: PlanVersionId,
        /// Its number.
        version: u32,
        /// The version's own name, otherwise the plan's.
        plan_name: String,
        /// The version's own name.
        localized_name: Option<String>,
        /// What it is.
        description: Option<String>,
        /// Where it stands.
        status: PlanVersionStatus,
        /// What everything in it is priced in.
        currency: CurrencyView,
        /// What is charged by usage.
        components: Vec<ComponentView>,
        /// What is charged by time.
        recurring_charges: Vec<RecurringChargeView>,
        /// What it grants.
        features: Vec<FeatureView>,
        /// What makes every period dearer or cheaper as a whole.
        price_adjustment: Option<PriceAdjustmentView>,
        /// The customers it is made for; none: it is public.
        target_customers: Vec<CustomerBriefView>,
        /// From when on it can be subscribed to; null: not started.
        active_from: Option<Instant>,
        /// Until when it can be subscribed to.
        active_to: Option<Instant>,
        /// The version that its subscriptions renew to; its own id: they stay.
        replace_with: Option<PlanVersionId>,
        /// The plan that its subscriptions renew to.
        transition_to: Option<PlanId>,
        /// Running subscriptions to it.
        active_subscriptions: u64,
        /// When it was made.
        created_on: Instant,
        /// Deprecated: always null.
        usage_billing_frequency: Option<String>,
        /// Deprecated: the timing of the first recurring charge.
        flat_fee_billing_type: ChargeTiming,
        /// Deprecated: the sum of the recurring charges.
        flat_rate: Number,
    }
}

impl PlanVersionView {
    /// Of a version of `plan`.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(
        tx: &mut dyn Transaction,
        catalog: &mut Catalog,
        plan: &Plan,
        version: &PlanVersion,
    ) -> Result<Self, Error> {
        let currency = catalog.currency(tx, &version.currency_code)?;
        let mut target_customers = Vec::with_capacity(version.target_customers.len());
        for target in &version.target_customers {
            match tx.customers().get(target.key) {
                Ok(customer) => target_customers.push(CustomerBriefView::from(&customer)),
                // It was deleted. It stays a target, or the version would turn public.
                Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let metric = |id| catalog.metrics.get(&id).ok_or(Error::NotFound(Noun::Metric));
        let components = version.components.iter();
        let components =
            components.map(|component| Ok(ComponentView::new(component, metric(component.metric)?, &currency)));
        let charges = &version.recurring_charges;
        let timing = charges.first().map_or(ChargeTiming::InAdvance, |charge| charge.timing);
        Ok(Self {
            version_id: version.id,
            version: version.number,
            plan_name: version.name(plan).to_owned(),
            localized_name: version.localized_name.clone(),
            description: version.description.clone().or_else(|| plan.description.clone()),
            status: version.status(catalog.now, catalog.active_subscriptions(version.id)),
            components: components.collect::<Result<_, Error>>()?,
            recurring_charges: charges.iter().map(|charge| RecurringChargeView::new(charge, &currency)).collect(),
            features: version.features.iter().filter_map(|id| catalog.features.get(id)).map(Into::into).collect(),
            price_adjustment: version.price_adjustment.as_ref().map(Into::into),
            currency,
            target_customers,
            active_from: version.active_from.map(Instant),
            active_to: version.active_to.map(Instant),
            replace_with: version.replace_with,
            transition_to: version.transition_to,
            active_subscriptions: catalog.active_subscriptions(version.id),
            created_on: Instant(version.created_at),
            usage_billing_frequency: None,
            flat_fee_billing_type: timing,
            flat_rate: Number(charges.iter().map(|charge| &charge.amount).sum::<BigDecimal>()),
        })
    }
}

view! {
    /// A metered part of a plan version.
    ComponentView {
        /// What is metered.
        billable_metric: MetricView,
        /// What it costs, in order.
        tiers: Vec<TierView>,
        /// What it is priced in.
        pricing_unit: CurrencyView,
        /// How often it is invoiced; null: once a period.
        invoicing_interval_unit: Option<IntervalUnit>,
        /// So many units.
        invoicing_interval_count: Option<u32>,
        /// How often usage starts again from zero; null: once a period.
        reset_interval_unit: Option<IntervalUnit>,
        /// So many units.
        reset_interval_count: Option<u32>,
        /// Units paid for in advance.
        prepaid_charge: Option<PrepaidChargeView>,
        /// Whether the one tier that holds the whole quantity prices all of it.
        bulk_pricing_enabled: bool,
    }
}

impl ComponentView {
    /// Of a component of `metric` that is priced in `currency`.
    pub(super) fn new(component: &Component, metric: &Metric, currency: &CurrencyView) -> Self {
        let (invoicing, reset) = (component.invoicing_interval, component.reset_interval);
        Self {
            billable_metric: metric.into(),
            tiers: component.tiers.tiers().iter().map(Into::into).collect(),
            pricing_unit: currency.clone(),
            invoicing_interval_unit: unit(invoicing),
            invoicing_interval_count: invoicing.map(|interval| interval.count),
            reset_interval_unit: unit(reset),
            reset_interval_count: reset.map(|interval| interval.count),
            prepaid_charge: component.prepaid_charge.as_ref().map(|charge| PrepaidChargeView {
                units: charge.units.as_ref().map(Into::into),
                charge_behavior: charge.behavior,
            }),
            bulk_pricing_enabled: component.tiers.is_bulk(),
        }
    }
}

fn unit(interval: Option<Interval>) -> Option<IntervalUnit> {
    interval.map(|interval| interval.unit)
}

view! {
    /// Units of a component that are paid for in advance.
    PrepaidChargeView {
        /// How many; null: each subscription says.
        units: Option<Number>,
        /// Whether a cut interval costs less.
        charge_behavior: ChargeBehavior,
    }
}

view! {
    /// A price for a range of quantities.
    TierView {
        /// How it is priced.
        r#type: StepKind,
        /// Where it starts.
        range_start: Number,
        /// The last quantity inside; null: without end.
        range_end: Option<Number>,
        /// For `per_unit` the price of a batch, for `flat` the price of the tier.
        cost_per_batch: Option<Number>,
        /// For `per_unit`: metric units in a batch.
        metric_units_per_batch: Option<Number>,
        /// For `per_unit`: how a part of a batch counts.
        batch_rounding_type: Option<BatchRounding>,
    }
}

impl From<&Tier> for TierView {
    fn from(tier: &Tier) -> Self {
        let (kind, cost, units, rounding) = match &tier.price {
            TierPrice::Free => (StepKind::Free, None, None, None),
            TierPrice::Flat { cost } => (StepKind::Flat, Some(cost), None, None),
            TierPrice::PerUnit { cost_per_batch, metric_units_per_batch, batch_rounding } => {
                let rounding = batch_rounding.unwrap_or(BatchRounding::NoRounding);
                (StepKind::PerUnit, Some(cost_per_batch), Some(metric_units_per_batch), Some(rounding))
            }
        };
        Self {
            r#type: kind,
            range_start: (&tier.range_start).into(),
            range_end: tier.range_end.as_ref().map(Into::into),
            cost_per_batch: cost.map(Into::into),
            metric_units_per_batch: units.map(Into::into),
            batch_rounding_type: rounding,
        }
    }
}

view! {
    /// A part of a plan version that is charged by time.
    RecurringChargeView {
        /// Its name.
        name: String,
        /// What one full interval costs.
        amount: Number,
        /// Whether it is charged before or after the time it is for.
        charge_timing: ChargeTiming,
        /// Whether a cut interval costs less.
        charge_behavior: ChargeBehavior,
        /// What it is priced in.
        pricing_unit: CurrencyView,
        /// How often it is invoiced; null: once a period.
        invoicing_interval_unit: Option<IntervalUnit>,
        /// So many units.
        invoicing_interval_count: Option<u32>,
        /// How often it is charged anew; null: once a period.
        reset_interval_unit: Option<IntervalUnit>,
        /// So many units.
        reset_interval_count: Option<u32>,
    }
}

impl RecurringChargeView {
    fn new(charge: &RecurringCharge, currency: &CurrencyView) -> Self {
        Self {
            name: charge.name.clone(),
            amount: (&charge.amount).into(),
            charge_timing: charge.timing,
            charge_behavior: charge.behavior,
            pricing_unit: currency.clone(),
            invoicing_interval_unit: unit(charge.invoicing_interval),
            invoicing_interval_count: charge.invoicing_interval.map(|interval| interval.count),
            reset_interval_unit: unit(charge.reset_interval),
            reset_interval_count: charge.reset_interval.map(|interval| interval.count),
        }
    }
}

view! {
    /// What makes every period dearer or cheaper as a whole.
    PriceAdjustmentView {
        /// Its name.
        price_adjustment_name: String,
        /// What it is.
        price_adjustment_description: Option<String>,
        /// How the amount is meant.
        price_adjustment_type: PriceAdjustmentKind,
        /// Percent, or an amount; negative is a discount.
        price_adjustment_amount: Number,
    }
}

impl From<&PriceAdjustment> for PriceAdjustmentView {
    fn from(adjustment: &PriceAdjustment) -> Self {
        Self {
            price_adjustment_name: adjustment.name.clone(),
            price_adjustment_description: adjustment.description.clone(),
            price_adjustment_type: adjustment.kind,
            price_adjustment_amount: (&adjustment.amount).into(),
        }
    }
}
