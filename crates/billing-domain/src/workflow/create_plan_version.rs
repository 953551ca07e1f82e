//! Creates a version of a plan.

use bigdecimal::{BigDecimal, Signed};
use time::OffsetDateTime;

use super::find_currency::look_up_currency;
use super::tell::tell_of_organization;
use crate::customer::CustomerId;
use crate::error::{Error, FieldCode, FieldErrors, Noun, Refusal};
use crate::faults::{check_once, look_up};
use crate::id::{CustomerKey, FeatureId, MetricId, PlanId};
use crate::message::{MessageType, Subject};
use crate::period::{Anchors, Interval};
use crate::plan::{
    ChargeBehavior, ChargeTiming, Component, PlanVersion, PrepaidCharge, PriceAdjustment, PriceAdjustmentKind,
    RecurringCharge, TargetCustomer,
};
use crate::store::Transaction;
use crate::text;
use crate::tier::TierSchedule;

/// A new version of an existing plan.
#[derive(Clone, Debug)]
pub struct CreatePlanVersion {
    /// The plan.
    pub plan: PlanId,
    /// The version.
    pub version: NewPlanVersion,
}

/// A plan version that has no id yet.
#[derive(Clone, Debug)]
pub struct NewPlanVersion {
    /// Its number; `None`: one more than the highest.
    pub number: Option<u32>,
    /// A name in place of the plan's.
    pub localized_name: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// Code of its currency.
    pub currency_code: String,
    /// What is charged by usage.
    pub components: Vec<NewComponent>,
    /// What is charged by time.
    pub recurring_charges: Vec<NewRecurringCharge>,
    /// What it grants.
    pub features: Vec<FeatureId>,
    /// What makes every period dearer or cheaper as a whole.
    pub price_adjustment: Option<PriceAdjustment>,
    /// Day and month that its periods are aligned to.
    pub anchors: Anchors,
    /// The customers it is made for; empty: it is public.
    pub target_customers: Vec<CustomerId>,
    /// From when on it can be subscribed to.
    pub active_from: ActiveFrom,
    /// Until when it can be subscribed to.
    pub active_to: Option<OffsetDateTime>,
    /// What becomes of the other public versions in the same currency.
    pub make_active_type: MakeActiveType,
}

impl NewPlanVersion {
    /// A public version that charges nothing, active at once.
    pub fn empty(currency_code: &str) -> Self {
        Self {
            number: None,
            localized_name: None,
            description: None,
            currency_code: currency_code.to_owned(),
            components: Vec::new(),
            recurring_charges: Vec::new(),
            features: Vec::new(),
            price_adjustment: None,
            anchors: Anchors::NONE,
            target_customers: Vec::new(),
            active_from: ActiveFrom::Now,
            active_to: None,
            make_active_type: MakeActiveType::ReplaceOnRenewal,
        }
    }
}

/// From when on a new version can be subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActiveFrom {
    /// At once.
    Now,
    /// From an instant on.
    At(OffsetDateTime),
    /// Not until it is given an instant.
    NotStarted,
}

impl ActiveFrom {
    fn at(self, now: OffsetDateTime) -> Option<OffsetDateTime> {
        match self {
            Self::Now => Some(now),
            Self::At(instant) => Some(instant),
            Self::NotStarted => None,
        }
    }
}

choices! {
    /// What becomes of the versions that a new public version takes the place of.
    pub MakeActiveType {
        /// Their subscriptions renew to the new one.
        ReplaceOnRenewal = "replace_on_renewal",
        /// Their subscriptions stay on them.
        Grandfather = "grandfather",
    }
}

/// A component that has no id yet; see [`Component`].
#[derive(Clone, Debug)]
pub struct NewComponent {
    /// What is metered.
    pub metric: MetricId,
    /// What it costs.
    pub tiers: TierSchedule,
    /// How often it is put on an invoice.
    pub invoicing_interval: Option<Interval>,
    /// How often usage starts again from zero.
    pub reset_interval: Option<Interval>,
    /// Units paid for in advance.
    pub prepaid_charge: Option<PrepaidCharge>,
}

/// A recurring charge that has no id yet; see [`RecurringCharge`].
#[derive(Clone, Debug)]
pub struct NewRecurringCharge {
    /// Its name.
    pub name: String,
    /// What one full interval costs.
    pub amount: BigDecimal,
    /// Before or after the time it is for.
    pub timing: ChargeTiming,
    /// Whether a cut interval costs less.
    pub behavior: ChargeBehavior,
    /// How often it is put on an invoice.
    pub invoicing_interval: Option<Interval>,
    /// How often it is charged anew.
    pub reset_interval: Option<Interval>,
}

/// Creates a version and lets it take the place of the plan's other public versions in the same currency.
///
/// # Errors
/// Every bad field; [`Error::NotFound`] for the plan; [`Refusal::DuplicateResource`] when the number is taken
/// in the currency.
pub fn create_plan_version(
    tx: &mut dyn Transaction,
    command: &CreatePlanVersion,
    now: OffsetDateTime,
) -> Result<PlanVersion, Error> {
    tx.plans().get(command.plan)?;
    command.version.faults(tx, now)?.finish(())?;
    create_checked(tx, command, now)
}

/// [`create_plan_version`] of a version without faults, for a plan that exists.
pub(super) fn create_checked(
    tx: &mut dyn Transaction,
    command: &CreatePlanVersion,
    now: OffsetDateTime,
) -> Result<PlanVersion, Error> {
    let others = tx.plans().list_versions(Some(command.plan))?;
    let version = build(tx, command.plan, &command.version, &others, now)?;
    tx.plans().insert_version(&version)?;
    let version = take_places(tx, version, command.version.make_active_type, now)?;
    tell_published(tx, &version, now)?;
    Ok(version)
}

/// Tells of a version that it got the instant from which on it can be subscribed to, if it has one.
pub(super) fn tell_published(
    tx: &mut dyn Transaction,
    version: &PlanVersion,
    now: OffsetDateTime,
) -> Result<(), Error> {
    if version.active_from.is_none() {
        return Ok(());
    }
    let plan = tx.plans().get(version.plan)?;
    let published = Subject::PlanVersion(plan, version.clone(), now);
    tell_of_organization(tx, (MessageType::PlanVersionPublished, now), &published)
}

/// Ends the public versions in the same currency that `version` takes the place of, and `version` itself where one
/// that is to come takes its place: at no time may there be two to choose from.
pub(super) fn take_places(
    tx: &mut dyn Transaction,
    mut version: PlanVersion,
    make_active_type: MakeActiveType,
    now: OffsetDateTime,
) -> Result<PlanVersion, Error> {
    let Some(from) = version.active_from.filter(|_| !version.is_custom()) else { return Ok(version) };
    for mut other in tx.plans().list_versions(Some(version.plan))? {
        let is_rival = other.id != version.id && !other.is_custom() && other.currency_code == version.currency_code;
        let Some(other_from) = other.active_from.filter(|_| is_rival) else { continue };
        if other_from > from.max(now) {
            if !version.is_ended(other_from) {
                version.active_to = Some(other_from);
                version.replace_with.get_or_insert(other.id);
                tx.plans().update_version(&version)?;
            }
            continue;
        }
        // One that began later than a start in the past makes way from its own beginning.
        let at = from.max(other_from);
        let is_history = other_from > from && version.is_ended(now);
        if !other.is_ended(at) && !is_history {
            other.active_to = Some(at);
            other.replace_with = Some(match make_active_type {
                MakeActiveType::ReplaceOnRenewal => version.id,
                MakeActiveType::Grandfather => other.id,
            });
            tx.plans().update_version(&other)?;
        }
    }
    Ok(version)
}

/// The version that a description without faults makes, checked against the plan's other versions.
pub(super) fn build(
    tx: &mut dyn Transaction,
    plan: PlanId,
    new: &NewPlanVersion,
    others: &[PlanVersion],
    now: OffsetDateTime,
) -> Result<PlanVersion, Error> {
    let organization = tx.organization();
    let number = new.number.unwrap_or_else(|| others.iter().map(|other| other.number).max().unwrap_or(0) + 1);
    let version = PlanVersion {
        id: tx.new_uuid().into(),
        plan,
        number,
        localized_name: new.localized_name.clone(),
        description: new.description.clone(),
        currency_code: new.currency_code.clone(),
        components: new.components.iter().map(|component| component_of(tx, component)).collect(),
        recurring_charges: new.recurring_charges.iter().map(|charge| recurring_charge_of(tx, charge)).collect(),
        features: new.features.clone(),
        price_adjustment: new.price_adjustment.clone(),
        anchors: new.anchors,
        target_customers: new
            .target_customers
            .iter()
            .map(|id| TargetCustomer { key: CustomerKey::derive(organization, id), id: id.clone() })
            .collect(),
        active_from: new.active_from.at(now),
        active_to: new.active_to,
        replace_with: None,
        transition_to: None,
        created_at: now,
        deleted_at: None,
    };
    let taken = |other: &PlanVersion| {
        other.number == number
            && other.currency_code == version.currency_code
            && !other.is_custom()
            && !version.is_custom()
    };
    if others.iter().any(taken) {
        return Err(Refusal::DuplicateResource("The plan has a version of this number in this currency").into());
    }
    Ok(version)
}

impl NewPlanVersion {
    pub(super) fn faults(&self, tx: &mut dyn Transaction, now: OffsetDateTime) -> Result<FieldErrors, Error> {
        let mut errors = check_values(self);
        check_references(tx, self, &mut errors)?;
        let metrics = self.components.iter().map(|component| component.metric).collect::<Vec<_>>();
        let names = self.recurring_charges.iter().map(|charge| charge.name.as_str()).collect::<Vec<_>>();
        errors.0.extend(PlanVersion::faults_of(&metrics, &names, (self.active_from.at(now), self.active_to)).0);
        Ok(errors)
    }
}

fn component_of(tx: &mut dyn Transaction, new: &NewComponent) -> Component {
    Component {
        id: tx.new_uuid().into(),
        metric: new.metric,
        tiers: new.tiers.clone(),
        invoicing_interval: new.invoicing_interval,
        reset_interval: new.reset_interval,
        prepaid_charge: new.prepaid_charge.clone(),
    }
}

fn recurring_charge_of(tx: &mut dyn Transaction, new: &NewRecurringCharge) -> RecurringCharge {
    RecurringCharge {
        id: tx.new_uuid().into(),
        name: new.name.clone(),
        amount: new.amount.clone(),
        timing: new.timing,
        behavior: new.behavior,
        invoicing_interval: new.invoicing_interval,
        reset_interval: new.reset_interval,
    }
}

fn check_values(new: &NewPlanVersion) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if new.number == Some(0) {
        errors.push("version", FieldCode::MinValue, "Ensure this value is greater than or equal to 1.");
    }
    if let Some(name) = &new.localized_name {
        errors.keep("localized_name", text::check(name, text::NAME_CHARACTERS_MAX));
    }
    if let Some(description) = &new.description {
        errors.keep("description", text::check_length(description, text::DESCRIPTION_CHARACTERS_MAX));
    }
    for (i, charge) in new.recurring_charges.iter().enumerate() {
        errors.keep(&format!("recurring_charges.{i}.name"), text::check(&charge.name, text::NAME_CHARACTERS_MAX));
        if charge.amount.is_negative() {
            let detail = "Ensure this value is greater than or equal to 0.";
            errors.push(format!("recurring_charges.{i}.amount"), FieldCode::MinValue, detail);
        }
    }
    for (i, component) in new.components.iter().enumerate() {
        let units = component.prepaid_charge.as_ref().and_then(|charge| charge.units.as_ref());
        if units.is_some_and(BigDecimal::is_negative) {
            let detail = "Ensure this value is greater than or equal to 0.";
            errors.push(format!("components.{i}.prepaid_charge.units"), FieldCode::MinValue, detail);
        }
    }
    if let Some(adjustment) = &new.price_adjustment {
        let name = text::check(&adjustment.name, text::NAME_CHARACTERS_MAX);
        errors.keep("price_adjustment.price_adjustment_name", name);
        if let Some(description) = &adjustment.description {
            let length = text::check_length(description, text::DESCRIPTION_CHARACTERS_MAX);
            errors.keep("price_adjustment.price_adjustment_description", length);
        }
        if adjustment.kind == PriceAdjustmentKind::PriceOverride && adjustment.amount.is_negative() {
            let detail = "A price is not below 0.";
            errors.push("price_adjustment.price_adjustment_amount", FieldCode::MinValue, detail);
        }
    }
    errors
}

fn check_references(tx: &mut dyn Transaction, new: &NewPlanVersion, errors: &mut FieldErrors) -> Result<(), Error> {
    look_up_currency(errors, "currency_code", tx, &new.currency_code)?;
    for (i, component) in new.components.iter().enumerate() {
        let metric = tx.metrics().get(component.metric).and_then(|metric| match metric.archived_at {
            Some(_) => Err(Error::NotFound(Noun::Metric)),
            None => Ok(()),
        });
        look_up(errors, &format!("components.{i}.metric_id"), metric)?;
    }
    for (i, feature) in new.features.iter().enumerate() {
        look_up(errors, &format!("features.{i}"), tx.features().get(*feature))?;
    }
    check_once(errors, "features", &new.features);
    check_targets(tx, &new.target_customers, errors)
}

/// Notes the customers among `targets` that do not exist, or are there twice.
pub(super) fn check_targets(
    tx: &mut dyn Transaction,
    targets: &[CustomerId],
    errors: &mut FieldErrors,
) -> Result<(), Error> {
    for (i, customer) in targets.iter().enumerate() {
        let key = CustomerKey::derive(tx.organization(), customer);
        look_up(errors, &format!("target_customers.{i}"), tx.customers().get(key))?;
    }
    check_once(errors, "target_customers", targets);
    Ok(())
}
