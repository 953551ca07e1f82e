//! Plans and their versions: what is charged, and to whom it is on offer.

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use crate::adjustment;
use crate::customer::CustomerId;
use crate::error::{FieldCode, FieldErrors, Refusal};
use crate::id::{ComponentId, CustomerKey, FeatureId, MetricId, PlanId, PlanVersionId, RecurringChargeId};
use crate::period::{Anchors, Interval, PlanDuration};
use crate::tier::TierSchedule;

/// A plan: a name over a sequence of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its id.
    pub id: PlanId,
    /// Its name; a version may have a name of its own.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// How long its subscriptions last; `None`: each subscription names its own end.
    pub duration: Option<PlanDuration>,
    /// Tags, compared without regard to case.
    pub tags: Vec<String>,
    /// The plan's counterparts at payment providers.
    pub external_links: Vec<ExternalLink>,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// When it was deleted, if it was.
    pub deleted_at: Option<OffsetDateTime>,
}

impl Plan {
    /// Whether the plan carries `tag`, whatever its case.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|known| known.to_lowercase() == tag.to_lowercase())
    }
}

/// A plan's counterpart at a payment provider.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExternalLink {
    /// `stripe` or `braintree`.
    pub source: String,
    /// The plan's id there.
    pub external_plan_id: String,
}

/// Something a plan grants that is not metered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its id.
    pub id: FeatureId,
    /// Its name, unique in the organization.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
}

/// One revision of a plan. Nothing that is charged ever changes in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanVersion {
    /// Its id.
    pub id: PlanVersionId,
    /// The plan.
    pub plan: PlanId,
    /// Its number, 1 and up.
    pub number: u32,
    /// A name in place of the plan's.
    pub localized_name: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// Code of the currency that everything in it is priced in.
    pub currency_code: String,
    /// What is charged by usage. No two components share a metric.
    pub components: Vec<Component>,
    /// What is charged by time. No two charges share a name.
    pub recurring_charges: Vec<RecurringCharge>,
    /// What it grants.
    pub features: Vec<FeatureId>,
    /// What makes every period dearer or cheaper as a whole.
    pub price_adjustment: Option<PriceAdjustment>,
    /// Day and month that its periods are aligned to.
    pub anchors: Anchors,
    /// The customers it is made for; empty: it is public.
    pub target_customers: Vec<TargetCustomer>,
    /// From when on it can be subscribed to; `None` or later than now: not started.
    pub active_from: Option<OffsetDateTime>,
    /// Until when it can be subscribed to.
    pub active_to: Option<OffsetDateTime>,
    /// The version that its subscriptions renew to; its own id: they stay for good.
    pub replace_with: Option<PlanVersionId>,
    /// The plan that its subscriptions renew to, before [`PlanVersion::replace_with`].
    pub transition_to: Option<PlanId>,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// When it was deleted, if it was.
    pub deleted_at: Option<OffsetDateTime>,
}

/// A customer a version is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetCustomer {
    /// The key.
    pub key: CustomerKey,
    /// The caller's own id.
    pub id: CustomerId,
}

/// A metered part of a plan version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Its id.
    pub id: ComponentId,
    /// What is metered.
    pub metric: MetricId,
    /// What it costs.
    pub tiers: TierSchedule,
    /// How often it is put on an invoice; `None`: once, at the end of the subscription's period.
    pub invoicing_interval: Option<Interval>,
    /// How often usage starts again from zero; `None`: once a period.
    pub reset_interval: Option<Interval>,
    /// Units paid for in advance.
    pub prepaid_charge: Option<PrepaidCharge>,
}

/// Units of a component that are paid for at the start of every reset interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepaidCharge {
    /// How many, unless the subscription says otherwise; `None`: the subscription must say.
    pub units: Option<BigDecimal>,
    /// Whether a cut interval costs less.
    pub behavior: ChargeBehavior,
}

/// A part of a plan version that is charged by time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecurringCharge {
    /// Its id.
    pub id: RecurringChargeId,
    /// Its name, unique in the version.
    pub name: String,
    /// What one full interval costs, in major units of the version's currency.
    pub amount: BigDecimal,
    /// Whether it is charged before or after the time it is for.
    pub timing: ChargeTiming,
    /// Whether a cut interval costs less.
    pub behavior: ChargeBehavior,
    /// How often it is put on an invoice; `None`: once a plan duration.
    pub invoicing_interval: Option<Interval>,
    /// How often it is charged anew; `None`: once a plan duration.
    pub reset_interval: Option<Interval>,
}

/// What makes a subscription's period dearer or cheaper as a whole, as a plan version carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceAdjustment {
    /// Its name, as invoices show it.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// How [`PriceAdjustment::amount`] is meant.
    pub kind: PriceAdjustmentKind,
    /// Percent for a percentage, otherwise major units of the version's currency; negative is a discount.
    pub amount: BigDecimal,
}

impl PriceAdjustment {
    /// The rule by which it makes the price of a period.
    pub fn rule(&self) -> adjustment::PriceAdjustment {
        let amount = self.amount.clone();
        match self.kind {
            PriceAdjustmentKind::Percentage => adjustment::PriceAdjustment::Percentage { percent: amount },
            PriceAdjustmentKind::Fixed => adjustment::PriceAdjustment::Fixed { amount },
            PriceAdjustmentKind::PriceOverride => adjustment::PriceAdjustment::PriceOverride { amount },
        }
    }
}

choices! {
    /// When a recurring charge is billed.
    pub ChargeTiming {
        /// At the start of the time it is for.
        InAdvance = "in_advance",
        /// At the end of the time it is for.
        InArrears = "in_arrears",
    }
}

choices! {
    /// What a charge costs when its interval is cut short.
    pub ChargeBehavior {
        /// The part of the interval that was used, to the microsecond.
        Prorate = "prorate",
        /// All of it.
        Full = "full",
    }
}

choices! {
    /// How the amount of a price adjustment is meant.
    pub PriceAdjustmentKind {
        /// So many percent more (or, negative, less).
        Percentage = "percentage",
        /// So much more (or, negative, less) for one full period.
        Fixed = "fixed",
        /// This is what a full period costs, whatever its charges.
        PriceOverride = "price_override",
    }
}

choices! {
    /// Where a plan version stands.
    pub PlanVersionStatus {
        /// It can be subscribed to.
        Active = "active",
        /// It has ended; its subscriptions renew to another version.
        Retiring = "retiring",
        /// It has ended; its subscriptions stay on it.
        Grandfathered = "grandfathered",
        /// It was deleted.
        Deleted = "deleted",
        /// It has ended and nobody is subscribed to it.
        Inactive = "inactive",
        /// It cannot be subscribed to yet.
        NotStarted = "not_started",
    }
}

impl PlanVersion {
    /// Whether it can be subscribed to at `now`.
    pub fn is_active(&self, now: OffsetDateTime) -> bool {
        self.active_from.is_some_and(|from| from <= now) && !self.is_ended(now)
    }

    /// Whether its time to be subscribed to is over at `now`.
    pub fn is_ended(&self, now: OffsetDateTime) -> bool {
        self.active_to.is_some_and(|to| to <= now)
    }

    /// Whether its time to be subscribed to has not come at `now`.
    pub fn is_not_started(&self, now: OffsetDateTime) -> bool {
        self.active_from.is_none_or(|from| from > now)
    }

    /// Whether it is made for certain customers.
    pub fn is_custom(&self) -> bool {
        !self.target_customers.is_empty()
    }

    /// Whether `customer` may subscribe to it.
    pub fn is_offered_to(&self, customer: CustomerKey) -> bool {
        !self.is_custom() || self.target_customers.iter().any(|target| target.key == customer)
    }

    /// Where the version stands at `now`, given how many subscriptions to it run then.
    pub fn status(&self, now: OffsetDateTime, active_subscriptions: u64) -> PlanVersionStatus {
        if self.deleted_at.is_some() {
            PlanVersionStatus::Deleted
        } else if self.is_not_started(now) {
            PlanVersionStatus::NotStarted
        } else if !self.is_ended(now) {
            PlanVersionStatus::Active
        } else if active_subscriptions == 0 {
            PlanVersionStatus::Inactive
        } else if self.transition_to.is_none() && self.replace_with.is_none_or(|other| other == self.id) {
            PlanVersionStatus::Grandfathered
        } else {
            PlanVersionStatus::Retiring
        }
    }

    /// The intervals that its charges reset and are invoiced by; the plan's duration is not among them.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> {
        let charges = self.recurring_charges.iter().map(|charge| [charge.reset_interval, charge.invoicing_interval]);
        let components =
            self.components.iter().map(|component| [component.reset_interval, component.invoicing_interval]);
        charges.chain(components).flatten().flatten()
    }

    /// The component that meters `metric`.
    pub fn component_of(&self, metric: MetricId) -> Option<&Component> {
        self.components.iter().find(|component| component.metric == metric)
    }

    /// Whether the two meter a metric both: their subscriptions would charge its usage twice.
    pub fn shares_metric(&self, other: &Self) -> bool {
        self.metrics().any(|metric| other.component_of(metric).is_some())
    }

    /// The version's own name, otherwise the plan's.
    pub fn name<'n>(&'n self, plan: &'n Plan) -> &'n str {
        self.localized_name.as_deref().unwrap_or(&plan.name)
    }

    /// Checks what the parts must respect together.
    ///
    /// # Errors
    /// Every fault: a metric metered twice, a charge name used twice, an active span that ends before it starts.
    pub fn validate(&self) -> Result<(), FieldErrors> {
        let metrics = self.components.iter().map(|component| component.metric).collect::<Vec<_>>();
        let names = self.recurring_charges.iter().map(|charge| charge.name.as_str()).collect::<Vec<_>>();
        Self::faults_of(&metrics, &names, (self.active_from, self.active_to)).finish(())
    }

    /// What is wrong with a version whose components are of these metrics, whose recurring charges are called like this,
    /// and that can be subscribed to from and until these instants.
    pub(crate) fn faults_of(
        metrics: &[MetricId],
        names: &[&str],
        (from, to): (Option<OffsetDateTime>, Option<OffsetDateTime>),
    ) -> FieldErrors {
        let mut errors = FieldErrors::default();
        for (i, metric) in metrics.iter().enumerate() {
            if metrics[..i].contains(metric) {
                let detail = "Another component of this version has the same metric.";
                errors.push(format!("components.{i}.metric_id"), FieldCode::Unique, detail);
            }
        }
        for (i, name) in names.iter().enumerate() {
            if names[..i].contains(name) {
                let detail = "Another recurring charge of this version has the same name.";
                errors.push(format!("recurring_charges.{i}.name"), FieldCode::Unique, detail);
            }
        }
        if let (Some(from), Some(to)) = (from, to)
            && to < from
        {
            errors.push("active_to", FieldCode::MinValue, "active_to must not be before active_from.");
        }
        errors
    }
}

/// Chooses the version of a plan that a customer gets when only the plan is named.
///
/// Of the versions active at `now`: those made for the customer come before public ones; among several, the
/// customer's currency decides, then the organization's. A version made for other customers never counts.
/// A customer whose test clock stands before the plan was made sees it as on the day of its latest version.
///
/// # Errors
/// [`Refusal::NoMatchingPlanVersion`], [`Refusal::AmbiguousPlanVersion`], or
/// [`Refusal::PlanNotAvailableToCustomer`] when the only active version is made for others.
pub fn choose_version<'v>(
    versions: &'v [PlanVersion],
    customer: CustomerKey,
    currencies: [&str; 2],
    now: OffsetDateTime,
) -> Result<&'v PlanVersion, Refusal> {
    let active_at = |instant| versions.iter().filter(|version| version.is_active(instant)).collect::<Vec<_>>();
    let latest = versions.iter().map(|version| version.created_at).max().unwrap_or(now);
    let mut active = active_at(now);
    if active.is_empty() && now < latest {
        active = active_at(latest);
    }
    let offered: Vec<_> = active.iter().copied().filter(|version| version.is_offered_to(customer)).collect();
    let targeted: Vec<_> = offered.iter().copied().filter(|version| version.is_custom()).collect();
    match (offered.as_slice(), active.as_slice()) {
        ([only], _) => return Ok(only),
        ([], [_]) => return Err(Refusal::PlanNotAvailableToCustomer),
        ([], _) => return Err(Refusal::NoMatchingPlanVersion),
        _ => {}
    }
    let candidates = if targeted.is_empty() { offered } else { targeted };
    if let [only] = candidates.as_slice() {
        return Ok(only);
    }
    for currency in currencies {
        let mut matching = candidates.iter().filter(|version| version.currency_code == currency);
        match (matching.next(), matching.next()) {
            (Some(only), None) => return Ok(only),
            (Some(_), Some(_)) => return Err(Refusal::AmbiguousPlanVersion),
            (None, _) => {}
        }
    }
    Err(Refusal::NoMatchingPlanVersion)
}
